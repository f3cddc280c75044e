"""Xid events: one event set for each card, so that one card's fault never hides or delays another's.

The behaviour of NVML, and its consequences: from the moment a card is lost its set answers GPU_IS_LOST immediately and for ever,
so the set is freed and the card is looked at again later; and no question about the event's own handle is answered any
more, so the event's card is the one of the set that it came from, whatever handle it carries. An event without a device
(a fault of the whole machine) reaches each set, and counts for each set's card.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
from typing import Any, Final

import pynvml

from gpushare.nvml.api import (
    CardLostError,
    NoDriverError,
    NotInitializedError,
    NvmlError,
    Reports,
    UnsupportedError,
    Xid,
)
from gpushare.nvml.library import translated

_LOG = logging.getLogger(__name__)

# Events of one card taken in one turn: a storm of them must not keep the other cards waiting.
_EVENTS_A_TURN: Final = 64
# Do not wait for an event: look whether there is one.
_NOT_WAITING_MS: Final = 0


class EventSets:
    """Reads the reports of cards. Not for two threads together."""

    def __init__(self) -> None:
        self._sets: dict[str, Any] = {}

    def is_listening(self, uuid: str) -> bool:
        """Are this card's reports read?"""
        return uuid in self._sets

    def listen(self, uuid: str, handle: Any) -> None:
        """Read the Xids of a card from now on. Raises UnsupportedError if it reports none, other NvmlErrors."""
        self.forget(uuid)
        with translated(f"listen to the events of card {uuid}"):
            if not pynvml.nvmlDeviceGetSupportedEventTypes(handle) & pynvml.nvmlEventTypeXidCriticalError:
                raise UnsupportedError(f"card {uuid} reports no Xids", pynvml.NVML_ERROR_NOT_SUPPORTED)
            events = pynvml.nvmlEventSetCreate()
            try:
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
            except Exception:
                _free(events)
                raise
        self._sets[uuid] = events

    def forget(self, uuid: str) -> None:
        """Stop reading the reports of a card; a card that is not read stays so."""
        if uuid in self._sets:
            _free(self._sets.pop(uuid))

    def poll(self) -> Reports:
        """The reports since the last time. A card that is lost or fails is not read any more.

        Raises NotInitializedError and NoDriverError, which concern all cards; if there was a report before, the next
        one does.
        """
        xids: list[Xid] = []
        lost: list[str] = []
        failed: list[tuple[str, str]] = []
        for uuid in list(self._sets):
            try:
                self._drain(uuid, xids)
            except CardLostError:
                self.forget(uuid)
                lost.append(uuid)
            except (NotInitializedError, NoDriverError):
                if not (xids or lost or failed):
                    raise
                break
            except NvmlError as error:
                self.forget(uuid)
                failed.append((uuid, str(error)))
        return Reports(tuple(xids), tuple(lost), tuple(failed))

    def close(self) -> None:
        """Stop hearing all cards."""
        for uuid in list(self._sets):
            self.forget(uuid)

    def _drain(self, uuid: str, xids: list[Xid]) -> None:
        for _ in range(_EVENTS_A_TURN):
            with translated(f"wait for events of card {uuid}"):
                event = next_event(self._sets[uuid])
            if event is None:
                return
            if event.eventType & pynvml.nvmlEventTypeXidCriticalError:
                xids.append(Xid(uuid, int(event.eventData)))


def next_event(events: Any) -> Any:
    """The next event of a set, or None if there is none now. Asked of each card each second, so it raises no exception for that."""
    try:
        wait = pynvml._nvmlGetFunctionPointer("nvmlEventSetWait_v2")
    except pynvml.NVMLError_FunctionNotFound:
        # Drivers before R450 have an older one, which leaves the newest fields as they are.
        wait = pynvml._nvmlGetFunctionPointer("nvmlEventSetWait")
    event = pynvml.c_nvmlEventData_t()
    code = wait(events, ctypes.byref(event), ctypes.c_uint(_NOT_WAITING_MS))
    if code == pynvml.NVML_ERROR_TIMEOUT:
        return None
    pynvml._nvmlCheckReturn(code)
    return event


def _free(events: Any) -> None:
    with contextlib.suppress(NvmlError), translated("free an event set"):  # the library is gone, and the set with it
        pynvml.nvmlEventSetFree(events)
