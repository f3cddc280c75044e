"""Facts that follow from several records of a state file: a card's processes, and its free memory. In bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from fake_nvml.core.fill import MIB
from fake_nvml.core.layout import FREE, PROCESSES, UNKNOWN64, UVM_FILE, Card, Process, StateFile, as_text
from fake_nvml.fake_nvml_errors import StateError

# Device files that a container may lack, each with its bit in the header and what is gone with it.
_FILES: Final = {"nvidia-uvm": (UVM_FILE, ("nvidia-uvm", "nvidia-uvm-tools"))}
FILES_TO_MISS: Final = tuple(_FILES)


def missing_files(content: StateFile) -> list[str]:
    """The names of ``FILES_TO_MISS`` that containers on this node do not get."""
    return [name for name, (bit, _) in _FILES.items() if content.header.missing_files & bit]


def set_missing(content: StateFile, name: str, *, missing: bool) -> None:
    """Containers get a device file from now on, or do not. Raises StateError for a name that is not in ``FILES_TO_MISS``."""
    if name not in _FILES:
        raise StateError(f"no device file {name!r} can be missing; one of {', '.join(FILES_TO_MISS)}")
    bit, _ = _FILES[name]
    content.header.missing_files = content.header.missing_files & ~bit | (bit if missing else 0)


def device_files(content: StateFile, uuids: Collection[str]) -> list[str]:
    """The names of NVIDIA's files in the /dev of a container that is given these cards; none without a card."""
    cards = [content.cards[slot] for slot in card_slots(content)]
    given = [f"nvidia{card.minor}" for card in cards if as_text(card.uuid) in uuids]
    gone = {file for name in missing_files(content) for file in _FILES[name][1]}
    shared = [name for name in ("nvidia-uvm", "nvidia-uvm-tools", "nvidiactl") if name not in gone]
    return [*shared, *given] if given else []


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
