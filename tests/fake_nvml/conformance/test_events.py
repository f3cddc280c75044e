"""Events across processes: we post them here, callers wait for them in their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fake_nvml.box import Box
from fake_nvml.core.layout import EVENTS
from fake_nvml.state import State
from tests.fake_nvml.conformance.layers import Layer
from tests.fake_nvml.conformance.probed import CallError, Probed

INVALID_ARGUMENT, NOT_SUPPORTED, TIMEOUT, GPU_IS_LOST = 2, 3, 10, 15
SINGLE_BIT, DOUBLE_BIT, XID = 0x1, 0x2, 0x8
# Against a hang only; the awaited event comes immediately.
LONG_MS = 60_000


def listen(nvml: Probed, *indices: int) -> dict[str, int]:
    """A new event set that listens to Xids of these cards."""
    events: dict[str, int] = nvml.nvmlEventSetCreate()
    for index in indices:
        nvml.nvmlDeviceRegisterEvents(nvml.nvmlDeviceGetHandleByIndex(index), XID, events)
    return events


def wait(nvml: Probed, events: dict[str, int], timeout_ms: int = 0) -> tuple[int, int]:
    """Which card, by its handle, and the Xid."""
    data = nvml.ask({"wait": [events, timeout_ms]})
    assert (data["eventType"], data["gpuInstanceId"], data["computeInstanceId"]) == (XID, 0xFFFFFFFF, 0xFFFFFFFF)
    return data["device"]["handle"], data["eventData"]


def test_an_event_ends_the_wait_in_another_process(nvml: Probed, state: State) -> None:
    """The event has card and Xid, and is reported once."""
    events = listen(nvml, 0, 1)
    card = nvml.nvmlDeviceGetHandleByIndex(1)
    nvml.send({"wait": [events, LONG_MS]})

    state.post_xid(state.cards()[1].uuid, 31)

    data = nvml.receive()
    assert (data["device"], data["eventData"]) == (card, 31)
    assert nvml.wait_code(events) == TIMEOUT


def test_every_set_sees_every_event_once_and_in_order(nvml: Probed, state: State) -> None:
    """Two sets of one process do not take events from each other."""
    one, other = listen(nvml, 0), listen(nvml, 0, 1)
    first, second = (card.uuid for card in state.cards()[:2])
    for uuid, xid in ((first, 13), (second, 48), (first, 94)):
        state.post_xid(uuid, xid)

    assert [wait(nvml, one)[1] for _ in range(2)] == [13, 94]
    assert [wait(nvml, other)[1] for _ in range(3)] == [13, 48, 94]
    for events in (one, other):
        assert nvml.wait_code(events) == TIMEOUT


def test_what_was_before_the_registration_is_past(nvml: Probed, state: State) -> None:
    """A card reports to a set from its registration on."""
    first, second = (card.uuid for card in state.cards()[:2])
    state.post_xid(first, 13)
    events = listen(nvml, 0)
    state.post_xid(second, 14)
    nvml.nvmlDeviceRegisterEvents(nvml.nvmlDeviceGetHandleByIndex(1), XID, events)
    state.post_xid(second, 15)

    assert wait(nvml, events)[1] == 15


def test_only_types_that_the_card_reports_can_be_wanted(nvml: Probed, state: State) -> None:
    """A GeForce has no ECC events."""
    events = nvml.nvmlEventSetCreate()
    tesla, geforce = nvml.nvmlDeviceGetHandleByIndex(0), nvml.nvmlDeviceGetHandleByIndex(2)

    assert nvml.code("nvmlDeviceRegisterEvents", geforce, DOUBLE_BIT, events) == NOT_SUPPORTED
    assert nvml.code("nvmlDeviceRegisterEvents", tesla, SINGLE_BIT | DOUBLE_BIT, events) == 0
    state.post_xid(state.cards()[0].uuid, 31)
    assert nvml.wait_code(events) == TIMEOUT


def test_a_freed_set_is_no_set(nvml: Probed) -> None:
    """Other sets stay valid until the last shutdown."""
    events, other = listen(nvml, 0), listen(nvml, 0)
    nvml.nvmlEventSetFree(events)

    assert nvml.wait_code(events) == INVALID_ARGUMENT
    assert nvml.code("nvmlEventSetFree", events) == INVALID_ARGUMENT
    assert nvml.wait_code(other) == TIMEOUT
    nvml.nvmlShutdown()
    nvml.nvmlInit()
    assert nvml.wait_code(other) == INVALID_ARGUMENT


@pytest.mark.parametrize("leaves", ["lost", "removed", "swapped"])
def test_a_card_that_goes_ends_the_wait_after_its_last_event(nvml: Probed, state: State, leaves: str) -> None:
    """Lost, removed and swapped cards all do."""
    events = listen(nvml, 0, 1)
    uuid = state.cards()[0].uuid
    state.post_xid(uuid, 79)
    ways: dict[str, Callable[[str], object]] = {
        "lost": state.lose,
        "removed": state.remove_card,
        "swapped": state.change_uuid,
    }
    ways[leaves](uuid)

    assert wait(nvml, events, LONG_MS)[1] == 79
    for _ in range(2):
        assert nvml.wait_code(events, LONG_MS) == GPU_IS_LOST


def test_a_loss_ends_a_wait_that_is_under_way(nvml: Probed, state: State) -> None:
    """The code is GPU_IS_LOST."""
    events = listen(nvml, 0)
    nvml.send({"wait": [events, LONG_MS]})

    state.lose(state.cards()[0].uuid)

    with pytest.raises(CallError) as caught:
        nvml.receive()
    assert caught.value.code == GPU_IS_LOST


def test_events_of_the_slots_next_card_skip_users_of_the_first(nvml: Probed, state: State) -> None:
    """A set that knew the former card gets none of the new one's."""
    events = listen(nvml, 0, 1)
    new = state.change_uuid(state.cards()[0].uuid)
    state.post_xid(new, 48)

    assert nvml.wait_code(events) == GPU_IS_LOST


def test_who_slept_too_long_gets_the_newest(nvml: Probed, state: State) -> None:
    """The oldest events are overwritten."""
    events = listen(nvml, 0)
    for xid in range(1, EVENTS + 11):
        state.post_xid(state.cards()[0].uuid, xid)

    assert [wait(nvml, events)[1] for _ in range(EVENTS)] == list(range(11, EVENTS + 11))
    assert nvml.wait_code(events) == TIMEOUT


def test_a_new_box_brings_no_old_events(nvml: Probed, state: State, layer: Layer) -> None:
    """Events of the former box are past, also for a set that listened to the same cards."""
    events = listen(nvml, 0)
    state.post_xid(state.cards()[0].uuid, 31)
    State.create(state.path, Box.load("mixed", seed="node-1", driver=layer.driver)).close()

    assert nvml.wait_code(events) == TIMEOUT
    state.post_xid(state.cards()[0].uuid, 32)
    assert wait(nvml, events)[1] == 32
