"""The command that repeats a failure: pytest's words of this run that change what a case sees. Pure.

A case is repeated alone, without the words that choose cases. If the order was random, the files that its process had begun are
repeated in that order, each with the cases that ran then.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

# What is always named, though it may be a default; what is if the run has named it; and what is then in random order alone.
_ALWAYS: Final = ("--cluster", "--target")
_IF_NAMED: Final = (
    "--kubernetes", "--assets", "--node-image", "--image-base", "--kubeconfig", "--context", "--restarts", "--bursts",
    "--burst-seed", "--chaos-seconds", "--chaos-seed", "--seed", "--require-control-plane", "--slow",
)  # fmt: skip
_CHOOSING: Final = ("--profile", "-k", "-m", "--quick")
_WITHOUT_VALUE: Final = ("--require-control-plane", "--slow", "--quick")


def again(python: str, nodeid: str, always: dict[str, str], words: Sequence[str], files: Sequence[str] = ()) -> str:
    """The command, in one line; ``always`` are the values of the options that are always named, ``files`` those in random order."""
    named = [word for flag in _ALWAYS for word in (flag, always[flag])]
    kept = _kept(words, (*_IF_NAMED, *(_CHOOSING if files else ())))
    command = shlex.join([python, "-m", "pytest", *(files or [nodeid]), *named, *kept])
    return f"{command}  # {nodeid}" if files else command


def _kept(words: Iterable[str], flags: Sequence[str]) -> Iterator[str]:
    """The options that count, each with its value if it has one."""
    takes_value = False
    for word in words:
        flag, has_value, _ = word.partition("=")
        if flag in flags:
            yield word
            takes_value = not has_value and flag not in _WITHOUT_VALUE
        elif takes_value:
            yield word
            takes_value = False
