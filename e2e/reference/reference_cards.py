"""The cards of a node through NVML: size, name, health."""

from __future__ import annotations

import ctypes
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from e2e.reference.reference_pods import Faults

_LOG: Final = logging.getLogger("reference implementation.cards")
# Xids by which an application harms itself alone.
_HARMLESS: Final = frozenset({13, 31, 43, 45, 68, 109})
_WAIT_MS: Final = 300
_MIB: Final = 1 << 20
# For a card whose driver reports no recovery.
_LONG_REST_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Card:
    """One card."""

    index: int
    uuid: str
    mib: int
    units: int


class Cards:
    """Those that there are when the program starts. Raises pynvml.NVMLError."""

    def __init__(self, unit_mib: int, rest_seconds: float, now: Callable[[], float], faults: Faults) -> None:
        self._faults, self._rest, self._now = faults, rest_seconds, now
        pynvml.nvmlInit()
        self.all = self._read(unit_mib)
        self.unhealthy: dict[str, float] = {}
        self._events, self._listened = self._listen()

    def ids(self, salt: str) -> list[tuple[str, Card, bool]]:
        """Id, card and health of each unit."""
        found = []
        for card in self.all:
            head = f"{card.uuid}-_-" if self._faults & {"d07-long-ids", "original-ids"} else f"{card.uuid[-12:]}."
            for number in range(card.units):
                found.append((f"{salt}{head}{number}", card, card.uuid not in self.unhealthy))
        return found

    def look(self) -> bool:
        """Wait a moment for news; has the health of a card changed? Blocks."""
        before = set(self.unhealthy)
        self._take_event()
        for uuid, since in list(self.unhealthy.items()):
            if self._now() - since >= self._rest_of(uuid):
                del self.unhealthy[uuid]
        return before != set(self.unhealthy)

    def _read(self, unit_mib: int) -> list[Card]:
        found: list[Card] = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            mib = pynvml.nvmlDeviceGetMemoryInfo(handle).total // _MIB
            if "d05-size-of-first-card" in self._faults and found:
                mib = found[0].mib
            number = _minor(handle, index) if "d27-minor-number-to-runtime" in self._faults else index
            found.append(Card(number, _text(pynvml.nvmlDeviceGetUUID(handle)), mib, mib // unit_mib))
        return found

    def _listen(self) -> tuple[Any, dict[int | None, str]]:
        """The set of events, and which handle is which card; a card without events is never unhealthy."""
        listened: dict[int | None, str] = {}
        events = pynvml.nvmlEventSetCreate()
        for card in self.all if "d09-no-health" not in self._faults else ():
            handle = pynvml.nvmlDeviceGetHandleByUUID(card.uuid.encode())
            try:
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
            except pynvml.NVMLError as error:
                _LOG.warning("card %d sends no events: %s", card.index, error)
            else:
                listened[_address(handle)] = card.uuid
        return events, listened

    def _take_event(self) -> None:
        try:
            event = pynvml.nvmlEventSetWait_v2(self._events, _WAIT_MS)
        except pynvml.NVMLError as error:
            if not isinstance(error, pynvml.NVMLError_Timeout):
                _LOG.debug("no events: %s", error)
                # The call returned at once, so the next one waits here.
                time.sleep(_WAIT_MS / 1000)
            return
        uuid = self._listened.get(_address(event.device))
        if uuid is not None and event.eventData not in _HARMLESS:
            _LOG.warning("card %s is unhealthy, Xid %d", uuid, event.eventData)
            self.unhealthy[uuid] = self._now()

    def _rest_of(self, uuid: str) -> float:
        """The seconds after which a card is healthy again: endless while it does not answer, or the driver advises a reset."""
        try:
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())
            pynvml.nvmlDeviceGetMemoryInfo(handle)
        except pynvml.NVMLError:
            return math.inf
        advice = _recovery_action(handle)
        if advice is None:
            return _LONG_REST_SECONDS
        return math.inf if advice else self._rest


def _recovery_action(handle: Any) -> int | None:
    """The driver's advice for the card, 0 if it needs none; None on older drivers, which give none."""
    try:
        (value,) = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    except pynvml.NVMLError:
        return None
    return int(value.value.uiVal) if value.nvmlReturn == pynvml.NVML_SUCCESS else None


def _minor(handle: Any, index: int) -> int:
    try:
        return int(pynvml.nvmlDeviceGetMinorNumber(handle))
    except pynvml.NVMLError:
        return index


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def note(cards: Sequence[Card], unhealthy: Sequence[str]) -> str:
    """The reference implementations' annotation of a node: units of each card, those of an unhealthy one with "!" behind."""
    return " ".join(f"{card.units}{'!' if card.uuid in unhealthy else ''}" for card in cards)
