"""Event sets: each has its own place in the ring of events, so that any number of watchers see the same event.

Events lie in a ring of 256; a watcher that falls further behind misses the oldest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fake_nvml.layout import EVENTS, Event, StateFile
from fake_nvml.returns import INVALID_ARGUMENT, TIMEOUT, ReturnCodeError

if TYPE_CHECKING:
    from fake_nvml.library import Library

_HANDLES = 0x7FB0_0000_0000
_STRIDE = 0x100
# Between two looks at the ring, in seconds. Other processes write it without waking us.
_LOOK_SECONDS = 0.005


@dataclass(slots=True)
class EventSet:
    """What one caller listens to: per card the wanted event types, and from which event on."""

    next_event: int = 0
    wanted: dict[int, int] = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)


class EventSets:
    """The event sets of one library."""

    def __init__(self, monotonic: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = threading.Lock()
        self._sets: dict[int, EventSet] = {}
        self._created = 0

    def create(self) -> int:
        """A new, empty set; answers its handle, which no later set gets again."""
        with self._lock:
            handle = _HANDLES + self._created * _STRIDE
            self._created += 1
            self._sets[handle] = EventSet()
            return handle

    def free(self, handle: int) -> None:
        """Forget a set."""
        with self._lock:
            if self._sets.pop(handle, None) is None:
                raise ReturnCodeError(INVALID_ARGUMENT)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._sets.clear()

    def register(self, handle: int, slot: int, types: int, content: StateFile) -> None:
        """Listen to ``types`` on a card from now on."""
        listening = self._get(handle)
        if not listening.wanted:
            listening.next_event = content.header.next_event
        listening.since.setdefault(slot, content.header.next_event)
        listening.wanted[slot] = listening.wanted.get(slot, 0) | types

    def wait(self, library: Library, handle: int, timeout_ms: int) -> Event:
        """The next event of a set. Raises GPU_IS_LOST at once where a card of it is lost, TIMEOUT after ``timeout_ms``.

        What happened before the loss comes first.
        """
        listening = self._get(handle)
        deadline = self._monotonic() + timeout_ms / 1000
        while True:
            event = _take(listening, library.read())
            if event is not None:
                return event
            for slot in listening.wanted:
                library.device_at(slot)
            left = deadline - self._monotonic()
            if left <= 0:
                raise ReturnCodeError(TIMEOUT)
            self._sleep(min(left, _LOOK_SECONDS))

    def _get(self, handle: int) -> EventSet:
        with self._lock:
            if handle not in self._sets:
                raise ReturnCodeError(INVALID_ARGUMENT)
            return self._sets[handle]


def _take(listening: EventSet, content: StateFile) -> Event | None:
    end = content.header.next_event
    listening.next_event = max(listening.next_event, end - EVENTS)
    while listening.next_event < end:
        event: Event = content.events[listening.next_event % EVENTS]
        listening.next_event += 1
        # A new box empties the ring: an event of no type.
        wanted = listening.wanted.get(event.card, 0) & event.type
        if wanted and event.number >= listening.since[event.card]:
            return event
    return None
