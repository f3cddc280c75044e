"""Tables of NVIDIA's facts, read from text files: what each driver exports and came with, and what each Xid leaves on a card.

A function that ``symbols.txt`` does not have for a branch is really absent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_NEVER: Final = 10_000


def rows(name: str) -> list[str]:
    """The lines of a table, without its comments."""
    text = Path(__file__).with_name(name).read_text(encoding="ascii")
    return [line for line in text.splitlines() if not line.startswith("#")]


# Function -> the first branch that has it, and the first that has it no more.
_AGES: Final = {
    name: (int(since), int(gone or _NEVER))
    for name, (since, _, gone) in ((name, age.partition("-")) for age, name in map(str.split, rows("symbols.txt")))
}
# First branch -> CUDA version, and a release of the branch.
DRIVERS: Final = {int(branch): (cuda, release) for branch, cuda, release in map(str.split, rows("drivers.txt"))}
# Xid -> corrected and uncorrected errors, and the driver's advice.
XIDS: Final = {int(xid): tuple(map(int, left)) for xid, *left in (row.split()[:4] for row in rows("xids.txt"))}

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
