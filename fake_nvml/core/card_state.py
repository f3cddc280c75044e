"""The cards of a state file as values for programs: what ``State.cards`` answers. Memory in MiB (1024² bytes)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fake_nvml.core.answers import ANSWERS, PLACES
from fake_nvml.core.fill import MIB
from fake_nvml.core.layout import LOST, UNKNOWN64, Card, Process, StateFile, as_text
from fake_nvml.core.records import card_slots, memory_used, processes
from fake_nvml.core.returns import code_name


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One process on a card; ``mib`` None: the driver does not know."""

    pid: int
    name: str
    mib: int | None


@dataclass(frozen=True, slots=True)
class CardState:
    """One card at one moment. ``index`` is NVML's after a new init; memory in MiB. ``serial`` "" or ``numa`` None: none.

    Temperature, power, ``fan`` (percent) and ``compute_mode`` are None, and ``total_mib`` 0, if the card's driver does not
    answer; those and ``recovery_action`` are NVML's numbers. ``ecc``: None if the card has none, else whether it is on.
    ``refused``: all that is not answered, function -> name of the return code.
    """

    index: int
    uuid: str
    name: str
    serial: str
    total_mib: int
    used_mib: int
    reserved_mib: int
    processes: tuple[ProcessState, ...]
    utilization: int
    temperature: int | None
    power_watts: float | None
    power_limit_watts: float | None
    numa: int | None
    mig: bool
    lost: bool
    bus_id: str
    ecc: bool | None
    ecc_corrected: int
    ecc_uncorrected: int
    recovery_action: int
    fan: int | None
    compute_mode: int | None
    refused: Mapping[str, str]


def card_states(content: StateFile) -> list[CardState]:
    """All cards in NVML's order, lost ones too."""
    return [_card_state(content, index, slot) for index, slot in enumerate(card_slots(content))]


def _card_state(content: StateFile, index: int, slot: int) -> CardState:
    card: Card = content.cards[slot]
    return CardState(
        index=index,
        uuid=as_text(card.uuid),
        name=as_text(card.name),
        serial=as_text(card.serial),
        total_mib=card.memory_total // MIB,
        used_mib=memory_used(content, slot) // MIB,
        reserved_mib=card.memory_reserved // MIB,
        processes=tuple(_process_state(row) for row in processes(content, slot)),
        utilization=card.utilization,
        temperature=_answered(card, "nvmlDeviceGetTemperature"),
        power_watts=_watts(_answered(card, "nvmlDeviceGetPowerUsage")),
        power_limit_watts=_watts(_answered(card, "nvmlDeviceGetPowerManagementLimit")),
        numa=None if card.numa < 0 else card.numa,
        mig=bool(card.mig_mode),
        lost=card.state == LOST,
        bus_id=f"{card.pci_domain:08X}:{card.pci_bus:02X}:{card.pci_device:02X}.0",
        ecc=bool(card.ecc_mode) if card.ecc_supported else None,
        ecc_corrected=card.ecc_corrected,
        ecc_uncorrected=card.ecc_uncorrected,
        recovery_action=card.recovery_action,
        fan=_answered(card, "nvmlDeviceGetFanSpeed"),
        compute_mode=_answered(card, "nvmlDeviceGetComputeMode"),
        refused={key: code_name(card.refused[place]) for key, place in PLACES.items() if card.refused[place]},
    )


def _answered(card: Card, key: str) -> int | None:
    """The number that a function answers now, None if the card refuses it."""
    return None if card.refused[PLACES[key]] else int(getattr(card, ANSWERS[key].fields[0]))


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _process_state(row: Process) -> ProcessState:
    mib = None if row.memory == UNKNOWN64 else row.memory // MIB
    # A long name may end within a character.
    return ProcessState(row.pid, row.name.decode(errors="ignore"), mib)
