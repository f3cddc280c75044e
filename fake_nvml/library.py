"""The stand-in for the loaded NVML library: put it into ``pynvml.nvmlLib``, and pynvml runs as on a driver.

pynvml looks each C function up as an attribute of that object; ``Library`` answers with one out of ``calls``, with one
that says NOT_SUPPORTED, or, where the driver of the box is older than the function, with none at all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fake_nvml.calls import CALLS, NEEDS_NO_INIT
from fake_nvml.drivers import branch
from fake_nvml.eras import has_symbol
from fake_nvml.errors import StateError
from fake_nvml.events import EventSets
from fake_nvml.layout import LOST, Card, StateFile
from fake_nvml.returns import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    INVALID_ARGUMENT,
    LIB_RM_VERSION_MISMATCH,
    NOT_SUPPORTED,
    SUCCESS,
    UNINITIALIZED,
    ReturnCodeError,
)
from fake_nvml.state import State

# Device handles are addresses that nobody looks behind; the library knows its own by their place.
_HANDLES = 0x7FA0_0000_0000
_STRIDE = 0x1000


@dataclass(frozen=True, slots=True)
class Device:
    """A card as a call sees it: all records at one moment, and which card is meant."""

    content: StateFile
    slot: int

    @property
    def card(self) -> Card:
        """The card's record."""
        card: Card = self.content.cards[self.slot]
        return card


class Library:
    """One library in one process. ``monotonic`` and ``sleep`` are what waiting for events goes by, in seconds."""

    def __init__(
        self,
        path: Path,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._users = 0
        self._state: State | None = None
        self._uuids: tuple[bytes, ...] = ()
        self.events = EventSets(monotonic, sleep)

    def __getattr__(self, name: str) -> Symbol:
        """A C function by name. Raises AttributeError where the box's driver is older than it."""
        if name.startswith("_") or not has_symbol(name, self._branch()):
            raise AttributeError(f"this driver has no symbol {name}")
        return Symbol(self, name)

    @property
    def initialized(self) -> bool:
        """Whether nvmlInit was called more often than nvmlShutdown."""
        return self._users > 0

    def init(self) -> None:
        """nvmlInit: counts its users; the first opens the state and fixes the list of cards."""
        with self._lock:
            if self._state is None:
                self._state = state = self._open()
                content = state.read()
                self._uuids = tuple(bytes(content.cards[slot].uuid) for slot in range(content.header.card_count))
            self._users += 1

    def shutdown(self) -> None:
        """nvmlShutdown: the last user closes the state."""
        with self._lock:
            if self._users == 0:
                raise ReturnCodeError(UNINITIALIZED)
            self._users -= 1
            if self._users == 0 and self._state is not None:
                self.events.clear()
                self._state.close()
                self._state = None

    def read(self) -> StateFile:
        """The state now. Raises UNINITIALIZED before init."""
        state = self._state
        if state is None:
            raise ReturnCodeError(UNINITIALIZED)
        return state.read()

    @property
    def card_count(self) -> int:
        """Cards at init, lost ones too."""
        return len(self._uuids)

    def handle(self, slot: int) -> int:
        """The handle of a card."""
        return _HANDLES + slot * _STRIDE

    def device(self, handle: int) -> Device:
        """The card of a handle. Raises INVALID_ARGUMENT where it is none of ours, GPU_IS_LOST like ``device_at``."""
        slot, rest = divmod(handle - _HANDLES, _STRIDE)
        if rest or not 0 <= slot < len(self._uuids):
            raise ReturnCodeError(INVALID_ARGUMENT)
        return self.device_at(slot)

    def device_at(self, slot: int) -> Device:
        """The card of that index at init. Raises GPU_IS_LOST where it does not answer, or is another one now."""
        content = self.read()
        card = content.cards[slot]
        if slot >= content.header.card_count or card.uuid != self._uuids[slot] or card.state == LOST:
            raise ReturnCodeError(GPU_IS_LOST)
        return Device(content, slot)

    def _open(self) -> State:
        if not self._path.exists():
            raise ReturnCodeError(DRIVER_NOT_LOADED)
        try:
            state = State.open(self._path)
        except StateError as error:
            raise ReturnCodeError(LIB_RM_VERSION_MISMATCH) from error
        code = state.read().header.init_return
        if code != SUCCESS:
            state.close()
            raise ReturnCodeError(code)
        return state

    def _branch(self) -> int:
        """The driver branch; without a state file there is nothing to be older than."""
        state = self._state
        if state is not None:
            return branch(state.driver())
        try:
            with State.open(self._path) as state:
                return branch(state.driver())
        except StateError:
            return 999


class Symbol:
    """One C function. ctypes lets callers set ``restype`` and ``argtypes``, so this does too."""

    def __init__(self, library: Library, name: str) -> None:
        self._library = library
        self._call = CALLS.get(name)
        self._needs_init = name not in NEEDS_NO_INIT
        self.__name__ = name
        self.restype: Any = None
        self.argtypes: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Call it: answers NVML's return code (nvmlErrorString: its text)."""
        if self._needs_init and not self._library.initialized:
            return UNINITIALIZED
        if self._call is None:
            return NOT_SUPPORTED
        try:
            answer = self._call(self._library, *arguments)
        except ReturnCodeError as error:
            return error.code
        return SUCCESS if answer is None else answer
