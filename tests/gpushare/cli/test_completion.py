"""Promises of gpushare.cli.completion: the words that may stand at the end of a command line."""

from __future__ import annotations

import pytest

from gpushare.cli.completion import complete, value_given
from gpushare.cli.flags import Flag, flags_of
from gpushare.kubectl_gpushare.gpushare_arguments import (
    ExplainArguments,
    SimulateArguments,
    TopArguments,
)

EXPLAIN = [*flags_of(ExplainArguments)]
TOP = [*flags_of(TopArguments)]
SIMULATE = [*flags_of(SimulateArguments)]
NAMES = ("pod-a", "pod-b", "web")


def lines(declared: list[Flag], *words: str) -> list[str]:
    """The answer, with the names above as those of all objects, without what they mean."""
    wanted = complete(declared, words)
    return [line.partition("\t")[0] for line in wanted.text(NAMES if wanted.objects else ()).splitlines()]


@pytest.mark.parametrize(
    ("declared", "words", "expected"),
    [
        (EXPLAIN, ["--na"], ["--namespace", ":4"]),
        (EXPLAIN, ["pod-a", "--no"], ["--no-headers", ":4"]),
        (EXPLAIN, ["-o", "j"], ["json", ":4"]),
        (EXPLAIN, ["--output=y"], ["--output=yaml", ":4"]),
        (EXPLAIN, ["po"], ["pod-a", "pod-b", ":4"]),
        (EXPLAIN, [], [*NAMES, ":4"]),
        (EXPLAIN, ["-n", "we"], ["web", ":4"]),
        (EXPLAIN, ["--namespace=we"], ["--namespace=web", ":4"]),
        (EXPLAIN, ["--no-headers", "w"], ["web", ":4"]),
        (EXPLAIN, ["--nonsense=w"], [":4"]),
        (EXPLAIN, ["--kubeconfig", ""], [":0"]),
        (TOP, ["-A", ""], ["nodes", "pods", ":4"]),
        (SIMULATE, ["-f", ""], [":0"]),
        (SIMULATE, [""], [":4"]),
        (SIMULATE, ["--policy", "s"], ["spread", ":4"]),
    ],
)
def test_the_last_word_is_completed(declared: list[Flag], words: list[str], expected: list[str]) -> None:
    """By the flags, by the values of one, or by names; the last line is 0 if the shell may complete files, else 4."""
    assert lines(declared, *words) == expected


def test_each_candidate_has_its_meaning() -> None:
    """It stands behind a tab, as kubectl shows it."""
    assert (
        "--check\texit with 3 if not all pods have room, or some could not be judged\n"
        in complete(SIMULATE, ["--ch"]).text()
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], None),
        (["-n", "a"], "a"),
        (["--namespace=a", "x"], "a"),
        (["-n", "a", "--namespace", "b"], "b"),
        (["-n"], None),
    ],
)
def test_the_namespace_that_was_given_is_found(words: list[str], expected: str | None) -> None:
    """The last one counts, in each spelling."""
    assert value_given(EXPLAIN, words, "namespace") == expected
