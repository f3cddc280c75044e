"""The answers of NVML and its refusals, in our own types: one class for each thing that a caller may want to do about it::

NvmlError
├── NoDriverError       no library, no kernel module, or the two do not match: no card of this machine can be used
├── NotInitializedError NVML was shut down under us; open it again
└── CardLostError       the card fell off the bus; its place in the list stays
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpushare.errors import GpushareError


@dataclass(frozen=True, slots=True)
class Card:
    """One card. ``index`` is NVML's and changes with the machine, ``uuid`` stays; memory in MiB (1024² bytes), whole.

    ``memory_mib`` is NVML's total, which counts memory that the driver keeps for itself from R510 on: the same card has
    15109 under 470 and 15360 under 535. ``numa`` is None if the nearest node is not known. A card in MIG mode
    (``mig``) gives no memory to a process that is not in one of its slices.
    """

    index: int
    uuid: str
    model: str
    memory_mib: int
    numa: int | None = None
    mig: bool = False


@dataclass(frozen=True, slots=True)
class UnreadableCard:
    """A card that NVML counts but cannot describe: lost, most often. ``uuid`` and ``code`` are "" and 0 if they are not known.

    ``code`` is NVML's return code.
    """

    index: int
    reason: str
    uuid: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True)
class Survey:
    """All cards that NVML counts, in its order: those that answer, and those that do not.

    ``missed`` are UUIDs of cards with a driver that began to ask for a recovery while no report was read, before the first count
    too (``nvml.session``).
    """

    cards: tuple[Card, ...]
    unreadable: tuple[UnreadableCard, ...]
    missed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a card; ``mib`` is None if the driver has no figure. The pid is the host's."""

    pid: int
    mib: int | None


@dataclass(frozen=True, slots=True)
class Xid:
    """The driver's report of a fault: ``code`` is NVIDIA's number for it."""

    uuid: str
    code: int


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports since the last time: Xids in their order, cards that are lost, cards that answer with an error, and which.

    ``is_outdated``: the machine has other cards than NVML knows.
    """

    xids: tuple[Xid, ...] = ()
    lost: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    is_outdated: bool = False


@dataclass(frozen=True, slots=True)
class Checkup:
    """Whether a card answers; ``action`` is what its driver asks for (NVML field 230: 0 nothing, 1 a reset, 2 a reboot,
    ...), None if the driver or the card does not know that field."""

    answers: bool
    action: int | None = None


@dataclass(frozen=True, slots=True)
class LimitSupport:
    """The driver's part in memory limits: its version, whether it can set them, and by UUID why a card does not answer one."""

    driver: str
    sets_limits: bool
    refusals: Mapping[str, str]


# NVML's codes for a process that is kept from a card: no permission, blocked by the operating system (its control groups).
BLOCKED_CODES: Final = frozenset({4, 17})
# Its codes for faults that a new container may cure, too: the library does not fit the kernel module, and an unknown error.
CONTAINER_CODES: Final = BLOCKED_CODES | {18, 999}


class NvmlError(GpushareError):
    """NVML refused. ``code`` is its return code, 0 if the call never got that far."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class NoDriverError(NvmlError):
    """There is no NVML to ask; the text names the thing to install or mount."""


class NotInitializedError(NvmlError):
    """NVML was shut down under us, or not opened yet; opening it again helps."""


class CardLostError(NvmlError):
    """The card does not answer any more; only a reset or a reboot may bring it back."""
