"""Promises of the command line."""

from __future__ import annotations

from typing import Any

import pytest

from gpushare.errors import UsageError
from gpushare.kubectl_gpushare.gpushare_arguments import VERBS, parse


def parsed(*words: str) -> Any:
    """The arguments of a command line."""
    return parse("kubectl-gpushare", words)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("p", ("", "p")),
        ("pod/p", ("pod", "p")),
        ("PO/p", ("pod", "p")),
        ("pods.v1./p", ("pod", "p")),
        ("pod pod", ("pod", "pod")),
        ("deploy -n team web", ("deployment", "web")),
        ("deployments.apps/web", ("deployment", "web")),
        ("deployment.v1.apps web", ("deployment", "web")),
        ("-n team sts/web", ("statefulset", "web")),
        ("jobs/fit", ("job", "fit")),
        ("cj nightly", ("cronjob", "nightly")),
    ],
)
def test_an_object_is_named_as_kubectl_names_it(words: str, wanted: tuple[str, str]) -> None:
    """NAME, TYPE/NAME, or TYPE NAME; a type by any of its words, with its group or without."""
    assert parsed("explain", *words.split()).wanted == wanted


@pytest.mark.parametrize("words", ["node/p", "deployment.batch/web", "a/b/c", "pod/", "/p", "p q", "pod p q"])
def test_what_is_no_name_is_refused(words: str) -> None:
    """As a wrong use of the command."""
    with pytest.raises((UsageError, SystemExit)):
        parsed("explain", *words.split())


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((), ("pods", ())),
        (("nodes",), ("nodes", ())),
        (("no", "a", "node/b"), ("nodes", ("a", "b"))),
        (("pod", "p"), ("pods", ("p",))),
        (("node/a", "-o", "wide", "nodes/b"), ("nodes", ("a", "b"))),
    ],
)
def test_top_takes_a_type_and_names(words: tuple[str, ...], wanted: tuple[str, tuple[str, ...]]) -> None:
    """As kubectl does, and as ``-o name`` prints them."""
    assert parsed("top", *words).wanted == wanted


def test_events_take_names_of_objects() -> None:
    """With their type or without."""
    assert parsed("events", "node/a", "-A", "p", "deployment.apps/web").names == (
        ("node", "a"), ("", "p"), ("deployment", "web"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("top", "cards"), "'cards': 'cards' is none of the types node, pod"),
        (("top", "node/a", "pod/b"), "'node/a pod/b' names nodes and pods"),
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


@pytest.mark.parametrize("word", ["-h", "--help", "help", "--version"])
def test_help_and_version(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command has a line in the help."""
    with pytest.raises(SystemExit) as ended:
        parsed(word)

    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert out.startswith(("usage: kubectl gpushare COMMAND", "kubectl gpushare "))
    assert word == "--version" or all(f"\n  {verb} " in out for verb in VERBS)
