"""A box as records of the state file."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from fake_nvml.core.answers import OF_NVLINKS, PLACES, RECOVERY_ACTION, function_of
from fake_nvml.core.box_cards import BoxCard, CardModel
from fake_nvml.core.drivers import branch, cuda_version
from fake_nvml.core.layout import UNKNOWN32, Card, StateFile
from fake_nvml.core.returns import ARCHITECTURES, EVENT_DOUBLE_BIT, EVENT_SINGLE_BIT, EVENT_XID, Code
from fake_nvml.eras import RECOVERY_ACTION_SINCE, has_symbol

MIB = 1024 * 1024
_NVIDIA = 0x10DE
# An idle card: degrees Celsius, and its power as a part of the limit.
_IDLE_TEMPERATURE = 33
_IDLE_POWER_PART = 8
# Word -> its place in a model's clocks; the streaming multiprocessors run with the graphics clock.
_CLOCKS = {"graphics": 0, "sm": 0, "memory": 1, "video": 2}
_SAMPLING_PERIOD = 167_000
_LANES = 16
_ECC = "nvmlDeviceGetTotalEccErrors"


def fill(content: StateFile, driver: str, cards: Sequence[BoxCard], refused: Mapping[str, int]) -> None:
    """Make ``content`` show these cards, idle: no processes, no faults, no limits. Events go on from the last number.

    ``refused`` are the codes of the calls that the whole node does not answer.
    """
    for table in (content.cards, content.processes, content.events, content.faults, content.limits):
        ctypes.memset(ctypes.addressof(table), 0, ctypes.sizeof(table))
    header = content.header
    header.generation += 1
    header.driver = driver.encode()
    header.cuda = cuda_version(driver)
    header.init_return = header.missing_files = 0
    header.process_rows = 0
    ctypes.memset(ctypes.addressof(header.refused), 0, ctypes.sizeof(header.refused))
    refuse(header.refused, refused, branch(driver))
    # Recorded cards first: they have their addresses, the others get what is left.
    for index, card in sorted(enumerate(cards), key=lambda one: "pci_bus" not in one[1].fields):
        fill_card(content, index, card, driver)
    header.card_count = len(cards)


def fill_card(content: StateFile, slot: int, card: BoxCard, driver: str) -> None:
    """A card comes, idle and healthy, into a slot with a record that is all zeros.

    Raises CatalogueError, before any change, if the driver does not know the model.
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
    record.brand, record.mig_slices = model.brand(driver), model.mig
    record.nvlinks, record.nvswitches, record.nvlink_peers = model.nvlinks, model.nvswitches, model.nvlink_peers
    record.temperature = _IDLE_TEMPERATURE
    record.power_limit = model.watts * 1000
    record.power = record.power_limit // _IDLE_POWER_PART
    record.ecc_supported = record.ecc_mode = record.ecc_pending = int(model.data_center)
    record.events = EVENT_XID | (EVENT_SINGLE_BIT | EVENT_DOUBLE_BIT if record.ecc_supported else 0)
    for field, value in (_speeds(model) | dict(card.fields)).items():
        setattr(record, field, value)
    record.pci_root = content.cards[slot - card.beside].pci_root if card.beside else max(record.pci_bus - 1, 0)
    record.architecture = record.architecture or architecture(record.compute_major, record.compute_minor)
    _refuse(record, model, card, branch(driver))
    record.first_event = content.header.next_event
    record.uuid = card.uuid.encode()


def architecture(major: int, minor: int) -> int:
    """NVML's number of the architecture with a compute capability."""
    return next((number for least, number in ARCHITECTURES.items() if (major, minor) >= least), UNKNOWN32)


def refuse(refused: Any, codes: Mapping[str, int], driver: int) -> None:
    """Note which code each key is answered with, in a record's ``refused``. Functions that the driver lacks are absent anyway."""
    for key, code in codes.items():
        if has_symbol(function_of(key), driver):
            refused[PLACES[key]] = code


def _speeds(model: CardModel) -> dict[str, int | bytes]:
    """Clocks, link and fan of an idle card."""
    clocks: dict[str, int | bytes] = {}
    for field, speed in (("clock", model.clocks), ("idle", model.idle_clocks)):
        clocks |= {f"{field}_{word}": speed[place] for word, place in _CLOCKS.items()}
    return clocks | {
        "idle_state": model.idle_state,
        "fan": model.fan or 0,
        "fans": int(model.fan is not None),
        "sampling_period": _SAMPLING_PERIOD,
        "pcie_generation": model.pcie,
        # A card that lowers its performance when idle lowers its link too.
        "idle_pcie_generation": 1 if model.idle_state else model.pcie,
        "pcie_width": _LANES,
    }


def _refuse(record: Card, model: CardModel, card: BoxCard, driver: int) -> None:
    """Note what the card refuses: what its model lacks, and what its box lists."""
    missing = {
        ("nvmlDeviceGetSerial",): bool(card.serial),
        ("nvmlDeviceGetEccMode", f"{_ECC} corrected", f"{_ECC} uncorrected"): model.data_center,
        ("nvmlDeviceGetMigMode",): bool(model.mig),
        ("nvmlDeviceGetFanSpeed",): model.fan is not None,
        ("nvmlDeviceGetMemoryAffinity",): record.numa >= 0,
        OF_NVLINKS: bool(model.nvlinks),
        (RECOVERY_ACTION,): driver >= RECOVERY_ACTION_SINCE,
        ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"): bool(record.memory_total),
    }
    if not card.fields:
        refuse(
            record.refused,
            {key: Code.NOT_SUPPORTED for keys, has in missing.items() if not has for key in keys},
            driver,
        )
        if model.fan is None:
            # Without fans, each number of a fan is wrong (580.159.04 answers so).
            refuse(record.refused, {"nvmlDeviceGetFanSpeed_v2": Code.INVALID_ARGUMENT}, driver)
    refuse(record.refused, card.refused, driver)


def _free_bus(content: StateFile, slot: int) -> int:
    """As far apart as those of cards behind a bridge each; the next one if a card has it."""
    taken = {card.pci_bus for card in content.cards if card.uuid}
    return next(bus for bus in range(4 + 3 * slot, 256) if bus not in taken)
