"""Promises of the command line."""

from __future__ import annotations

from typing import Any

import pytest

from gpushare.errors import UsageError
from gpushare.kubectl_gpushare.gpushare_arguments import VERBS, parse


def parsed(*words: str) -> Any:
    """The arguments of a command line."""
    return parse("kubectl-gpushare", words)


def test_a_pod_is_named_as_kubectl_names_it() -> None:
    """A name alone, or with its kind."""
    assert [parsed("explain", word).pod for word in ("p", "pod/p", "po/p", "pods/p")] == ["p"] * 4
    assert parsed("explain", "p", "-n", "team", "-o", "json").view.namespace == "team"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "no command; there are explain, simulate, top, events, doctor"),
        (("explan",), "'explan' is no command"),
        (("explain",), "which pod?"),
        (("simulate",), "which pods?"),
    ],
)
def test_what_lacks_is_named(words: tuple[str, ...], text: str) -> None:
    """With what to type."""
    with pytest.raises(UsageError, match=text):
        parsed(*words)


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "node/p"),
        ("explain", "p", "-o", "xml"),
        ("simulate", "-f", "x", "--replicas", "-1"),
        ("simulate", "-f", "x", "--policy", "best"),
        ("top", "cards"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """With 2, and with the usage."""
    with pytest.raises(SystemExit) as ended:
        parsed(*words)

    assert ended.value.code == 2
    assert f"usage: kubectl gpushare {words[0]}" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["-h", "--help", "help", "--version"])
def test_help_and_version(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command has a line in the help."""
    with pytest.raises(SystemExit) as ended:
        parsed(word)

    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert out.startswith(("usage: kubectl gpushare COMMAND", "kubectl gpushare "))
    assert word == "--version" or all(f"\n  {verb} " in out for verb in VERBS)


def test_the_help_of_a_command_has_its_flags(capsys: pytest.CaptureFixture[str]) -> None:
    """With kubectl's own."""
    with pytest.raises(SystemExit) as ended:
        parsed("simulate", "--help")

    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert all(flag in out for flag in ("--replicas", "--filename", "-f ", "--kubeconfig", "--namespace", "-n "))
