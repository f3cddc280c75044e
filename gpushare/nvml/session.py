"""One user of NVML for a whole program: opened again now and then, with the reports of its cards, asked from one thread.

NVML fixes the list of cards when it is initialised, and counts its users: the list is made again only when the last one lets
go. So every part of a program asks this one session (through ``NvmlThread``), and ``renew`` shows a card that was added,
removed or exchanged. It has a cost: no report is read until it ends, and a driver whose last user lets go may shut the
cards down. So if the kernel shows such changes (``bound_cards``), ``count`` does without it.

Reports that came before a renewal are kept. A card whose driver begins to ask for a recovery (field 230) during it had a
fault without a report, and so had a card that is seen for the first time (at the start, or after the driver was away) and
whose driver asks for one already; ``renew`` returns these.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import pynvml

from gpushare.nvml import library
from gpushare.nvml.api import (
    Card,
    CardLostError,
    Checkup,
    LimitSupport,
    NoDriverError,
    NotInitializedError,
    NvmlError,
    Process,
    Reports,
    Survey,
    Xid,
)
from gpushare.nvml.library import text, translated

_LOG = logging.getLogger(__name__)

# NVML's field "GPU recovery action", and "none" in it. The constant is missing in older pynvml.
_RECOVERY_ACTION: Final = 230
# After this many seconds NVML is opened again in any case: only a new session shows that a card is drained.
_RENEWAL_SECONDS: Final = 600.0
# Turns in which what waits in the event sets is taken out of them before they are freed: a storm must end some time.
_LAST_POLLS: Final = 64
NO_ACTION: Final = 0
SYSFS: Final = Path("/sys")
# In sysfs, the folder of the kernel's NVIDIA driver.
_DRIVER: Final = Path("bus/pci/drivers/nvidia")
# Logged once, beside UUIDs of cards.
_BLIND: Final = "kernel"


# Events of one card taken in one turn: a storm of them must not keep the other cards waiting.
_EVENTS_A_TURN: Final = 64
# Do not wait for an event: look whether there is one.
_NOT_WAITING_MS: Final = 0
_T = TypeVar("_T")


class EventSets:
    """Reads the Xid events of cards: one event set for each, so that one card's fault never hides or delays another's.

    The behaviour of NVML, and its consequences: from the moment a card is lost its set answers GPU_IS_LOST immediately and for
    ever, so the set is freed and the card is looked at again later; and no question about the event's own handle is answered any
    more, so the event's card is the one of the set that it came from, whatever handle it carries. An event without a device
    (a fault of the whole machine) reaches each set, and counts for each set's card. Not for two threads together.
    """

    def __init__(self) -> None:
        self._sets: dict[str, Any] = {}

    def is_listening(self, uuid: str) -> bool:
        """Are this card's reports read?"""
        return uuid in self._sets

    def listen(self, uuid: str, handle: Any) -> None:
        """Read the Xids of a card from now on. Raises NvmlError, also if it reports none."""
        self.forget(uuid)
        with translated(f"listen to the events of card {uuid}"):
            if not pynvml.nvmlDeviceGetSupportedEventTypes(handle) & pynvml.nvmlEventTypeXidCriticalError:
                raise NvmlError(f"card {uuid} reports no Xids", pynvml.NVML_ERROR_NOT_SUPPORTED)
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


