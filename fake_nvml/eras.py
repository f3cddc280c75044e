"""Which functions a library of a driver branch exports (``symbols.txt``, read from real ones): others are really absent."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_NEVER: Final = 10_000


def _read() -> dict[str, tuple[int, int]]:
    """Function -> the first branch that has it, and the first that has it no more."""
    text = Path(__file__).with_name("symbols.txt").read_text(encoding="ascii")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    ages = ((name, age.partition("-")) for age, name in rows)
    return {name: (int(since), int(gone or _NEVER)) for name, (since, _, gone) in ages}


_AGES: Final = _read()

# Branches that a library is built for: each from which on other functions are there than before.
ERAS: Final = tuple(sorted({branch for age in _AGES.values() for branch in age} - {_NEVER}))
OLDEST: Final = ERAS[0]

# The first branch that answers field 230, "what recovers this card"; inferred.
RECOVERY_ACTION_SINCE: Final = 550
# The first branch that answers nvmlSystemGetNVMLVersion before nvmlInit; measured on the libraries of ``symbols.txt``.
VERSION_BEFORE_INIT_SINCE: Final = 535


def symbols(branch: int) -> frozenset[str]:
    """The functions that a library of this driver branch exports."""
    return frozenset(name for name in _AGES if has_symbol(name, branch))


def has_symbol(name: str, branch: int) -> bool:
    """Whether a library of this driver branch exports ``name``."""
    since, gone = _AGES.get(name, (_NEVER, _NEVER))
    return since <= max(branch, OLDEST) < gone


def era_of(branch: int) -> int:
    """The branch of ``ERAS`` whose library has the same functions as a driver of this branch."""
    return max((era for era in ERAS if era <= branch), default=OLDEST)
