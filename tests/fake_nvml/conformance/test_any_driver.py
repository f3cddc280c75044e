"""Promises for any cards, asked without changing anything: a real driver's are asked too, if there is one."""

from __future__ import annotations

import time

import pytest

from tests.fake_nvml.conformance.probed import CallError, Probed

UNINITIALIZED, INVALID_ARGUMENT, NOT_FOUND, INSUFFICIENT_SIZE, TIMEOUT, FUNCTION_NOT_FOUND = 1, 2, 6, 7, 10, 13
XID = 0x8


def test_nothing_answers_before_init_and_after_the_last_shutdown(any_nvml: Probed) -> None:
    """The library counts calls of nvmlInit, and answers until nvmlShutdown was called as often."""
    any_nvml.nvmlInit()
    any_nvml.nvmlInit()
    any_nvml.nvmlShutdown()
    assert any_nvml.nvmlDeviceGetCount() > 0

    any_nvml.nvmlShutdown()

    assert any_nvml.code("nvmlDeviceGetCount") == UNINITIALIZED
    assert any_nvml.code("nvmlSystemGetDriverVersion") == UNINITIALIZED
    assert any_nvml.code("nvmlEventSetCreate") == UNINITIALIZED
    assert any_nvml.code("nvmlDeviceGetHandleByUUID", "GPU-no") == UNINITIALIZED


def test_codes_have_texts_at_any_time(any_nvml: Probed) -> None:
    """A code has its text after a shutdown too, and an unknown code has a text of its own."""
    any_nvml.nvmlInit()
    any_nvml.nvmlShutdown()

    assert any_nvml.nvmlErrorString(0) == "Success"
    assert any_nvml.nvmlErrorString(15) == "GPU is lost"
    assert any_nvml.nvmlErrorString(12345) == "Unknown Error"


def test_a_card_has_one_handle_by_whatever_name_it_is_found(any_nvml: Probed) -> None:
    """Index, UUID and every spelling of the bus id lead to it."""
    any_nvml.nvmlInit()
    for index in range(any_nvml.nvmlDeviceGetCount()):
        card = any_nvml.nvmlDeviceGetHandleByIndex(index)
        bus = any_nvml.nvmlDeviceGetPciInfo(card)

        assert any_nvml.nvmlDeviceGetIndex(card) == index
        assert any_nvml.nvmlDeviceGetHandleByUUID(any_nvml.nvmlDeviceGetUUID(card)) == card
        for name in (bus["busId"], bus["busIdLegacy"], bus["busId"].lower()):
            assert any_nvml.nvmlDeviceGetHandleByPciBusId(name) == card


def test_handles_stay_the_same_over_a_new_init(any_nvml: Probed) -> None:
    """A caller may keep them."""
    any_nvml.nvmlInit()
    before = any_nvml.nvmlDeviceGetHandleByIndex(0)
    any_nvml.nvmlShutdown()
    any_nvml.nvmlInit()

    assert any_nvml.nvmlDeviceGetHandleByIndex(0) == before


def test_a_card_that_is_not_there_is_not_found(any_nvml: Probed) -> None:
    """An index is invalid, a UUID or bus id is not found."""
    any_nvml.nvmlInit()
    count = any_nvml.nvmlDeviceGetCount()

    assert any_nvml.code("nvmlDeviceGetHandleByIndex", count) == INVALID_ARGUMENT
    assert any_nvml.code("nvmlDeviceGetHandleByUUID", "GPU-00000000-0000-0000-0000-000000000000") == NOT_FOUND
    assert any_nvml.code("nvmlDeviceGetHandleByPciBusId", "0000:ff:1f.0") == NOT_FOUND


def test_memory_adds_up(any_nvml: Probed) -> None:
    """Total is the sum of the parts, in both structs."""
    any_nvml.nvmlInit()
    card = any_nvml.nvmlDeviceGetHandleByIndex(0)

    memory = any_nvml.nvmlDeviceGetMemoryInfo(card)

    assert memory["total"] == memory["used"] + memory["free"]
    if any_nvml.has("nvmlDeviceGetMemoryInfo_v2"):
        parts = any_nvml.nvmlDeviceGetMemoryInfo(card, version=0x02000028)
        assert parts["total"] == memory["total"] == parts["reserved"] + parts["used"] + parts["free"]


def test_an_unknown_struct_version_is_refused(any_nvml: Probed) -> None:
    """The second struct of memory in another version is a function that is not there, as on drivers without that struct."""
    any_nvml.nvmlInit()
    card = any_nvml.nvmlDeviceGetHandleByIndex(0)

    assert any_nvml.code("nvmlDeviceGetMemoryInfo", card, version=0x7F000028) == FUNCTION_NOT_FOUND


def test_a_text_that_does_not_fit_is_not_cut(any_nvml: Probed) -> None:
    """A buffer one byte too short stays empty."""
    any_nvml.nvmlInit()
    card = any_nvml.nvmlDeviceGetHandleByIndex(0)
    uuid = any_nvml.nvmlDeviceGetUUID(card)

    code, (written,) = any_nvml.raw("nvmlDeviceGetUUID", card, {"buffer": 96}, {"uint": len(uuid)})
    assert (code, written) == (INSUFFICIENT_SIZE, "")
    code, (written,) = any_nvml.raw("nvmlDeviceGetUUID", card, {"buffer": 96}, {"uint": len(uuid) + 1})
    assert (code, written) == (0, uuid)


def test_an_event_set_without_events_times_out(any_nvml: Probed) -> None:
    """A wait for events times out: immediately if it has no time, else not before the time that was asked for."""
    any_nvml.nvmlInit()
    events = any_nvml.nvmlEventSetCreate()
    any_nvml.nvmlDeviceRegisterEvents(any_nvml.nvmlDeviceGetHandleByIndex(0), XID, events)

    assert any_nvml.wait_code(events) == TIMEOUT
    began = time.monotonic()
    assert any_nvml.wait_code(events, 20) == TIMEOUT
    assert time.monotonic() - began >= 0.02
    any_nvml.nvmlEventSetFree(events)


def test_an_event_type_that_is_none_is_refused(any_nvml: Probed) -> None:
    """A bit that no event has cannot be registered."""
    any_nvml.nvmlInit()
    card = any_nvml.nvmlDeviceGetHandleByIndex(0)
    events = any_nvml.nvmlEventSetCreate()

    with pytest.raises(CallError):
        any_nvml.nvmlDeviceRegisterEvents(card, 1 << 62, events)
    any_nvml.nvmlEventSetFree(events)
