"""Limits of memory that a driver from R615 on enforces for a cgroup: the rows of the state file (``layout``, Limits). Pure.

A chain is the inodes of a cgroup's directory and of those above it, the nearest first; 0 alone: not known. Amounts are bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from fake_nvml.core.answers import SET_LIMITS
from fake_nvml.core.drivers import branch
from fake_nvml.core.layout import LIMITS, LIMITS_DMEM, LIMITS_MISC, LIMITS_NONE, UNKNOWN64, Limit, StateFile, as_text
from fake_nvml.core.records import card_slots, free_bytes, processes
from fake_nvml.eras import has_symbol
from fake_nvml.fake_nvml_errors import StateError

# The part that counts and enforces: the kernel's controller, the driver itself, or neither.
BACKENDS: Final = MappingProxyType({"dmem": LIMITS_DMEM, "misc": LIMITS_MISC, "none": LIMITS_NONE})
NO_LIMIT: Final = "max"
_SIZE: Final = re.compile(r"(\d{1,15})(KiB|MiB|GiB|TiB|)")
_FACTORS: Final = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """How a node limits memory. ``keeps_dead``: a limit outlives its cgroup, and the next one with that inode has it.

    ``context_mib`` is what a CUDA context takes of its card.
    """

    backend: str = "dmem"
    keeps_dead: bool = False
    context_mib: int = 0


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """One limit of one cgroup on the card with this UUID; ``hard`` None: none. ``path`` may be empty."""

    card: str
    cgroup: int
    path: str
    soft: int
    hard: int | None
    used: int


def set_options(content: StateFile, options: LimitOptions) -> None:
    """Let the node limit memory so, in a writer."""
    header = content.header
    header.limits, header.dead_limits = BACKENDS[options.backend], options.keeps_dead
    header.context = options.context_mib * 2**20


def backend(content: StateFile) -> str:
    """The name of what enforces limits; "none" with a driver that cannot."""
    can = has_symbol(SET_LIMITS, branch(as_text(content.header.driver)))
    return next(name for name, number in BACKENDS.items() if number == content.header.limits) if can else "none"


def memory_limits(content: StateFile) -> list[MemoryLimit]:
    """All limits, by card."""
    index = {slot: place for place, slot in enumerate(card_slots(content))}
    found = sorted((row for row in _rows(content) if row.card in index), key=lambda row: index[row.card])
    return [
        MemoryLimit(
            as_text(content.cards[row.card].uuid),
            row.cgroup,
            row.path.decode(errors="surrogateescape"),
            row.soft,
            None if row.hard == UNKNOWN64 else row.hard,
            charged(content, row.card, row.cgroup),
        )
        for row in found
    ]


def set_limit(content: StateFile, slot: int, cgroup: int, path: bytes, soft: int, hard: int | None) -> None:
    """Limit a cgroup on a card, in a writer; a limit that it has is replaced.

    Raises StateError, before any change, as the driver refuses the call, and if there is no room.
    """
    card, most = content.cards[slot], UNKNOWN64 if hard is None else hard
    if backend(content) == "none" or card.mig_mode:
        raise StateError(
            f"no limits on {as_text(card.uuid)}: they need driver 615, a kernel that counts, and a card without MIG"
        )
    total = card.memory_total or UNKNOWN64
    if soft > most or soft > total or (hard is not None and hard > total):
        raise StateError(f"limits go up to the card's {total} bytes, soft ones to the hard one; not {soft} and {most}")
    own = (row for row in _rows(content) if (row.card, row.cgroup) == (slot, cgroup))
    row = next(own, None) or next((row for row in content.limits if not row.used), None)
    if row is None:
        raise StateError(f"no room for another limit: {LIMITS} are there; fake-nvml limits clear")
    row.card, row.cgroup, row.soft, row.hard = slot, cgroup, soft, most
    row.path = path if len(path) < Limit.path.size else b""
    row.used = 1


def drop_limits(content: StateFile, cgroups: Collection[int] | None = None) -> int:
    """Drop the limits of these cgroups, all if None, in a writer; answers how many."""
    gone = [row for row in _rows(content) if cgroups is None or row.cgroup in cgroups]
    for row in gone:
        row.used = 0
    return len(gone)


def free_below_limit(content: StateFile, slot: int, chain: Sequence[int]) -> int:
    """Memory of a card that a process of a cgroup may take: what is free there, and no more than its limit leaves."""
    rows = {row.cgroup: row for row in _rows(content) if row.card == slot} if chain[0] else {}
    row = next((rows[inode] for inode in chain if inode in rows), None)
    free = free_bytes(content, slot)
    return free if row is None else min(free, max(row.hard - charged(content, slot, chain[0]), 0))


def charged(content: StateFile, slot: int, cgroup: int) -> int:
    """The memory of a card that processes of a cgroup hold, as its limit counts it."""
    known = (row for row in processes(content, slot) if row.cgroup == cgroup and row.memory != UNKNOWN64)
    return sum(row.memory - row.managed for row in known)


def parse_size(text: str) -> int | None:
    """Bytes of ``4GiB``, ``512MiB``, ``0``; None for ``max``. Raises StateError."""
    match = _SIZE.fullmatch(text)
    if text != NO_LIMIT and match is None:
        raise StateError(f"{text!r} is no amount of memory; write it as 4GiB, 512MiB, a number of bytes, or {NO_LIMIT}")
    return int(match[1]) * _FACTORS[match[2]] if match else None


def shown_size(size: int | None) -> str:
    """An amount for people, as ``parse_size`` reads it, in MiB if that is exact."""
    if size is None:
        return NO_LIMIT
    return f"{size // 2**20}MiB" if size and size % 2**20 == 0 else str(size)


def _rows(content: StateFile) -> Iterator[Limit]:
    return (row for row in content.limits if row.used)
