"""One user of NVML for a whole program: opened anew now and then, listening to its cards, asked from one thread.

NVML fixes the list of cards when it is initialised, and counts its users: only when the last one lets go is the list
made anew. So whoever in a program asks NVML asks this one session (through ``nvml.thread``), and ``renew`` is how a card
that was added, removed or exchanged is seen.

While it is renewed nobody listens. A card whose driver begins to ask for a recovery (field 230) in that gap had a fault
that nobody heard; ``renew`` says so.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import pynvml

from gpushare.nvml.api import Card, Checkup, Heard, Process, Survey
from gpushare.nvml.errors import CardLostError, NotInitializedError, NvmlError, UnsupportedError
from gpushare.nvml.events import EventSets
from gpushare.nvml.library import NvmlLibrary, open_library
from gpushare.nvml.translation import known, text, translated

_LOG = logging.getLogger(__name__)

# NVML's field "GPU recovery action", and "none" in it. The constant is missing in older pynvml.
_RECOVERY_ACTION: Final = 230
NO_ACTION: Final = 0


class NvmlSession:
    """NVML from the library at ``path`` (None: the system's). Closed until ``renew``. Not for two threads at once."""

    def __init__(self, path: str | None, *, listen: bool = True) -> None:
        self._path = path
        self._listen = listen
        self._nvml: NvmlLibrary | None = None
        self._events = EventSets()
        self._handles: dict[str, Any] = {}
        # Cards that were said to report no Xids: worth one line each.
        self._said: set[str] = set()

    def renew(self) -> Survey:
        """Open NVML anew and count the cards; listens to those that answer. Raises NvmlError, and is closed then."""
        before = {uuid: self._action(uuid) for uuid in self._handles if self._events.is_listening(uuid)}
        self.close()
        self._nvml = nvml = open_library(self._path)
        try:
            survey = nvml.survey()
            for card in survey.cards:
                self._meet(card, nvml)
            missed = {
                uuid for uuid, action in before.items() if action == NO_ACTION and (self._action(uuid) or NO_ACTION)
            }
        except NvmlError:
            self.close()
            raise
        return Survey(survey.cards, survey.unreadable, frozenset(missed))

    def poll(self) -> Heard:
        """What the cards reported meanwhile. Raises NvmlError where NVML itself does not answer."""
        if self._nvml is None:
            raise NotInitializedError("NVML is closed; open it first", pynvml.NVML_ERROR_UNINITIALIZED)
        return self._events.poll()

    def check(self, uuid: str) -> Checkup:
        """Does this card answer now? One that does is listened to again. Never raises NvmlError."""
        handle = self._handles.get(uuid)
        if handle is None or self._nvml is None:
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
        if self._nvml is None:
            raise NotInitializedError("NVML is closed; open it first", pynvml.NVML_ERROR_UNINITIALIZED)
        return self._nvml.processes(uuid)

    def close(self) -> None:
        """Stop listening and let NVML go. May be called again, and ``renew`` after it."""
        self._events.close()
        self._handles.clear()
        if self._nvml is not None:
            self._nvml.close()
            self._nvml = None

    def _meet(self, card: Card, nvml: NvmlLibrary) -> None:
        """A card that is lost between the count and now is met at the next one."""
        try:
            self._handles[card.uuid] = handle = nvml.handle(card.index)
            self._start_listening(card.uuid, handle)
        except CardLostError:
            _LOG.warning("card lost while it was counted uuid=%s", card.uuid)

    def _start_listening(self, uuid: str, handle: Any) -> None:
        """A card that reports no Xids is not sick for that; it is only not heard."""
        if not self._listen:
            return
        try:
            self._events.listen(uuid, handle)
        except (CardLostError, NotInitializedError):
            raise
        except NvmlError as error:
            if uuid not in self._said:
                what = "too old to report Xids" if isinstance(error, UnsupportedError) else "its events cannot be had"
                _LOG.warning("card not watched for Xids uuid=%s reason=%s error=%s", uuid, what, error)
                self._said.add(uuid)

    def _action(self, uuid: str) -> int | None:
        """What the card's driver asks for, or None where nobody says (a card that is gone, too). Never raises NvmlError."""
        handle = self._handles.get(uuid)
        if handle is None:
            return None
        try:
            values = known(lambda: pynvml.nvmlDeviceGetFieldValues(handle, [_RECOVERY_ACTION]))
        except NvmlError:
            return None
        if values is None or values[0].nvmlReturn != pynvml.NVML_SUCCESS:
            return None
        return int(values[0].value.uiVal)