class NvmlSession:
    """NVML from the library at ``path`` (None: the system's). Closed until ``renew``. Not for two threads together."""

    def __init__(self, path: str | None, *, listen: bool = True, sysfs: Path = SYSFS) -> None:
        self._path = path
        self._listen = listen
        self._sysfs = sysfs
        # The driver's cards when NVML was opened, as the kernel has them; None: it does not tell.
        self._bound: frozenset[tuple[str, int]] | None = None
        self._opened = 0.0
        self._is_open = False
        self._events = EventSets()
        self._handles: dict[str, Any] = {}
        # Reports that were read when the sets were freed, for the next poll; the new count shows which cards are lost.
        self._late: tuple[Xid, ...] = ()
        # Cards that report no Xids, and a kernel that shows no changes: logged once each.
        self._reported: set[str] = set()

    def renew(self) -> Survey:
        """Open NVML again and count the cards; reads the reports of those that answer. Raises NvmlError, and is closed then."""
        # A known card without a reader of its reports is not calm: it was reported as lost, or as without reports.
        calm = {uuid: self._events.is_listening(uuid) and self._action(uuid) == NO_ACTION for uuid in self._handles}
        self._empty_sets()
        self.close()
        self._bound, self._opened = bound_cards(self._sysfs), time.monotonic()
        library.initialise(self._path)
        self._is_open = True
        try:
            survey = library.survey()
            for card in survey.cards:
                self._meet(card)
            # If no reports are wanted none is missed; a card that was not known before was not read before.
            missed = {
                uuid
                for uuid in self._handles
                if self._listen and calm.get(uuid, True) and (self._action(uuid) or NO_ACTION)
            }
        except NvmlError:
            self.close()
            raise
        if self._bound is None and _BLIND not in self._reported:
            self._reported.add(_BLIND)
            line = (
                "the kernel does not tell which cards the driver has, NVML is opened again for each count sys_root=%s"
            )
            _LOG.warning(line, self._sysfs)
        return Survey(survey.cards, survey.unreadable, frozenset(missed))

    def count(self) -> Survey:
        """The cards now; NVML is opened again only if this session may not know all. Raises NvmlError, and is closed then."""
        return self._survey_as_it_is() or self.renew()

    def poll(self) -> Reports:
        """The reports of the cards since the last time. Raises NvmlError if NVML itself does not answer."""
        self._check_open()
        reports = self._events.poll()
        late, self._late = self._late, ()
        return replace(reports, xids=late + reports.xids, is_outdated=self._is_outdated())

    def check(self, uuid: str) -> Checkup:
        """Does this card answer now? One that does is listened to again. Never raises NvmlError."""
        handle = self._handles.get(uuid)
        if handle is None:
            return Checkup(answers=False)
        try:
            with translated(f"ask card {uuid}"):
                if text(pynvml.nvmlDeviceGetUUID(handle)) != uuid:
                    return Checkup(answers=False)
            if not self._events.is_listening(uuid):
                self._start_listening(uuid, handle)
            return Checkup(answers=True, action=self._action(uuid))
        except NvmlError:
            return Checkup(answers=False)

    def processes(self, uuid: str) -> tuple[Process, ...]:
        """The processes on a card, by pid. Raises NvmlError; NotInitializedError while NVML is not open."""
        self._check_open()
        return library.processes(uuid)

    def limit_support(self, folder: Path) -> LimitSupport:
        """May the cards limit the memory of control groups? ``folder`` is any group's. Raises NotInitializedError."""
        self._check_open()
        return library.limit_support(self._handles, folder)

    def memory_limit(self, uuid: str, folder: Path) -> tuple[int, int] | None:
        """The bytes of a card that a control group is guaranteed, and may have at most; None for no limit. Raises NvmlError."""
        self._check_open()
        return library.memory_limit(uuid, folder)

    def close(self) -> None:
        """Stop listening and let NVML go. May be called again, and ``renew`` after it."""
        self._events.close()
        self._handles.clear()
        if self._is_open:
            library.shut_down()
            self._is_open = False

    def _check_open(self) -> None:
        if not self._is_open:
            raise NotInitializedError("NVML is closed; open it first", pynvml.NVML_ERROR_UNINITIALIZED)

    def _empty_sets(self) -> None:
        """Keep what waits in the event sets: a set that is freed takes it with it."""
        with contextlib.suppress(NvmlError):
            for _ in range(_LAST_POLLS):
                xids = self._events.poll().xids
                if not xids:
                    return
                self._late += xids

    def _is_outdated(self) -> bool:
        """Has the driver taken or let go of a card since NVML was opened, as far as the kernel shows?"""
        return self._bound is not None and bound_cards(self._sysfs) != self._bound

    def _survey_as_it_is(self) -> Survey | None:
        """A count in this session, or None if a new one may differ; the reports of a card that was not read are read again."""
        if not self._is_open or self._bound is None or self._is_outdated():
            return None
        if time.monotonic() - self._opened >= _RENEWAL_SECONDS:
            return None
        try:
            survey = library.survey()
            # The kernel may tell of a card before NVML can count it, or after; and NVML may be no card's of this kernel's.
            if len(survey.cards) != len(self._bound):
                return None
            if survey.unreadable or {card.uuid for card in survey.cards} != self._handles.keys():
                return None
            for uuid, handle in self._handles.items():
                if not self._events.is_listening(uuid):
                    self._start_listening(uuid, handle)
        except NvmlError:
            return None
        return survey

    def _meet(self, card: Card) -> None:
        """A card that is lost between the count and now is met at the next one."""
        try:
            with translated(f"find card {card.index}"):
                self._handles[card.uuid] = handle = pynvml.nvmlDeviceGetHandleByIndex(card.index)
            self._start_listening(card.uuid, handle)
        except CardLostError:
            _LOG.warning("card lost while it was counted uuid=%s", card.uuid)

    def _start_listening(self, uuid: str, handle: Any) -> None:
        """A card that reports no Xids is not unhealthy for that; its faults are only not seen."""
        if not self._listen:
            return
        try:
            self._events.listen(uuid, handle)
        except (CardLostError, NotInitializedError):
            raise
        except NvmlError as error:
            if uuid not in self._reported:
                _LOG.warning("card not watched for Xids uuid=%s error=%s", uuid, error)
                self._reported.add(uuid)

    def _action(self, uuid: str) -> int | None:
        """The recovery that the card's driver asks for; None if it is not known, or the card is gone. Raises no NvmlError."""
        handle = self._handles.get(uuid)
        if handle is None:
            return None
        with contextlib.suppress(NvmlError), translated("ask for a recovery action"):
            field = pynvml.nvmlDeviceGetFieldValues(handle, [_RECOVERY_ACTION])[0]
            return int(field.value.uiVal) if field.nvmlReturn == pynvml.NVML_SUCCESS else None
        return None


