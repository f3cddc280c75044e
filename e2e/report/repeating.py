"""The command that repeats one case: pytest's words of this run that change what a case sees, and none that choose cases. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Final

# What is always named, though it may be a default; and what is if the run has named it.
_ALWAYS: Final = ("--cluster", "--target")
_IF_NAMED: Final = (
    "--kubernetes", "--assets", "--node-image", "--image-base", "--kubeconfig", "--context", "--restarts", "--bursts",
    "--burst-seed", "--chaos-seconds", "--chaos-seed", "--seed", "--require-control-plane", "--slow",
)  # fmt: skip


# The package of a wheel that has the suite below it, as pytest_plugin lays it down; "" in our checkout.
_PACKAGE: Final = ".".join((__package__ or "").split(".")[:-2])
# Before the names of options there.
_OF_WHEEL: Final = "--gpu-"


def again(python: str, nodeid: str, always: dict[str, str], words: Sequence[str], package: str = _PACKAGE) -> str:
    """The command, in one line; ``always`` are the values of the options that are always named."""
    before = _OF_WHEEL if package else "--"
    named = [word for flag in _ALWAYS for word in (before + flag.removeprefix("--"), always[flag])]
    path, _, test = nodeid.partition("::")
    module = ".".join((package, *PurePath(path).with_suffix("").parts))
    case = ["--pyargs", f"{module}::{test}"] if package else [nodeid]
    return shlex.join([python, "-m", "pytest", *case, *named, *_kept(words, before)])


def _kept(words: Iterable[str], before: str) -> Iterator[str]:
    """The options that count, each with its value if it has one."""
    takes_value = False
    for word in words:
        flag, has_value, _ = word.partition("=")
        flag = f"--{flag.removeprefix(before)}" if flag.startswith(before) else ""
        if flag in _IF_NAMED:
            yield word
            takes_value = not has_value and flag not in ("--require-control-plane", "--slow")
        elif takes_value:
            yield word
            takes_value = False
