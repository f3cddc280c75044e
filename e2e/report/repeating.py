"""The command that repeats one case: pytest's words of this run that change what a case sees, and none that choose cases. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

# What is always named, though it may be a default; and what is if the run has named it.
_ALWAYS: Final = ("--cluster", "--target")
_IF_NAMED: Final = (
    "--kubernetes", "--assets", "--node-image", "--image-base", "--kubeconfig", "--context", "--restarts", "--bursts",
    "--burst-seed", "--chaos-seconds", "--chaos-seed", "--seed", "--require-control-plane", "--slow",
)  # fmt: skip


def again(python: str, nodeid: str, always: dict[str, str], words: Sequence[str]) -> str:
    """The command, in one line; ``always`` are the values of the options that are always named."""
    named = [word for flag in _ALWAYS for word in (flag, always[flag])]
    return shlex.join([python, "-m", "pytest", nodeid, *named, *_kept(words)])


def _kept(words: Iterable[str]) -> Iterator[str]:
    """The options that count, each with its value if it has one."""
    takes_value = False
    for word in words:
        flag, has_value, _ = word.partition("=")
        if flag in _IF_NAMED:
            yield word
            takes_value = not has_value and flag not in ("--require-control-plane", "--slow")
        elif takes_value:
            yield word
            takes_value = False
