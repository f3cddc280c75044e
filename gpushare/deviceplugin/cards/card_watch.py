"""Watches the cards through NVML: which fell ill, recovered, came or went.

NVML is asked in a thread of its own and may take as long as it likes. Each turn reads the reports of the cards and looks
at those that are sick; turns without a report and without a sick card stay in the thread and wake nothing else. Now and then
the cards are counted again, in a fresh session of NVML if the kernel does not report changes, because a session never learns
of a card that came later. No report is read during that, so it is done the more seldom the longer it takes.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from gpushare import wire
from gpushare.deviceplugin.cards.card_news import CardNews, why_not_shared
from gpushare.deviceplugin.cards.node_status import NodeWriter
from gpushare.deviceplugin.core.container_fault import ContainerFault
from gpushare.deviceplugin.core.devices import PhysicalCard
from gpushare.deviceplugin.core.health import CardHealth, Recovery
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.core.roster import count_cards
from gpushare.nvml.api import Card, Reports, Survey, UnreadableCard
from gpushare.nvml.nvml_errors import BLOCKED_CODES, CONTAINER_CODES, NvmlError
from gpushare.nvml.session import NvmlSession
from gpushare.nvml.thread import NvmlThread

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

# How often the reports of the cards are read, in seconds: a fault shows within this time.
TURN_SECONDS: Final = 1.0
# The most turns that the thread takes alone.
_QUIET_TURNS: Final = 10
# How often a node without a driver or without cards is looked at again, in seconds.
NO_CARDS_SECONDS: Final = 1.0
# A card that is lost, or a driver that is away, is counted again immediately, then after this; twice as long each time, in seconds.
FIRST_RETRY_SECONDS: Final = 1.0
# A count may take no more than this part of the time between two.
_DEAF_PART: Final = 1 / 500
# But the time between two that took too long is no more than this, in seconds: cards that came or went must be seen some time.
_LONGEST_REST: Final = 600.0
# NVML that does not answer for this long is worth a line, in seconds.
SILENCE_SECONDS: Final = 30.0


class CardWatch:
    """The cards of one node. ``clock`` gives seconds and only goes forward; ``survey_seconds`` is the least between counts."""

    def __init__(
        self,
        session: NvmlSession,
        thread: NvmlThread,
        node: NodeWriter,
        health: CardHealth,
        news: CardNews,
        clock: Callable[[], float],
        *,
        survey_seconds: float = 10.0,
        metrics: PluginMetrics,
    ) -> None:
        self._session = session
        self._thread = thread
        self._node = node
        self._health = health
        self._news = news
        self._clock = clock
        self._survey_seconds = survey_seconds
        self._metrics = metrics
        # Turns taken: while this number stands still, NVML does not answer.
        self.turns = 0
        self._survey = Survey((), ())
        self._known: tuple[PhysicalCard, ...] = ()
        self._next_survey = 0.0
        self._retry_seconds = 0.0
        self._rest_seconds = survey_seconds
        # Said once, not at every count: which cards are not shared, which cannot be read, and what NVML's trouble is.
        self._withheld: frozenset[str] = frozenset()
        self._unreadable: frozenset[UnreadableCard] = frozenset()
        self._trouble = ""
        self._container = ContainerFault(clock)
        # UUIDs of cards that answered in this process.
        self._answered: set[str] = set()
        # Why this container is kept from a card, "" if it is not: reported once.
        self._blocked = ""

    async def wait_for_cards(self, *, fail: bool = False) -> None:
        """Wait until the driver shows a card, as the node may get one.

        Raises NvmlError instead if ``fail`` is set, and ContainerFaultError.
        """
        while True:
            try:
                survey = await self._count()
                problem = "" if survey.cards or survey.unreadable else "the driver shows no card"
            except NvmlError as error:
                if fail:
                    raise
                problem = self._problem(error)
            if not problem:
                self._trouble = ""
                return
            if problem != self._trouble:
                _LOG.warning("no cards to share reason=%s look_again_seconds=%.0f", problem, NO_CARDS_SECONDS)
                self._news.report(wire.EVENT_NO_CARDS, f"no cards to share: {problem}")
                self._trouble = problem
            await asyncio.sleep(NO_CARDS_SECONDS)

    def begin(self, remembered: Sequence[PhysicalCard]) -> None:
        """The node's cards at the start: those of the first count, and of those ``remembered`` the ones that are lost."""
        self._known = tuple(remembered)
        self._take_stock()
        self._node.begin(self._known)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await self._turn()
            self.turns += 1
            await asyncio.sleep(TURN_SECONDS)

    async def _turn(self) -> None:
        left = math.ceil((self._next_survey - self._clock()) / TURN_SECONDS)
        quiet = 1 if self._health.sick else min(max(1, left), _QUIET_TURNS)
        try:
            reports = await self._patiently("read the reports of the cards", self._session.poll, quiet)
            if self._take(reports):
                self._node.refresh()
            if self._clock() >= self._next_survey:
                await self._recount()
        except NvmlError as error:
            await self._reopen(error)
        await self._look_after_the_sick()

    def _take(self, reports: Reports) -> bool:
        """Enter the reports in ``CardHealth``; whether a card fell ill."""
        is_news = False
        for xid in reports.xids:
            is_critical = self._health.note_xid(xid.uuid, xid.code)
            _LOG.warning("xid uuid=%s xid=%d makes_sick=%s", xid.uuid, xid.code, is_critical)
            self._metrics.count_xid(xid.uuid, xid.code)
            is_news |= is_critical
        for uuid in reports.lost:
            _LOG.warning("card lost uuid=%s", uuid)
            is_news |= self._health.lose(uuid)
        for card in reports.failed:
            _LOG.warning("no reports of the card until the next count uuid=%s reason=%s", card.uuid, card.reason)
            self._next_survey = min(self._next_survey, self._clock() + self._survey_seconds)
        if reports.lost or reports.is_outdated:
            # Was it taken out, or does it come back? Is there another?
            self._hurry()
        return is_news

    async def _recount(self) -> None:
        """Count the cards again. Raises NvmlError."""
        await self._count()
        self._trouble = ""
        self._health.miss_driver(is_away=False)
        is_whole = not self._take_stock()
        self._node.change_cards(self._known)
        self._node.refresh()
        if is_whole:
            self._retry_seconds = 0.0

    async def _reopen(self, error: NvmlError) -> None:
        """NVML was shut under us, or the driver is away: open it again, and log it if that fails."""
        _LOG.debug("opening NVML again reason=%s", error)
        if self._clock() < self._next_survey and self._trouble:
            return
        try:
            await self._recount()
        except NvmlError as again:
            problem = self._problem(again)
            if str(again) != self._trouble:
                self._trouble = str(again)
                text = (
                    f"{'' if again.code in CONTAINER_CODES else 'no driver, '}all cards are unhealthy until it is back"
                )
                _LOG.warning("%s reason=%s", text, problem)
                self._news.report(wire.EVENT_NO_CARDS, f"{text}: {problem}")
            self._health.miss_driver(is_away=True)
            self._node.refresh()
            self._hurry()

    def _problem(self, error: NvmlError) -> str:
        """NVML does not show the cards; what to report. Raises ContainerFaultError if a new container is needed."""
        if error.code in CONTAINER_CODES:
            return self._container.fails(str(error))
        self._container.works()
        return str(error)

    async def _look_after_the_sick(self) -> None:
        recoveries: list[Recovery] = []
        for uuid in self._health.sick:
            checkup = await self._patiently("check a card", functools.partial(self._session.check, uuid))
            recoveries += self._health.observe(uuid, answers=checkup.answers, action=checkup.action, now=self._clock())
        if recoveries:
            self._node.refresh(recoveries)

    async def _count(self) -> Survey:
        """The cards now, in a fresh session if the open one may not know all. Raises NvmlError."""
        started = self._clock()
        try:
            self._survey = await self._patiently("count the cards", self._session.count)
        except NvmlError:
            self._metrics.count_nvml_error("survey")
            raise
        ended = self._clock()
        self._rest_seconds = max(self._survey_seconds, min((ended - started) / _DEAF_PART, _LONGEST_REST))
        self._next_survey = ended + self._rest_seconds
        return self._survey

    def _take_stock(self) -> tuple[str, ...]:
        """Compare the count with the known cards; those that are lost."""
        survey = self._survey
        self._report_withheld(survey)
        answering = [_physical(card) for card in survey.cards if card.uuid not in self._withheld]
        # A card that gives its UUID is that card, and no other that is missing.
        known = {card.uuid for card in self._known}
        places = [card.index for card in survey.unreadable if not card.uuid or card.uuid in known]
        roster = count_cards(self._known, answering, places, self._withheld)
        self._answered |= {card.uuid for card in answering}
        self._log_changes(roster.cards, roster.removed)
        self._known = roster.cards
        lost = {card.nvml_index for card in roster.cards if card.uuid in roster.lost}
        # Which cards the other unreadable ones are is not known; a lost one is reported by its name.
        unknown = survey.unreadable if len(survey.unreadable) > len(roster.lost) else ()
        self._report_unreadable(card for card in unknown if card.index not in lost)
        for uuid in roster.lost:
            self._health.lose(uuid)
        for uuid in survey.missed:
            _LOG.warning("the driver asks for a recovery of a card after an unreported fault uuid=%s", uuid)
            self._health.miss(uuid)
        if roster.lost:
            self._hurry()
        self._judge_container(roster.lost)
        return tuple(roster.lost)

    def _judge_container(self, lost: frozenset[str]) -> None:
        """Cards from which this process is kept, and which it had before, are a fault of its container.

        Raises ContainerFaultError.
        """
        blocked = [card for card in self._survey.unreadable if card.code in BLOCKED_CODES]
        text = ""
        if blocked and lost & self._answered:
            text = self._container.fails(blocked[0].reason)
        else:
            self._container.answered()
        if text and text != self._blocked:
            _LOG.warning("this container is kept from a card reason=%s", text)
            self._news.report(wire.EVENT_CARD_UNREADABLE, text)
        self._blocked = text

    def _report_withheld(self, survey: Survey) -> None:
        withheld = {card.uuid: text for card in survey.cards if (text := why_not_shared(card, self._node.unit))}
        for uuid in withheld.keys() - self._withheld:
            _LOG.warning("not shared uuid=%s reason=%s", uuid, withheld[uuid])
            self._news.report(wire.EVENT_CARD_NOT_SHARED, withheld[uuid])
        self._withheld = frozenset(withheld)

    def _report_unreadable(self, cards: Iterable[UnreadableCard]) -> None:
        unreadable = frozenset(cards)
        for card in unreadable - self._unreadable:
            _LOG.warning("card cannot be read nvml_index=%d reason=%s", card.index, card.reason)
            self._news.report(
                wire.EVENT_CARD_UNREADABLE, f"card {card.index} by NVML's count cannot be read: {card.reason}"
            )
        self._unreadable = unreadable

    def _log_changes(self, cards: Sequence[PhysicalCard], removed: frozenset[str]) -> None:
        for card in cards:
            if card not in self._known:
                _LOG.info(
                    "card nvml_index=%d uuid=%s model=%s mib=%d", card.nvml_index, card.uuid, card.model, card.mib
                )
        for uuid in removed:
            _LOG.warning("card is gone uuid=%s", uuid)

    def _hurry(self) -> None:
        """Count again, immediately if nothing was wrong before (NVML may renumber the others), and later the longer it lasts."""
        self._next_survey = min(self._next_survey, self._clock() + self._retry_seconds)
        self._retry_seconds = min(max(self._retry_seconds * 2, FIRST_RETRY_SECONDS), self._rest_seconds)

    async def _patiently(self, act: str, question: Callable[[], _T], turns: int = 1) -> _T:
        """The answer, however long it takes; logs a line if it takes long. A false one is asked for again after some turns."""
        alarm = asyncio.create_task(self._complain(act))
        try:
            return await self._thread.until_true(question, times=turns, every=TURN_SECONDS)
        finally:
            alarm.cancel()

    async def _complain(self, act: str) -> None:
        silent = 0.0
        while silent < SILENCE_SECONDS:
            await asyncio.sleep(SILENCE_SECONDS - silent)
            silent = self._thread.silent_seconds()
        text = "NVML does not answer act=%r for_seconds=%.0f; what it would report is not seen"
        _LOG.warning(text, act, silent)


def _physical(card: Card) -> PhysicalCard:
    return PhysicalCard(card.index, card.uuid, card.model, card.memory_mib, card.numa or 0)
