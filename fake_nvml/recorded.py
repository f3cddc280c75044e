"""A recorded card of a box file (``fake-nvml record``) as fields of a state file's record.

What a recorded driver did not answer becomes what a library answers with NOT_SUPPORTED, wherever a record can say that.
How busy the card was is recorded for people only: simulated cards begin idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fake_nvml.errors import CatalogueError
from fake_nvml.layout import LOST, UNKNOWN32

Calls = Mapping[str, Any]
Fields = dict[str, int | bytes]
# Field of a record <- call that answers it with one number.
_NUMBERS = {
    "minor": "nvmlDeviceGetMinorNumber",
    "brand": "nvmlDeviceGetBrand",
    "temperature": "nvmlDeviceGetTemperature",
    "power": "nvmlDeviceGetPowerUsage",
    "recovery_action": "nvmlDeviceGetFieldValues recovery action",
    "ecc_corrected": "nvmlDeviceGetTotalEccErrors corrected",
    "ecc_uncorrected": "nvmlDeviceGetTotalEccErrors uncorrected",
}
# Fields whose "not known" a library can say.
_MAY_BE_UNKNOWN = ("temperature", "power", "power_limit")
_ADDRESS = {
    "pci_domain": "domain",
    "pci_bus": "bus",
    "pci_device": "device",
    "pci_device_id": "pciDeviceId",
    "pci_subsystem_id": "pciSubSystemId",
}


@dataclass(frozen=True, slots=True)
class RecordedCard:
    """``uuid`` and ``serial`` are "" where the driver did not say them; ``fields`` are all others, by their names."""

    uuid: str
    serial: str
    fields: Fields


def recorded_card(calls: object) -> RecordedCard:
    """Read the ``recorded`` part of a box's card. Raises CatalogueError where it is none."""
    if not isinstance(calls, dict):
        raise CatalogueError("recorded is not what fake-nvml record writes: calls and what they answered")
    if "nvmlDeviceGetHandleByIndex" in calls:
        # It answered nothing when it was recorded.
        return RecordedCard("", "", {"name": b"", "state": LOST, "numa": -1})
    try:
        return RecordedCard(_text(calls, "nvmlDeviceGetUUID"), _text(calls, "nvmlDeviceGetSerial"), _fields(calls))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CatalogueError(f"recorded is not what fake-nvml record writes: {error!r}") from error


def _fields(calls: Calls) -> Fields:
    fields: Fields = {"name": _text(calls, "nvmlDeviceGetName").encode(), "state": 0}
    fields |= _memory(calls)
    fields |= {field: _number(calls, call) for field, call in _NUMBERS.items()}
    fields["power_limit"] = _number(calls, "nvmlDeviceGetPowerManagementLimit")
    if _known(calls, "nvmlDeviceGetPciInfo"):
        address = calls["nvmlDeviceGetPciInfo"]
        fields |= {field: int(address[key]) for field, key in _ADDRESS.items()}
    if _known(calls, "nvmlDeviceGetCudaComputeCapability"):
        fields["compute_major"], fields["compute_minor"] = map(int, calls["nvmlDeviceGetCudaComputeCapability"])
    nodes = calls["nvmlDeviceGetMemoryAffinity"] if _known(calls, "nvmlDeviceGetMemoryAffinity") else []
    fields["numa"] = int(nodes[0]) if nodes else -1
    links = "nvmlDeviceGetNvLinkState"
    fields["nvlinks"] = len(calls[links]) if _known(calls, links) else 0
    return {field: _settled(field, value) for field, value in (fields | _modes(calls)).items()}


def _memory(calls: Calls) -> Fields:
    newer, older = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"
    if _known(calls, newer):
        return {"memory_total": int(calls[newer]["total"]), "memory_reserved": int(calls[newer]["reserved"])}
    if _known(calls, older):
        return {"memory_total": int(calls[older]["total"]), "memory_reserved": 0}
    raise CatalogueError("the recorded driver did not say how much memory the card has; there is nothing to simulate")


def _modes(calls: Calls) -> Fields:
    """ECC and MIG: current and pending, or a card without."""
    modes: Fields = {"ecc_supported": 0, "ecc_mode": 0, "mig_slices": 0, "mig_mode": 0, "mig_pending": 0}
    if _known(calls, "nvmlDeviceGetEccMode"):
        modes["ecc_supported"], modes["ecc_mode"] = 1, int(calls["nvmlDeviceGetEccMode"][0])
    if _known(calls, "nvmlDeviceGetMigMode"):
        modes["mig_mode"], modes["mig_pending"] = map(int, calls["nvmlDeviceGetMigMode"])
        modes["mig_slices"] = _number(calls, "nvmlDeviceGetMaxMigDeviceCount")
    return modes


def _settled(field: str, value: int | bytes) -> int | bytes:
    return 0 if value == UNKNOWN32 and field not in _MAY_BE_UNKNOWN else value


def _known(calls: Calls, call: str) -> bool:
    """Whether a call answered; one that was not asked did not."""
    answer = calls.get(call)
    return answer is not None and not (isinstance(answer, dict) and "returns" in answer)


def _text(calls: Calls, call: str) -> str:
    return str(calls[call]) if _known(calls, call) else ""


def _number(calls: Calls, call: str) -> int:
    return int(calls[call]) if _known(calls, call) else UNKNOWN32
