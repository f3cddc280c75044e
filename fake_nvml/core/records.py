"""Facts that follow from several records of a state file: a card's processes, and its free memory. In bytes."""

from __future__ import annotations

from collections.abc import Iterator

from fake_nvml.core.fill import MIB
from fake_nvml.core.layout import FREE, PROCESSES, UNKNOWN64, Card, Process, StateFile
from fake_nvml.fake_nvml_errors import StateError


def memory_used(content: StateFile, slot: int) -> int:
    """Bytes in use on a card, without what the driver keeps for itself."""
    known = sum(row.memory for row in processes(content, slot) if row.memory != UNKNOWN64)
    return int(content.cards[slot].memory_other + known)


def processes(content: StateFile, slot: int) -> Iterator[Process]:
    """The process rows of a card."""
    rows = (content.processes[index] for index in range(content.header.process_rows))
    return (row for row in rows if row.kind != FREE and row.card == slot)


def card_slots(content: StateFile) -> list[int]:
    """The slots that hold a card, in NVML's order: the place in this list is the index after a new init."""
    return [slot for slot in range(content.header.card_count) if content.cards[slot].uuid]


def slot_of(content: StateFile, uuid: str) -> int:
    """The slot of a UUID's card. Raises StateError if the box has none."""
    wanted = uuid.encode(errors="replace")
    for slot in card_slots(content):
        if content.cards[slot].uuid == wanted:
            return slot
    raise StateError(f"no card {uuid!r} in this box; fake-nvml show lists them")


def find_process(content: StateFile, slot: int, pid: int) -> Process | None:
    """The row of a process on a card that another program wrote for it; a row that its process holds ends with that process."""
    return next((row for row in processes(content, slot) if row.pid == pid and not row.held), None)


def free_row(content: StateFile) -> Process:
    """A row for another process, in a writer. Raises StateError if the table is full."""
    rows = content.header.process_rows
    found: Process
    for index in range(rows):
        found = content.processes[index]
        if found.kind == FREE:
            return found
    if rows == PROCESSES:
        raise StateError(f"no room for another process: {PROCESSES} are there; remove some")
    content.header.process_rows = rows + 1
    found = content.processes[rows]
    return found


def free_bytes(content: StateFile, slot: int) -> int:
    """Memory of a card that a new process may take."""
    return _room(content.cards[slot]) - memory_used(content, slot)


def other_bytes(content: StateFile, slot: int, used: int) -> int:
    """Memory that is in use by no process, so that ``used`` bytes of a card are in use. Raises StateError outside of its bounds."""
    card = content.cards[slot]
    own, room = memory_used(content, slot) - card.memory_other, _room(card)
    if not own <= used <= room:
        raise StateError(f"memory-used goes from {own // MIB} (its processes) to {room // MIB} MiB, not {used // MIB}")
    return int(used - own)


def _room(card: Card) -> int:
    """Bytes for processes; of a card with an unknown total, as many as a field has room for."""
    return int(card.memory_total - card.memory_reserved) if card.memory_total else UNKNOWN64 - 1
