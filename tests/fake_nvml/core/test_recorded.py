"""A recorded card as fields of a record."""

from __future__ import annotations

from typing import Any

import pytest

from fake_nvml.core.answers import ANSWERS, KEYS, NEED_A_VALUE, SYSTEM_KEYS
from fake_nvml.core.layout import LOST
from fake_nvml.core.recorded import RecordedCard, recorded_card, refused_of_system, unknown_calls
from fake_nvml.core.returns import Code
from fake_nvml.fake_nvml_errors import CatalogueError

OF_CARDS = frozenset(KEYS) - SYSTEM_KEYS
# The answers of an idle card, a number of its own for each.
IDLE: dict[str, Any] = {
    "nvmlDeviceGetName": "Tesla T4", "nvmlDeviceGetUUID": "GPU-a", "nvmlDeviceGetSerial": "12",
    "nvmlDeviceGetMinorNumber": 110, "nvmlDeviceGetBrand": 120, "nvmlDeviceGetArchitecture": 130,
    "nvmlDeviceGetCudaComputeCapability": [140, 141], "nvmlDeviceGetPowerUsage": 150,
    "nvmlDeviceGetPowerManagementLimit": 160, "nvmlDeviceGetEnforcedPowerLimit": 170, "nvmlDeviceGetPerformanceState": 180,
    "nvmlDeviceGetPowerState": 190, "nvmlDeviceGetFanSpeed": 200, "nvmlDeviceGetNumFans": 210,
    "nvmlDeviceGetEncoderUtilization": [220, 221], "nvmlDeviceGetDecoderUtilization": [230, 231],
    "nvmlDeviceGetCurrPcieLinkGeneration": 240, "nvmlDeviceGetMaxPcieLinkGeneration": 250,
    "nvmlDeviceGetCurrPcieLinkWidth": 260, "nvmlDeviceGetMaxPcieLinkWidth": 270, "nvmlDeviceGetComputeMode": 280,
    "nvmlDeviceGetPersistenceMode": 290, "nvmlDeviceGetDisplayActive": 300, "nvmlDeviceGetDisplayMode": 310,
    "nvmlDeviceGetEccMode": [320, 321], "nvmlDeviceGetMigMode": [330, 331], "nvmlDeviceGetMaxMigDeviceCount": 340,
    "nvmlDeviceGetSupportedEventTypes": 350, "nvmlDeviceGetTemperature": 360, "nvmlDeviceGetFanSpeed_v2": 370,
    "nvmlDeviceGetClockInfo graphics": 380, "nvmlDeviceGetClockInfo sm": 390, "nvmlDeviceGetClockInfo memory": 400,
    "nvmlDeviceGetClockInfo video": 410, "nvmlDeviceGetMaxClockInfo graphics": 420, "nvmlDeviceGetMaxClockInfo sm": 430,
    "nvmlDeviceGetMaxClockInfo memory": 440, "nvmlDeviceGetMaxClockInfo video": 450,
    "nvmlDeviceGetPcieThroughput sent": 460, "nvmlDeviceGetPcieThroughput received": 470,
    "nvmlDeviceGetTotalEccErrors corrected": 480, "nvmlDeviceGetTotalEccErrors uncorrected": 490,
    "nvmlDeviceGetMemoryInfo": {"total": 4000}, "nvmlDeviceGetMemoryInfo_v2": {"total": 5000, "reserved": 60},
    "nvmlDeviceGetPciInfo_v3": {"domain": 1, "bus": 2, "device": 3, "pciDeviceId": 4, "pciSubSystemId": 5},
    "nvmlDeviceGetMemoryAffinity": [1], "nvmlDeviceGetNvLinkState": [0, 1, 1],
    "nvmlDeviceGetFieldValues recovery action": 2,
}  # fmt: skip
FIELDS: dict[str, int | bytes] = {
    "name": b"Tesla T4", "state": 0, "memory_total": 5000, "memory_reserved": 60, "minor": 110, "brand": 120,
    "architecture": 130, "compute_major": 140, "compute_minor": 141, "power": 150, "power_limit": 170, "idle_state": 190,
    "fan": 370, "fans": 210, "sampling_period": 231, "idle_pcie_generation": 240, "pcie_generation": 250,
    "pcie_width": 270, "compute_mode": 280, "persistence": 290, "display_active": 300, "display_mode": 310,
    "ecc_mode": 320, "ecc_pending": 321, "mig_mode": 330, "mig_pending": 331, "mig_slices": 340, "events": 350,
    "temperature": 360, "idle_graphics": 380, "idle_sm": 390, "idle_memory": 400, "idle_video": 410,
    "clock_graphics": 420, "clock_sm": 430, "clock_memory": 440, "clock_video": 450, "ecc_corrected": 480,
    "ecc_uncorrected": 490, "recovery_action": 2, "pci_domain": 1, "pci_bus": 2, "pci_device": 3, "pci_device_id": 4,
    "pci_subsystem_id": 5, "numa": 1, "nvlinks": 3, "nvswitches": 1, "nvlink_peers": 0, "ecc_supported": 1,
}  # fmt: skip


