"""From the first nvmlInit to the last nvmlShutdown: the open state, the cards that were there at init, and the faults.

A handle is an address that is never followed; it names a slot of the state file and is the same in each session.

Event sets: each has its own place in the ring of events, so that any number of watchers see the same event. Events lie in a ring
of 256; a watcher that falls further behind misses the oldest.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from fake_nvml.core import call_faults
from fake_nvml.core.answers import PLACES
from fake_nvml.core.drivers import branch, complete
from fake_nvml.core.layout import EVENTS, FAULTS, FOR_EVER, LOST, Card, Event, Fault, Header, StateFile
from fake_nvml.core.records import card_slots
from fake_nvml.core.returns import Code, ReturnCodeError
from fake_nvml.eras import ERAS
from fake_nvml.fake_nvml_errors import StateError
from fake_nvml.mapping import MappedState

_HANDLES = 0x7FA0_0000_0000
_STRIDE = 0x1000
_SET_HANDLES = 0x7FB0_0000_0000
_SET_STRIDE = 0x100
# Between two looks at the ring of events, in seconds. Other processes write it without waking us.
_LOOK_SECONDS = 0.005
_NO_FAULTS = bytes(ctypes.sizeof(Fault) * FAULTS)


@dataclass(frozen=True, slots=True)
class Device:
    """A card as a call sees it: all records at one moment, which card is meant, and its index since init."""

    content: StateFile
    slot: int
    index: int

    @property
    def card(self) -> Card:
        """The card's record."""
        card: Card = self.content.cards[self.slot]
        return card


class Session:
    """The cards as one process knows them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._users = 0
        self._state: MappedState | None = None
        # Slot -> the record at init, in NVML's order.
        self._known: dict[int, Card] = {}

    @property
    def initialized(self) -> bool:
        """Whether nvmlInit was called more often than nvmlShutdown."""
        return self._users > 0

    def init(self, function: str) -> None:
        """Count a user; the first opens the state and takes down which cards there are. ``function``: by which name."""
        with self._lock:
            first = self._state is None
        state = self._open() if first else self._current()
        try:
            self._meet(state, function, None)
            with self._lock:
                if self._state is None:
                    content = state.read()
                    if content.header.init_return != Code.SUCCESS:
                        raise ReturnCodeError(content.header.init_return)
                    self._known = {slot: content.cards[slot] for slot in card_slots(content)}
                    self._state = state
                self._users += 1
        finally:
            if state is not self._state:
                state.close()

    def shutdown(self) -> bool:
        """A user less; the last closes the state. Answers whether it was the last."""
        with self._lock:
            if self._users == 0:
                raise ReturnCodeError(Code.UNINITIALIZED)
            self._users -= 1
            if self._users == 0 and self._state is not None:
                self._state.close()
                self._state = None
            return self._users == 0

    def meet(self, function: str, slot: int | None) -> StateFile:
        """The state now, after the fault that a call meets, which may raise its code. Raises UNINITIALIZED before init."""
        return self._meet(self._current(), function, slot)

    def read(self) -> StateFile:
        """The state now. Raises UNINITIALIZED before init."""
        return _read(self._current())

    @property
    def slots(self) -> tuple[int, ...]:
        """The slots that held a card at init, lost ones too, in NVML's order."""
        return tuple(self._known)

    def known(self, slot: int) -> Card:
        """The record in a slot of ``slots`` at init."""
        return self._known[slot]

    def handle(self, slot: int) -> int:
        """The handle of a card."""
        return _HANDLES + slot * _STRIDE

    def slot(self, handle: int) -> int:
        """The slot that a handle names. Raises INVALID_ARGUMENT if it is none of ours."""
        slot, rest = divmod(handle - _HANDLES, _STRIDE)
        if rest or slot not in self._known:
            raise ReturnCodeError(Code.INVALID_ARGUMENT)
        return slot

    def device(self, function: str, slot: int, content: StateFile) -> Device:
        """The card that was in a slot at init, for a call of a function.

        Raises GPU_IS_LOST if it does not answer, or is another one now, and what it answers the function instead.
        """
        card = content.cards[slot]
        if slot >= content.header.card_count or card.uuid != self._known[slot].uuid or card.state == LOST:
            raise ReturnCodeError(Code.GPU_IS_LOST)
        check(card, function)
        return Device(content, slot, self.slots.index(slot))

    @property
    def driver(self) -> str:
        """The driver's version, also before init; without a state file there is nothing to be older than."""
        with contextlib.suppress(StateError):
            if self._state is not None:
                return self._state.driver()
            with contextlib.closing(MappedState.open(self._path)) as state:
                return state.driver()
        return complete(str(ERAS[-1]))

    @property
    def branch(self) -> int:
        """The driver's branch, which decides what the library has."""
        return branch(self.driver)

    def _current(self) -> MappedState:
        state = self._state
        if state is None:
            raise ReturnCodeError(Code.UNINITIALIZED)
        return state

    def _open(self) -> MappedState:
        if not self._path.exists():
            raise ReturnCodeError(Code.DRIVER_NOT_LOADED)
        try:
            return MappedState.open(self._path)
        except StateError as error:
            raise ReturnCodeError(Code.LIB_RM_VERSION_MISMATCH) from error

    def _meet(self, state: MappedState, function: str, slot: int | None) -> StateFile:
        content = _read(state)
        if bytes(content.faults) == _NO_FAULTS:
            return content
        fault = call_faults.find(content, function, slot)
        if fault is not None and fault.count != FOR_EVER and state.writable:
            fault = _wear(state, function, slot)
        if fault is None:
            return content
        time.sleep(fault.delay / 1_000_000)
        if fault.code != Code.SUCCESS:
            raise ReturnCodeError(fault.code)
        return _read(state)


def refusal(record: Header | Card, key: str) -> int:
    """The code that a card, or the whole node, answers a key of ``answers`` with; SUCCESS if it answers it."""
    place = PLACES.get(key)
    return Code.SUCCESS if place is None else int(record.refused[place])


def check(record: Header | Card, key: str) -> None:
    """Raise the code that a card, or the whole node, answers a key with."""
    code = refusal(record, key)
    if code != Code.SUCCESS:
        raise ReturnCodeError(code)


def _read(state: MappedState) -> StateFile:
    try:
        return state.read()
    except StateError as error:  # closed by nvmlShutdown of another thread
        raise ReturnCodeError(Code.UNINITIALIZED) from error


def _wear(state: MappedState, function: str, slot: int | None) -> Fault | None:
    """Take one call off a counted fault; answers what is met, None if others were quicker."""
    with state.writing() as content:
        fault = call_faults.find(content, function, slot)
        if fault is None:
            return None
        met = Fault.from_buffer_copy(fault)
        call_faults.wear(fault)
        return met


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
            handle = _SET_HANDLES + self._created * _SET_STRIDE
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
