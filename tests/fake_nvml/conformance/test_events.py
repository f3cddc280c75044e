"""Events across processes: another program posts them, callers wait for them here."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pynvml
import pytest

from fake_nvml.state import State
from tests.fake_nvml.conformance.calls import (
    GPU_IS_LOST,
    TIMEOUT,
    WHOLE_CARD,
    XID,
    address,
    cards,
    code,
    wait,
)

pytestmark = pytest.mark.usefixtures("nvml")

# Against a hang only; the awaited event comes immediately.
LONG_MS = 60_000


def listen(*indices: int) -> Any:
    """A new event set that listens to Xids of these cards."""
    events = pynvml.nvmlEventSetCreate()
    for index in indices:
        pynvml.nvmlDeviceRegisterEvents(cards()[index], XID, events)
    return events


def xid(events: Any, timeout_ms: int = 0) -> int:
    """The next Xid of a set, of a whole card."""
    event = wait(events, timeout_ms)
    assert (event.eventType, event.gpuInstanceId, event.computeInstanceId) == (XID, WHOLE_CARD, WHOLE_CARD)
    return int(event.eventData)


def test_an_event_ends_the_wait(state: State) -> None:
    """The event has card and Xid, and is reported once; a loss ends a wait, too."""
    events = listen(0, 1)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait, events, LONG_MS)
        state.post_xid(state.cards()[1].uuid, 31)
        event = waiting.result()
        assert (address(event.device), event.eventData) == (address(cards()[1]), 31)
        assert code(wait, events) == TIMEOUT

        waiting = pool.submit(code, wait, events, LONG_MS)
        state.lose(state.cards()[0].uuid)
        assert waiting.result() == GPU_IS_LOST


def test_every_set_sees_every_event_once_and_in_order(state: State) -> None:
    """Two sets of one process do not take events from each other. A card reports to a set from its registration on."""
    first, second = (card.uuid for card in state.cards()[:2])
    state.post_xid(first, 12)
    one, other = listen(0), listen(0)
    state.post_xid(second, 14)
    pynvml.nvmlDeviceRegisterEvents(cards()[1], XID, other)
    for uuid, number in ((first, 13), (second, 48), (first, 94)):
        state.post_xid(uuid, number)

    assert [xid(one) for _ in range(2)] == [13, 94]
    assert [xid(other) for _ in range(3)] == [13, 48, 94]
    assert [code(wait, events) for events in (one, other)] == [TIMEOUT] * 2


@pytest.mark.parametrize("leaves", ["lost", "removed", "swapped"])
def test_a_card_that_goes_ends_the_wait_after_its_last_event(state: State, leaves: str) -> None:
    """Lost, removed and swapped cards all do; a set that knew the card gets no event of the slot's next one."""
    events = listen(0, 1)
    uuid = state.cards()[0].uuid
    state.post_xid(uuid, 79)
    ways: dict[str, Callable[[str], object]] = {
        "lost": state.lose,
        "removed": state.remove_card,
        "swapped": lambda card: state.post_xid(state.change_uuid(card), 48),
    }
    ways[leaves](uuid)

    assert xid(events, LONG_MS) == 79
    assert [code(wait, events, LONG_MS) for _ in range(2)] == [GPU_IS_LOST] * 2