def refused(code: str) -> dict[str, str]:
    """The record of a call that failed."""
    return {"returns": code}


def test_each_answer_is_in_its_field() -> None:
    """How busy the card was is left out, and what it answered as an idle one is what it answers idle."""
    for calls in (IDLE, {**IDLE, "nvmlDeviceGetHandleByIndex": 0}):
        assert recorded_card(calls) == RecordedCard("GPU-a", "12", FIELDS, {})


def test_what_was_not_recorded_is_not_supported() -> None:
    """A function that needs a value is refused, and the others answer."""
    card = recorded_card({"nvmlDeviceGetName": "Tesla T4"})

    assert {name: value for name, value in card.fields.items() if value} == {"name": b"Tesla T4", "numa": -1}
    assert card.fields.keys() >= {field for answer in ANSWERS.values() for field in (*answer.fields, *answer.idle)}
    assert (card.uuid, card.serial, card.refused) == ("", "", dict.fromkeys(NEED_A_VALUE, Code.NOT_SUPPORTED))


@pytest.mark.parametrize(
    ("calls", "field", "value"),
    [
        ({"nvmlDeviceGetMaxClockInfo sm": None}, "clock_sm", 390),
        ({"nvmlDeviceGetMaxClockInfo sm": 0}, "clock_sm", 390),
        ({"nvmlDeviceGetMaxPcieLinkWidth": None}, "pcie_width", 260),
        ({"nvmlDeviceGetNumFans": refused("FUNCTION_NOT_FOUND")}, "fans", 1),
        ({"nvmlDeviceGetNumFans": None, "nvmlDeviceGetFanSpeed": None}, "fans", 0),
        ({"nvmlDeviceGetTemperature": None, "nvmlDeviceGetTemperatureV": 41}, "temperature", 41),
        ({"nvmlDeviceGetTemperatureV": 41}, "temperature", 360),
        ({"nvmlDeviceGetSupportedEventTypes": None, "nvmlDeviceRegisterEvents": 9}, "events", 9),
        ({"nvmlDeviceGetMemoryInfo_v2": None}, "memory_total", 4000),
        ({"nvmlDeviceGetMemoryInfo_v2": None}, "memory_reserved", 0),
        ({"nvmlDeviceGetMemoryInfo": None}, "memory_total", 5000),
        ({"nvmlDeviceGetPciInfo_v2": {**IDLE["nvmlDeviceGetPciInfo_v3"], "bus": 9}}, "pci_bus", 2),
        ({"nvmlDeviceGetMemoryAffinity": []}, "numa", -1),
        ({"nvmlDeviceGetMemoryAffinity": refused("NOT_SUPPORTED")}, "numa", -1),
        ({"nvmlDeviceGetNvLinkState": None}, "nvlinks", 0),
        ({"nvmlDeviceGetEccMode": None}, "ecc_supported", 0),
        ({"nvmlDeviceGetFieldValues recovery action": None}, "recovery_action", 0),
        pytest.param({"nvmlDeviceGetName": "\ufffd" * 60}, "name", ("\ufffd" * 31).encode(), id="name-three-bytes"),
        pytest.param({"nvmlDeviceGetName": "x" * 96}, "name", b"x" * 95, id="name-one-byte"),
    ],
    ids=str,
)
def test_what_is_not_known_follows_from_other_answers(calls: dict[str, Any], field: str, value: object) -> None:
    """A limit is as high as what the idle card showed, and an older or newer function stands in."""
    assert recorded_card({**IDLE, **calls}).fields[field] == value


def test_an_address_that_is_not_known_is_left_to_the_slot() -> None:
    """A card that did not answer it gets one as any other."""
    fields = recorded_card({**IDLE, "nvmlDeviceGetPciInfo_v3": refused("UNKNOWN")}).fields

    assert [name for name in fields if name.startswith("pci_")] == []
    older = {**IDLE, "nvmlDeviceGetPciInfo_v3": None, "nvmlDeviceGetPciInfo": IDLE["nvmlDeviceGetPciInfo_v3"]}
    assert recorded_card(older).fields["pci_bus"] == 2


