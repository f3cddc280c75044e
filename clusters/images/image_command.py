"""The few commands that a simulated container understands, so that one manifest works there and on a real node. Pure.

``true``, ``false``, ``sleep N``, ``sleep infinity``, ``echo TEXT``, ``env``, ``exit N``, alone or as ``sh -c`` with
``;``, ``&&`` and line breaks between them. Anything else is not understood, and the image decides.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

SHELLS: Final = ("sh", "/bin/sh", "bash", "/bin/bash")
_SEPARATOR: Final = re.compile(r"\s*(&&|;|\n)\s*")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The output of a command, its duration in seconds (None: for ever) and its exit code."""

    prints: tuple[str, ...] = ()
    after: float | None = 0.0
    code: int = 0
    prints_after: tuple[float, ...] = ()
    """When each line comes, in seconds from the start."""


def outcome_of(command: Sequence[str], environment: Mapping[str, str]) -> Outcome | None:
    """The result of a command, or None if it is not understood (or there is none)."""
    if len(command) == 3 and command[0] in SHELLS and re.fullmatch(r"-[a-z]*c", command[1]):
        return _script(command[2], environment)
    return _step(list(command), environment) if command else None


def _script(text: str, environment: Mapping[str, str]) -> Outcome | None:
    total = Outcome()
    parts = _SEPARATOR.split(text.strip().removesuffix(";"))
    for separator, part in zip([";", *parts[1::2]], parts[::2], strict=True):
        if separator == "&&" and total.code != 0:
            continue
        words = _words(part)
        step = _step(words, environment)
        if step is None:
            return None
        total = _then(total, step)
        if total.after is None or words[:1] == ["exit"]:
            break
    return total


def _then(first: Outcome, second: Outcome) -> Outcome:
    begins = first.after or 0.0
    after = None if first.after is None or second.after is None else begins + second.after
    at_once = (0.0,) * len(first.prints)
    times = (*(first.prints_after or at_once), *(begins for _ in second.prints))
    return Outcome((*first.prints, *second.prints), after, second.code, times if any(times) else ())


def _words(part: str) -> list[str]:
    try:
        return shlex.split(part)
    except ValueError:
        return [part]


def _step(words: list[str], environment: Mapping[str, str]) -> Outcome | None:
    match words:
        case ["true" | "/bin/true"]:
            return Outcome()
        case ["false" | "/bin/false"]:
            return Outcome(code=1)
        case ["echo", *rest]:
            return Outcome(prints=(" ".join(rest),))
        case ["env" | "printenv"]:
            return Outcome(prints=tuple(f"{name}={value}" for name, value in sorted(environment.items())))
        case ["exit", code] if code.isdecimal():
            return Outcome(code=int(code) % 256)
        case ["sleep" | "/bin/sleep", duration]:
            return _sleep(duration)
    return None


def _sleep(duration: str) -> Outcome | None:
    if duration in ("infinity", "inf"):
        return Outcome(after=None)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", duration)
    if match is None:
        return None
    return Outcome(after=float(match[1]) * _UNITS[match[2] or "s"])