def bound_cards(sysfs: Path) -> frozenset[tuple[str, int]] | None:
    """PCI address and inode of each card that the driver serves; None if the kernel does not show them (no such driver, no sysfs).

    The kernel makes a link for a device when its driver takes it. A device that is taken again, also the same one after a
    reset, has another inode.
    """
    try:
        # Beside the links to devices, with names that are addresses as 0000:3b:00.0, the folder has the driver's own files.
        return frozenset((link.name, link.lstat().st_ino) for link in (sysfs / _DRIVER).iterdir() if ":" in link.name)
    except OSError:
        return None


class NvmlThread:
    """The thread in which a session is asked: one question at a time, in their order. A driver may take seconds, or for ever.

    So ``close`` does not wait, and the thread is a daemon: a program that ends does not wait for a driver that does not answer.
    """

    def __init__(self, session: NvmlSession) -> None:
        self._session = session
        self._work: queue.SimpleQueue[tuple[Callable[[NvmlSession], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)
        self._thread.start()

    async def ask(self, question: Callable[[NvmlSession], _T]) -> _T:
        """The question's answer, or its exception. A caller that is cancelled stops waiting; a question under way goes on."""
        answer: Future[_T] = Future()
        self._work.put((question, answer))
        return await asyncio.wrap_future(answer)

    def close(self) -> None:
        """Do what was asked, then close the session and end; waits for none of it."""
        self._work.put((NvmlSession.close, Future()))
        self._work.put(None)

    def join(self, seconds: float) -> bool:
        """Wait for the end, at most this long; whether it came."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        for question, answer in iter(self._work.get, None):
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                answer.set_result(question(self._session))
            except BaseException as error:  # it belongs to the caller
                answer.set_exception(error)
