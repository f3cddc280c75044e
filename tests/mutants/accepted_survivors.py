"""The mutants that may survive: ``accepted.yaml``, each entry with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec
import yaml

FILE: Final = Path(__file__).with_name("accepted.yaml")


class Accepted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Survivors of the functions that the glob names: with one of these lines, or one that a regular expression finds."""

    reason: str
    functions: str
    lines: tuple[str, ...] = ()
    like: tuple[str, ...] = ()

    def entries(self, function: str, line: str) -> Iterator[str]:
        """Those that accept this survivor."""
        if fnmatchcase(function, self.functions):
            yield from (each for each in self.lines if each == line)
            yield from (each for each in self.like if re.search(each, line))


def load() -> list[Accepted]:
    """All of the file."""
    return msgspec.convert(yaml.safe_load(FILE.read_text()), list[Accepted])


def findings(accepted: list[Accepted], survivors: Iterable[tuple[str, str]], modules: Iterable[str]) -> list[str]:
    """Survivors that no entry accepts, and entries for these modules that accept none."""
    unused = {
        (each.functions, entry)
        for each in accepted
        if each.functions.startswith(tuple(modules))
        for entry in (*each.lines, *each.like)
    }
    found = []
    for function, line in survivors:
        entries = {(each.functions, entry) for each in accepted for entry in each.entries(function, line)}
        unused -= entries
        if not entries:
            found.append(f"not killed: {function}\n    {line}")
    return found + [f"accepted, but no survivor: {function}\n    {entry}" for function, entry in sorted(unused)]