@pytest.mark.parametrize(
    ("calls", "key", "code"),
    [
        ({"nvmlDeviceGetPowerUsage": refused("NO_PERMISSION")}, "nvmlDeviceGetPowerUsage", Code.NO_PERMISSION),
        ({"nvmlDeviceGetPowerUsage": refused("65535")}, "nvmlDeviceGetPowerUsage", 65535),
        ({"nvmlDeviceGetPowerUsage": None}, "nvmlDeviceGetPowerUsage", Code.NOT_SUPPORTED),
        ({"nvmlDeviceGetPowerUsage": refused("SUCCESS")}, "nvmlDeviceGetPowerUsage", None),
        ({"nvmlDeviceGetHandleByPciBusId": refused("UNKNOWN")}, "nvmlDeviceGetHandleByPciBusId_v2", Code.UNKNOWN),
        ({"nvmlDeviceGetTemperature": refused("UNKNOWN")}, "nvmlDeviceGetTemperatureV", Code.UNKNOWN),
        ({"nvmlDeviceGetSupportedEventTypes": refused("UNKNOWN")}, "nvmlDeviceRegisterEvents", Code.UNKNOWN),
        ({"nvmlDeviceGetComputeRunningProcesses": refused("UNKNOWN")}, "nvmlDeviceGetComputeRunningProcesses_v2", Code.UNKNOWN),
        ({"nvmlDeviceGetComputeRunningProcesses": refused("FUNCTION_NOT_FOUND")}, "nvmlDeviceGetComputeRunningProcesses", None),
        (
            {f"nvmlDeviceGetComputeRunningProcesses{version}": refused("FUNCTION_NOT_FOUND") for version in ("", "_v3")},
            "nvmlDeviceGetComputeRunningProcesses",
            Code.FUNCTION_NOT_FOUND,
        ),
        ({"nvmlDeviceGetPciInfo": refused("FUNCTION_NOT_FOUND")}, "nvmlDeviceGetPciInfo_v2", Code.FUNCTION_NOT_FOUND),
    ],
    ids=str,
)  # fmt: skip
def test_a_refusal_is_kept_with_its_code(calls: dict[str, Any], key: str, code: int | None) -> None:
    """A call without a version stands for the versions that older recordings lack."""
    assert recorded_card({**IDLE, **calls}).refused.get(key) == code


def test_a_card_without_a_handle_answers_nothing() -> None:
    """It is lost, or refuses every function with the code of its handle."""
    lost, unknown = (
        recorded_card({"nvmlDeviceGetHandleByIndex": refused(code)}) for code in ("GPU_IS_LOST", "UNKNOWN")
    )

    assert lost == RecordedCard("", "", {"name": b"", "numa": -1, "state": LOST}, {})
    assert unknown == RecordedCard("", "", {"name": b"", "numa": -1}, dict.fromkeys(OF_CARDS, Code.UNKNOWN))


def test_the_nodes_refusals_are_kept_too() -> None:
    """A call that a recording lacks answers."""
    calls = {"nvmlSystemGetProcessName": refused("NO_PERMISSION"), "nvmlEventSetCreate": 1}

    assert refused_of_system(calls) == {"nvmlSystemGetProcessName": Code.NO_PERMISSION}
    with pytest.raises(CatalogueError, match="^system is not what fake-nvml record writes: TypeError"):
        refused_of_system(3)


@pytest.mark.parametrize(
    ("calls", "error"),
    [
        ({"nvmlDeviceGetPowerUsage": refused("65536")}, "ValueError.'nvmlDeviceGetPowerUsage returns 65536'."),
        ({"nvmlDeviceGetPowerUsage": refused("-1")}, "ValueError.'nvmlDeviceGetPowerUsage returns -1'."),
        ({"nvmlDeviceGetBrand": 2**32}, "ValueError.'brand is 4294967296, which no card has'."),
        ({"nvmlDeviceGetUUID": "GPU-\0a"}, "ValueError..uuid is b'GPU-.*', which no card has.."),
        ({"nvmlDeviceGetSerial": "1\0"}, "ValueError..serial is b'1.*', which no card has.."),
        ({"nvmlDeviceGetCudaComputeCapability": [8]}, "ValueError"),
    ],
)
def test_a_value_that_no_card_has_is_refused(calls: dict[str, Any], error: str) -> None:
    """The error names the field or the call."""
    with pytest.raises(CatalogueError, match=f"^recorded is not what fake-nvml record writes: {error}"):
        recorded_card({**IDLE, **calls})


@pytest.mark.parametrize("calls", [None, [], "much"])
def test_calls_that_are_none_are_refused(calls: object) -> None:
    """And none of them is unknown."""
    with pytest.raises(CatalogueError, match=r"writes: TypeError\('not calls and what they answered'\)$"):
        recorded_card(calls)
    assert list(unknown_calls(calls)) == []


def test_a_call_without_a_place_is_unknown() -> None:
    """A name without a version is known."""
    calls = {**IDLE, "nvmlDeviceGetMood": 1, "nvmlDeviceGetHandleByPciBusId": 1, "nvmlSystemGetProcessName": 1}

    assert list(unknown_calls(calls)) == ["nvmlDeviceGetMood"]
