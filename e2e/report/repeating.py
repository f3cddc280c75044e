"""The command that repeats a failure: pytest's words of this run that change what a case sees. Pure.

A case is repeated alone, without the words that choose cases. If the order was random, the files that its process had begun are
repeated in that order, each with the cases that ran then.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Final

# What is always named, though it may be a default; what is if the run has named it; and what is then in random order alone.
_ALWAYS: Final = ("--cluster", "--target")
_IF_NAMED: Final = (
    "--kubernetes", "--assets", "--node-image", "--image-base", "--kubeconfig", "--context", "--bursts", "--burst",
    "--burst-seed", "--random-clusters", "--chaos-seconds", "--chaos-seed", "--seed", "--require-control-plane", "--slow",
)  # fmt: skip
_CHOOSING: Final = ("--profile", "-k", "-m", "--quick", "--not-exhaustive")
_WITHOUT_VALUE: Final = ("--require-control-plane", "--slow", "--quick", "--not-exhaustive")


# The package of a wheel that has the suite below it, as pytest_plugin lays it down; "" in our checkout.
_PACKAGE: Final = ".".join((__package__ or "").split(".")[:-2])
# Before the names of options there.
_OF_WHEEL: Final = "--gpu-"


def again(
    python: str,
    nodeid: str,
    always: dict[str, str],
    words: Sequence[str],
    files: Sequence[str] = (),
    package: str = _PACKAGE,
) -> str:
    """The command, in one line; ``always`` are the values of the options that are always named, ``files`` those in random order."""
    before = _OF_WHEEL if package else "--"
    named = [word for flag in _ALWAYS for word in (before + flag.removeprefix("--"), always[flag])]
    cases = [_named(one, package) for one in files or [nodeid]]
    kept = _kept(words, (*_IF_NAMED, *(_CHOOSING if files else ())), before)
    command = shlex.join([python, "-m", "pytest", *(["--pyargs"] if package else []), *cases, *named, *kept])
    return f"{command}  # {nodeid}" if files else command


def _named(case: str, package: str) -> str:
    """The name by which pytest finds a file or a case: its path, or its module in a wheel."""
    path, separator, test = case.partition("::")
    module = ".".join((package, *PurePath(path).with_suffix("").parts))
    return f"{module}{separator}{test}" if package else case


def _kept(words: Iterable[str], flags: Sequence[str], before: str) -> Iterator[str]:
    """The options that count, each with its value if it has one."""
    takes_value = False
    for word in words:
        flag, has_value, _ = word.partition("=")
        if flag.startswith("--"):
            flag = f"--{flag.removeprefix(before)}" if flag.startswith(before) else ""
        if flag in flags:
            yield word
            takes_value = not has_value and flag not in _WITHOUT_VALUE
        elif takes_value:
            yield word
            takes_value = False
