"""A box as records of the state file."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from fake_nvml.layout import StateFile

if TYPE_CHECKING:  # the library side of this package runs where PyYAML may be missing
    from fake_nvml.box import Box, BoxCard

MIB = 1024 * 1024
_NVIDIA = 0x10DE
# An idle card: degrees Celsius, and its power as a part of the limit.
_IDLE_TEMPERATURE = 33
_IDLE_POWER_PART = 8


def fill(content: StateFile, box: Box) -> None:
    """Make ``content`` show this box, idle: no processes, no faults. Events go on from the last number."""
    for table in (content.cards, content.processes, content.events, content.faults):
        ctypes.memset(ctypes.addressof(table), 0, ctypes.sizeof(table))
    header = content.header
    header.generation += 1
    header.driver = box.driver.encode()
    header.cuda = box.cuda
    header.init_return = 0
    header.process_rows = 0
    # Recorded cards first: they have their addresses, the others get what is left.
    for index, card in sorted(enumerate(box.cards), key=lambda one: "pci_bus" not in one[1].fields):
        fill_card(content, index, card, box.driver)
    header.card_count = len(box.cards)


def fill_card(content: StateFile, slot: int, card: BoxCard, driver: str) -> None:
    """A card comes, idle and healthy, into a slot whose record is all zeros.

    Raises CatalogueError, before any change, where the driver does not know the model.
    """
    model, record = card.model, content.cards[slot]
    name, total = model.name(driver), model.memory_mib(driver)
    record.name, record.serial = name.encode(), card.serial.encode()
    record.minor = slot
    record.memory_total = total * MIB
    record.memory_reserved = model.reserved_mib(driver) * MIB
    record.pci_bus = _free_bus(content, slot)
    record.pci_device_id = model.pci_device << 16 | _NVIDIA
    record.pci_subsystem_id = record.pci_device_id
    record.numa = -1 if card.numa is None else card.numa
    record.compute_major, record.compute_minor = model.compute
    record.brand, record.nvlinks, record.mig_slices = model.brand, model.nvlinks, model.mig
    record.temperature = _IDLE_TEMPERATURE
    record.power_limit = model.watts * 1000
    record.power = record.power_limit // _IDLE_POWER_PART
    record.ecc_supported = record.ecc_mode = int(model.data_center)
    for field, value in card.fields.items():
        setattr(record, field, value)
    record.first_event = content.header.next_event
    record.uuid = card.uuid.encode()


def _free_bus(content: StateFile, slot: int) -> int:
    """As far apart as those of cards behind a bridge each; the next one where a card has it."""
    taken = {card.pci_bus for card in content.cards if card.uuid}
    return next(bus for bus in range(4 + 3 * slot, 256) if bus not in taken)
