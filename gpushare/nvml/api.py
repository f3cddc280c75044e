"""The questions to NVML and its answers, in our own types."""

from __future__ import annotations

from dataclasses import dataclass


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
class FailedCard:
    """A card with events that cannot be read, and why."""

    uuid: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports since the last time: Xids in their order, cards that are lost, cards that answer with an error.

    ``is_outdated``: the machine has other cards than NVML knows. False if it is all empty.
    """

    xids: tuple[Xid, ...] = ()
    lost: tuple[str, ...] = ()
    failed: tuple[FailedCard, ...] = ()
    is_outdated: bool = False

    def __bool__(self) -> bool:
        return bool(self.xids or self.lost or self.failed or self.is_outdated)


@dataclass(frozen=True, slots=True)
class Checkup:
    """Whether a card answers; ``action`` is what its driver asks for (NVML field 230: 0 nothing, 1 a reset, 2 a reboot,
    ...), None if the driver or the card does not know that field."""

    answers: bool
    action: int | None = None
