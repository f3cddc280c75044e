"""Promises for any cards, asked without changing anything: a real driver's are asked too, if there is one."""

from __future__ import annotations

import ctypes
import time

import pynvml
import pytest

from tests.fake_nvml.conformance.calls import (
    DRIVERS,
    FUNCTION_NOT_FOUND,
    INSUFFICIENT_SIZE,
    INVALID_ARGUMENT,
    NOT_FOUND,
    REAL,
    TIMEOUT,
    UNINITIALIZED,
    XID,
    address,
    cards,
    code,
    init_again,
    raw,
    shut_down,
    wait,
)

pytestmark = [pytest.mark.parametrize("driver", [*DRIVERS, REAL], indirect=True), pytest.mark.usefixtures("any_nvml")]


def test_nothing_answers_before_init_and_after_the_last_shutdown() -> None:
    """The library answers until nvmlShutdown was called as often as nvmlInit. Codes have texts at any time."""
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() > 0

    shut_down()

    for call in (pynvml.nvmlDeviceGetCount, pynvml.nvmlSystemGetDriverVersion, pynvml.nvmlEventSetCreate):
        assert code(call) == UNINITIALIZED
    assert code(pynvml.nvmlDeviceGetHandleByUUID, "GPU-no") == UNINITIALIZED
    texts = [pynvml.nvmlErrorString(number) for number in (0, 15, 12345)]
    assert texts == ["Success", "GPU is lost", "Unknown Error"]


def test_a_card_has_one_handle_by_whatever_name_it_is_found() -> None:
    """Index, UUID and every spelling of the bus id lead to it, also after a new init."""
    for index, card in enumerate(cards()):
        bus = pynvml.nvmlDeviceGetPciInfo(card)

        assert pynvml.nvmlDeviceGetIndex(card) == index
        assert address(pynvml.nvmlDeviceGetHandleByUUID(pynvml.nvmlDeviceGetUUID(card))) == address(card)
        for name in (bus.busId, bus.busIdLegacy, bus.busId.lower()):
            assert address(pynvml.nvmlDeviceGetHandleByPciBusId(name)) == address(card)
    before = [address(card) for card in cards()]
    init_again()
    assert [address(card) for card in cards()] == before


def test_a_card_that_is_not_there_is_not_found() -> None:
    """An index is invalid, a UUID or bus id is not found."""
    assert code(pynvml.nvmlDeviceGetHandleByIndex, pynvml.nvmlDeviceGetCount()) == INVALID_ARGUMENT
    assert code(pynvml.nvmlDeviceGetHandleByUUID, "GPU-00000000-0000-0000-0000-000000000000") == NOT_FOUND
    assert code(pynvml.nvmlDeviceGetHandleByPciBusId, "0000:ff:1f.0") == NOT_FOUND


def test_memory_adds_up() -> None:
    """Total is the sum of the parts, in both structs. A struct in another version is a function that is not there."""
    card = cards()[0]

    memory = pynvml.nvmlDeviceGetMemoryInfo(card)

    assert memory.total == memory.used + memory.free
    if hasattr(pynvml.nvmlLib, "nvmlDeviceGetMemoryInfo_v2"):
        parts = pynvml.nvmlDeviceGetMemoryInfo(card, version=0x02000028)
        assert parts.total == memory.total == parts.reserved + parts.used + parts.free
    assert code(pynvml.nvmlDeviceGetMemoryInfo, card, version=0x7F000028) == FUNCTION_NOT_FOUND


def test_a_text_that_does_not_fit_is_not_cut() -> None:
    """A buffer one byte too short stays empty."""
    card, buffer = cards()[0], ctypes.create_string_buffer(96)
    uuid = pynvml.nvmlDeviceGetUUID(card)

    assert raw("nvmlDeviceGetUUID", card, buffer, ctypes.c_uint(len(uuid))) == INSUFFICIENT_SIZE
    assert buffer.value == b""
    assert raw("nvmlDeviceGetUUID", card, buffer, ctypes.c_uint(len(uuid) + 1)) == 0
    assert buffer.value.decode() == uuid


def test_an_event_set_without_events_times_out() -> None:
    """Immediately if the wait has no time, else not before its time. A bit that no event has is refused."""
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(cards()[0], XID, events)

    assert code(pynvml.nvmlDeviceRegisterEvents, cards()[0], 1 << 62, events) != 0
    assert code(wait, events) == TIMEOUT
    began = time.monotonic()
    assert code(wait, events, 20) == TIMEOUT
    assert time.monotonic() - began >= 0.02
    pynvml.nvmlEventSetFree(events)
