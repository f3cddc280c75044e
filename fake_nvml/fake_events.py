"""Event sets: each has its own place in the ring of events, so that any number of watchers see the same event.

Events lie in a ring of 256; a watcher that falls further behind misses the oldest.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from fake_nvml.core.layout import EVENTS, Event, StateFile
from fake_nvml.core.returns import Code, ReturnCodeError
from fake_nvml.fake_session import Session

_HANDLES = 0x7FB0_0000_0000
_STRIDE = 0x100
# Between two looks at the ring, in seconds. Other processes write it without waking us.
_LOOK_SECONDS = 0.005


@dataclass(slots=True)
class EventSet:
    """The wishes of one caller: per slot the wanted event types, and from which event on."""

    next_event: int = 0
    wanted: dict[int, int] = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)


class EventSets:
    """The event sets of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
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
                raise ReturnCodeError(Code.INVALID_ARGUMENT)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._sets.clear()

    def register(self, handle: int, slot: int, types: int, content: StateFile) -> None:
        """Listen to ``types`` on a card from now on."""
        with self._lock:
            listening = self._get(handle)
            if not listening.wanted:
                listening.next_event = content.header.next_event
            listening.since.setdefault(slot, content.header.next_event)
            listening.wanted[slot] = listening.wanted.get(slot, 0) | types

    def wait(self, handle: int, timeout_ms: int) -> Event:
        """The next event of a set. Raises GPU_IS_LOST immediately if a card of it is lost, TIMEOUT after ``timeout_ms``.

        What happened before the loss comes first.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            content = self._session.read()
            with self._lock:
                listening = self._get(handle)
                event, slots = self._take(listening, content), tuple(listening.wanted)
            if event is not None:
                return event
            for slot in slots:
                self._session.device("nvmlEventSetWait", slot, content)
            left = deadline - time.monotonic()
            if left <= 0:
                raise ReturnCodeError(Code.TIMEOUT)
            time.sleep(min(left, _LOOK_SECONDS))

    def _get(self, handle: int) -> EventSet:
        if handle not in self._sets:
            raise ReturnCodeError(Code.INVALID_ARGUMENT)
        return self._sets[handle]

    def _take(self, listening: EventSet, content: StateFile) -> Event | None:
        end = content.header.next_event
        listening.next_event = max(listening.next_event, end - EVENTS)
        while listening.next_event < end:
            event: Event = content.events[listening.next_event % EVENTS]
            listening.next_event += 1
            if self._is_for(listening, event, content):
                return event
        return None

    def _is_for(self, listening: EventSet, event: Event, content: StateFile) -> bool:
        """Whether an event is of a wanted type (a new box empties the ring: no type), new, and of the card known here."""
        if not listening.wanted.get(event.card, 0) & event.type or event.number < listening.since[event.card]:
            return False
        now = content.cards[event.card]
        same = now.uuid in (b"", self._session.known(event.card).uuid)
        return bool(same or event.number < now.first_event)
