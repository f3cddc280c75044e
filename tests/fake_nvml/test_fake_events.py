"""Xid events, through the real pynvml; time is the test's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from fake_nvml.box import Box
from fake_nvml.core.layout import EVENTS
from fake_nvml.fake_library import Library
from fake_nvml.state import State

XID = pynvml.nvmlEventTypeXidCriticalError


class Clock:
    """Seconds that pass only in ``sleep``, which may let something happen."""

    def __init__(self) -> None:
        self.now = 0.0
        self.meanwhile: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        happening, self.meanwhile = self.meanwhile, lambda: None
        happening()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(state_path: Path, clean_pynvml: None, clock: Clock) -> Iterator[State]:
    with State.create(state_path, Box.load("mixed", seed="node", driver="535.104.05")) as created:
        pynvml.nvmlLib = Library(state_path, monotonic=clock.monotonic, sleep=clock.sleep)
        pynvml.nvmlInit()
        yield created


def listen(*cards: int) -> object:
    events = pynvml.nvmlEventSetCreate()
    for index in cards:
        pynvml.nvmlDeviceRegisterEvents(pynvml.nvmlDeviceGetHandleByIndex(index), XID, events)
    return events


def wait(events: object, timeout_ms: int = 0) -> tuple[int, int]:
    """The address of the card, and the Xid."""
    data = pynvml.nvmlEventSetWait(events, timeout_ms)
    assert (data.eventType, data.gpuInstanceId, data.computeInstanceId) == (XID, 0xFFFFFFFF, 0xFFFFFFFF)
    return address(data.device), data.eventData


def address(card: object) -> int:
    return ctypes.cast(card, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def test_an_xid_reaches_the_sets_of_its_card(state: State) -> None:
    """A second wait times out."""
    events = listen(0, 1)

    state.post_xid(state.cards()[1].uuid, 31)

    assert wait(events) == (address(pynvml.nvmlDeviceGetHandleByIndex(1)), 31)
    with pytest.raises(pynvml.NVMLError_Timeout):
        wait(events)


def test_every_event_set_gets_every_event(state: State) -> None:
    """Two sets do not take events from each other."""
    one, other = listen(0), listen(0)

    state.post_xid(state.cards()[0].uuid, 48)

    assert [wait(one)[1], wait(other)[1]] == [48, 48]


def test_events_come_in_order_and_none_of_other_cards(state: State) -> None:
    """Cards that the set did not register are left out."""
    events = listen(0)
    first, second = (card.uuid for card in state.cards()[:2])
    for uuid, xid in ((first, 13), (second, 79), (first, 94)):
        state.post_xid(uuid, xid)

    assert [wait(events)[1], wait(events)[1]] == [13, 94]
    with pytest.raises(pynvml.NVMLError_Timeout):
        wait(events)


def test_what_happened_before_the_registration_is_past(state: State) -> None:
    """Each card counts from its own registration."""
    first, second = (card.uuid for card in state.cards()[:2])
    state.post_xid(first, 13)
    events = listen(0)
    state.post_xid(second, 14)
    pynvml.nvmlDeviceRegisterEvents(pynvml.nvmlDeviceGetHandleByIndex(1), XID, events)

    state.post_xid(second, 15)

    assert wait(events)[1] == 15


def test_a_wait_ends_at_its_time(state: State, clock: Clock) -> None:
    """It raises Timeout after the milliseconds that were asked for."""
    with pytest.raises(pynvml.NVMLError_Timeout):
        wait(listen(0), timeout_ms=2500)

    assert clock.now == pytest.approx(2.5)


def test_a_wait_ends_with_the_event(state: State, clock: Clock) -> None:
    """It does not last until the time-out."""
    clock.meanwhile = lambda: state.post_xid(state.cards()[0].uuid, 62)

    assert wait(listen(0), timeout_ms=5000)[1] == 62
    assert clock.now < 1


def test_lost_card_ends_the_wait_after_its_last_event(state: State, clock: Clock) -> None:
    """Each later wait ends at once with GpuIsLost."""
    events = listen(0, 1)
    uuid = state.cards()[0].uuid
    state.post_xid(uuid, 79)
    state.set_value(uuid, "state", "lost")

    assert wait(events, timeout_ms=5000)[1] == 79
    for _ in range(2):
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            wait(events, timeout_ms=5000)
    assert clock.now == 0


def test_a_watcher_that_slept_too_long_gets_the_newest(state: State) -> None:
    """The oldest events are overwritten."""
    events = listen(0)
    for xid in range(1, EVENTS + 11):
        state.post_xid(state.cards()[0].uuid, xid)

    assert [wait(events)[1] for _ in range(EVENTS)] == list(range(11, EVENTS + 11))


def test_a_new_box_brings_no_old_events(state: State) -> None:
    """Events of the former box are past."""
    events = listen(0)
    state.post_xid(state.cards()[0].uuid, 31)
    box = Box.load("mixed", seed="node", driver="535.104.05")

    State.create(state.path, box).close()

    with pytest.raises(pynvml.NVMLError_Timeout):
        wait(events)
    state.post_xid(state.cards()[0].uuid, 32)
    assert wait(events)[1] == 32


def test_a_card_supports_what_it_can_report(state: State) -> None:
    """A GeForce has no ECC events."""
    t4, geforce = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in (0, 2))
    events = pynvml.nvmlEventSetCreate()

    assert pynvml.nvmlDeviceGetSupportedEventTypes(t4) & pynvml.nvmlEventTypeDoubleBitEccError
    assert pynvml.nvmlDeviceGetSupportedEventTypes(geforce) == XID
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceRegisterEvents(geforce, pynvml.nvmlEventTypeDoubleBitEccError, events)


def test_a_freed_set_is_no_set(state: State) -> None:
    """Waiting on it and freeing it again are invalid."""
    events = listen(0)
    pynvml.nvmlEventSetFree(events)

    for ask in (lambda: wait(events), lambda: pynvml.nvmlEventSetFree(events)):
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            ask()


def test_sets_do_not_survive_a_shutdown(state: State) -> None:
    """A set of the former session is invalid."""
    events = listen(0)
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()

    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        wait(events)
