"""Changes of cards in a writer of the state file. Each is given the card's slot; the caller has checked the rest."""

from __future__ import annotations

import ctypes
import hashlib
import re
import uuid

from fake_nvml.core.box_cards import BoxCard
from fake_nvml.core.fill import fill_card
from fake_nvml.core.layout import CARDS, EVENTS, FREE, HEALTHY, UNKNOWN32, Card, StateFile, as_text
from fake_nvml.core.records import card_slots
from fake_nvml.core.returns import EVENT_XID
from fake_nvml.eras import XIDS
from fake_nvml.fake_nvml_errors import StateError

_UUID = re.compile(r"GPU-[0-9A-Za-z-]{1,80}")


def checked_uuid(content: StateFile, wanted: str) -> bytes:
    """The UUID of a card to come. Raises StateError if it has no UUID's form, or a card has it."""
    if not _UUID.fullmatch(wanted):
        raise StateError(f"{wanted!r} is no card's UUID; it begins with GPU-, then letters, digits and dashes")
    encoded = wanted.encode()
    if any(content.cards[slot].uuid == encoded for slot in card_slots(content)):
        raise StateError(f"a card of this box has the UUID {wanted} already; choose another")
    return encoded


def new_uuid(content: StateFile) -> str:
    """A UUID that no card of this file has or had: the file's count of writes goes into it."""
    header, first = content.header, as_text(content.cards[0].uuid)
    return made_uuid(f"later card {first}/{header.generation}/{header.sequence}")


def made_uuid(seed: str) -> str:
    """The UUID that follows from a text."""
    return f"GPU-{uuid.UUID(bytes=hashlib.sha256(seed.encode()).digest()[:16])}"


def made_serial(seed: str) -> str:
    """The serial number that follows from a text: a card's UUID, or its place in a box."""
    digest = hashlib.sha256(f"serial {seed}".encode()).digest()
    return f"{int.from_bytes(digest[:8]) % 10**13:013d}"


def free_slot(content: StateFile) -> int:
    """The slot of another card: the lowest without one. Raises StateError if all are taken."""
    used = set(card_slots(content))
    for slot in range(CARDS):
        if slot not in used:
            return slot
    raise StateError(f"no room for another card: {CARDS} are there; remove one")


def put_card(content: StateFile, slot: int, card: BoxCard) -> None:
    """A card comes into a free slot. Raises CatalogueError, before any change, if the driver does not know it."""
    fill_card(content, slot, card, as_text(content.header.driver))
    content.header.card_count = max(content.header.card_count, slot + 1)


def take_card(content: StateFile, slot: int) -> None:
    """The card is gone, with its processes and the faults of its calls."""
    _vacate(content, slot)
    card = content.cards[slot]
    ctypes.memset(ctypes.addressof(card), 0, ctypes.sizeof(card))
    content.header.card_count = max(card_slots(content), default=-1) + 1


def swap_card(content: StateFile, slot: int, new: bytes) -> None:
    """Another card of the same model is in the slot: healthy, idle, with a serial number of its own."""
    _vacate(content, slot)
    card = content.cards[slot]
    card.uuid = new
    if card.serial:
        card.serial = made_serial(as_text(new)).encode()
    card.first_event = content.header.next_event
    card.state = HEALTHY
    _idle(card)


def reboot(content: StateFile, *, still_lost: bool) -> None:
    """The state after a node's reboot: the cards, without processes, errors and faults; lost ones only if ``still_lost``."""
    for table in (content.processes, content.faults, content.limits):
        ctypes.memset(ctypes.addressof(table), 0, ctypes.sizeof(table))
    content.header.process_rows = 0
    content.header.init_return = content.header.missing_files = 0
    content.header.generation += 1
    for slot in card_slots(content):
        card = content.cards[slot]
        if not still_lost:
            card.state = HEALTHY
        _idle(card)


def report_xid(content: StateFile, slot: int, xid: int) -> None:
    """The driver reports an Xid on a whole card, with the effects in ``xids.txt``."""
    card, (corrected, uncorrected, advice) = content.cards[slot], XIDS.get(xid, (0, 0, 0))
    if card.ecc_supported:
        card.ecc_corrected += corrected
        card.ecc_uncorrected += uncorrected
    # A lesser advice does not take back a greater one.
    card.recovery_action = max(card.recovery_action, advice)
    number = content.header.next_event
    event = content.events[number % EVENTS]
    event.number, event.type, event.data, event.card = number, EVENT_XID, xid, slot
    event.gpu_instance = event.compute_instance = UNKNOWN32
    content.header.next_event = number + 1


def _idle(card: Card) -> None:
    card.memory_other = card.utilization = card.memory_utilization = 0
    card.ecc_corrected = card.ecc_uncorrected = card.recovery_action = 0


def _vacate(content: StateFile, slot: int) -> None:
    for index in range(content.header.process_rows):
        row = content.processes[index]
        if row.card == slot:
            row.kind = FREE
    for fault in content.faults:
        if fault.card == slot:
            fault.used = 0
    for limit in content.limits:
        if limit.card == slot:
            limit.used = 0
