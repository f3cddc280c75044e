"""What we ask NVML, and what it answers, in our own types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Card:
    """One card. ``index`` is NVML's and changes with the machine, ``uuid`` stays; memory in MiB (1024² bytes), whole.

    ``memory_mib`` is NVML's total, which counts memory that the driver keeps for itself from R510 on: the same card has
    15109 under 470 and 15360 under 535. ``numa`` is None where nobody knows the nearest node. A card in MIG mode
    (``mig``) gives no memory to a process that is not in one of its slices.
    """

    index: int
    uuid: str
    minor: int
    model: str
    memory_mib: int
    numa: int | None = None
    mig: bool = False


@dataclass(frozen=True, slots=True)
class UnreadableCard:
    """A card that NVML counts but cannot describe: lost, most often."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class Survey:
    """All cards that NVML counts, in its order: those that answer, and those that do not."""

    cards: tuple[Card, ...]
    unreadable: tuple[UnreadableCard, ...]


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a card; ``mib`` is None where the driver does not say. The pid is the host's."""

    pid: int
    mib: int | None


class Nvml(Protocol):
    """An open NVML. Every method raises NvmlError."""

    def survey(self) -> Survey:
        """All cards. One card that does not answer takes none of the others with it."""
        ...

    def cards(self) -> tuple[Card, ...]:
        """The cards of a survey that answer; the others are left out with a line in the log."""
        ...

    def processes(self, uuid: str) -> tuple[Process, ...]:
        """The processes on a card, by pid, each once. Raises CardNotFoundError, CardLostError."""
        ...

    def driver_version(self) -> str:
        """The driver's version, as 535.104.05."""
        ...

    def close(self) -> None:
        """Let go. May be called again."""
        ...
