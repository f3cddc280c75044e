"""The state of a node's simulated cards: what they are and what happens on them.

One file, shared by everybody on the node: whoever simulates containers adds their processes here, and each NVML call
in any process answers from it. Memory in MiB (1024² bytes). A card's used memory is that of its processes, plus what
``set_value("memory-used")`` added; what a driver from R510 on keeps for itself (``reserved_mib``) counts apart, as
nvidia-smi prints it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from fake_nvml.errors import CardFullError, StateError
from fake_nvml.fill import MIB, fill
from fake_nvml.layout import (
    COMPUTE,
    EVENTS,
    FREE,
    LOST,
    UNKNOWN32,
    UNKNOWN64,
    Card,
    Process,
    StateFile,
    blank,
)
from fake_nvml.mapping import MappedState, create_file
from fake_nvml.records import find_process, free_bytes, free_row, memory_used, other_bytes, processes, slot_of
from fake_nvml.values import parse_value

if TYPE_CHECKING:  # programs that only read the state may lack PyYAML
    from fake_nvml.box import Box

# NVML's bit for an Xid among the event types.
XID_EVENT = 0x8
# As long as a record has room for, in bytes, with the NUL.
_NAME_BYTES = Process.name.size - 1


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One process on a card; ``mib`` None: the driver does not know."""

    pid: int
    name: str
    mib: int | None


@dataclass(frozen=True, slots=True)
class CardState:
    """One card at one moment. ``index`` is NVML's; memory in MiB. ``serial`` "" or ``numa`` None: there is none."""

    index: int
    uuid: str
    name: str
    serial: str
    total_mib: int
    used_mib: int
    reserved_mib: int
    processes: tuple[ProcessState, ...]
    utilization: int
    temperature: int
    power_watts: float
    power_limit_watts: float
    numa: int | None
    mig: bool
    lost: bool


class State:
    """One open state file. Threads may share it; ``close`` it, or use it as a context."""

    def __init__(self, mapped: MappedState) -> None:
        self._mapped = mapped
        self.path = mapped.path

    @classmethod
    def create(cls, path: Path, box: Box) -> Self:
        """Make a state file that shows ``box``, idle; where one is there already, it shows the new box from now on.

        Programs that run on it keep running; the cards they knew are lost for them until they call nvmlInit again.
        Raises StateError where ``path`` cannot be written or holds something else.
        """
        content = blank()
        fill(content, box)
        written = create_file(path, content)
        state = cls.open(path)
        if not written:
            with state._mapped.writing() as existing:
                fill(existing, box)
        return state

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a state file, for reading only where its mount allows no more. Raises StateError where there is none."""
        return cls(MappedState.open(path))

    def close(self) -> None:
        """Let go of the file; the file stays. May be called again."""
        self._mapped.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def read(self) -> StateFile:
        """A consistent copy of everything, as the records of ``layout``."""
        return self._mapped.read()

    def driver(self) -> str:
        """The driver's version."""
        return bytes(self.read().header.driver).decode()

    def cards(self) -> list[CardState]:
        """All cards in NVML's order, lost ones too."""
        content = self.read()
        return [_card_state(content, index) for index in range(content.header.card_count)]

    def add_process(self, uuid: str, pid: int, mib: int, name: str) -> None:
        """A process uses ``mib`` on a card from now on; one of that pid on that card is replaced.

        Raises CardFullError where the card has less free, StateError for an unknown card or a pid that can be none.
        """
        if not 0 < pid < 2**31 or mib < 0:
            raise StateError(f"process {pid} with {mib} MiB: a pid is from 1 on, memory from 0 on")
        label = name.encode(errors="replace")[:_NAME_BYTES]
        with self._mapped.writing() as content:
            slot = slot_of(content, uuid)
            row = find_process(content, slot, pid)
            old = row.memory if row is not None and row.memory != UNKNOWN64 else 0
            free = free_bytes(content, slot) + old
            if mib * MIB > free:
                raise CardFullError(f"card {uuid} has {free // MIB} MiB free; process {pid} asks for {mib} MiB")
            if row is None:
                row = free_row(content)
            row.kind = FREE
            row.card, row.pid, row.memory = slot, pid, mib * MIB
            row.gpu_instance = row.compute_instance = UNKNOWN32
            row.name = label
            row.kind = COMPUTE

    def remove_process(self, uuid: str, pid: int) -> bool:
        """A process is gone; answers whether it was there. Raises StateError for an unknown card."""
        with self._mapped.writing() as content:
            row = find_process(content, slot_of(content, uuid), pid)
            if row is not None:
                row.kind = FREE
            return row is not None

    def set_value(self, uuid: str, key: str, value: str) -> None:
        """Change one value of a card (``values.KEYS``). Raises StateError where key, value or card make no sense."""
        with self._mapped.writing() as content:
            slot = slot_of(content, uuid)
            card = content.cards[slot]
            field, number = parse_value(key, value, card)
            if field == "memory_other":
                number = other_bytes(content, slot, number)
            if field == "mig_mode":
                card.mig_pending = number
            setattr(card, field, number)

    def post_xid(self, uuid: str, xid: int) -> None:
        """The driver reports an Xid on a whole card; each event set that listens there gets it once."""
        if not 0 < xid < 2**32:
            raise StateError(f"Xid {xid}: Xids are numbers from 1 on")
        with self._mapped.writing() as content:
            slot, number = slot_of(content, uuid), content.header.next_event
            event = content.events[number % EVENTS]
            event.number, event.type, event.data, event.card = number, XID_EVENT, xid, slot
            event.gpu_instance = event.compute_instance = UNKNOWN32
            content.header.next_event = number + 1
            content.header.wake = (content.header.wake + 1) % 2**32


def _card_state(content: StateFile, index: int) -> CardState:
    card: Card = content.cards[index]
    return CardState(
        index=index,
        uuid=card.uuid.decode(),
        name=card.name.decode(),
        serial=card.serial.decode(),
        total_mib=card.memory_total // MIB,
        used_mib=memory_used(content, index) // MIB,
        reserved_mib=card.memory_reserved // MIB,
        processes=tuple(_process_state(row) for row in processes(content, index)),
        utilization=card.utilization,
        temperature=card.temperature,
        power_watts=card.power / 1000,
        power_limit_watts=card.power_limit / 1000,
        numa=None if card.numa < 0 else card.numa,
        mig=bool(card.mig_mode),
        lost=card.state == LOST,
    )


def _process_state(row: Process) -> ProcessState:
    mib = None if row.memory == UNKNOWN64 else row.memory // MIB
    # A long name may end within a character.
    return ProcessState(row.pid, row.name.decode(errors="ignore"), mib)
