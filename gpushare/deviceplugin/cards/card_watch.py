"""Watches the cards through NVML: which fell ill, recovered, came or went.

NVML is asked in a thread of its own and may take as long as it likes. Each turn reads the reports of the cards and looks
at those that are sick. Now and then the cards are counted again, in a fresh session of NVML if the kernel does not report
changes, because a session never learns of a card that came later. No report is read during that, so it is done the more
seldom the longer it takes.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from gpushare import wire
from gpushare.deviceplugin.cards.card_news import CardNews
from gpushare.deviceplugin.cards.card_stock import CardStock
from gpushare.deviceplugin.cards.node_status import NodeWriter
from gpushare.deviceplugin.core.announced_cards import PhysicalCard
from gpushare.deviceplugin.core.health import CardHealth, Recovery
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.nvml.api import CONTAINER_CODES, NvmlError, Reports, Survey
from gpushare.nvml.session import NvmlSession
from gpushare.nvml.thread import NvmlThread

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

# How often the reports of the cards are read, in seconds: a fault shows within this time.
TURN_SECONDS: Final = 1.0

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


@dataclass(eq=False)
class CardWatch:
    """The cards of one node. ``clock`` gives seconds and only goes forward; ``survey_seconds`` is the least between counts."""

    session: NvmlSession
    thread: NvmlThread
    node: NodeWriter
    health: CardHealth
    news: CardNews
    clock: Callable[[], float]
    metrics: PluginMetrics
    survey_seconds: float = 10.0
    # Turns taken: while this number stands still, NVML does not answer.
    turns: int = field(default=0, init=False)
    survey: Survey = field(default=Survey((), ()), init=False)
    next_survey: float = field(default=0.0, init=False)
    retry_seconds: float = field(default=0.0, init=False)
    # Why NVML shows no cards, "" if it does: reported once.
    trouble: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._stock = CardStock(self.node.unit, self.health, self.news, self.clock)
        self._rest_seconds = self.survey_seconds

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
                problem = self._stock.problem(error)
            if not problem:
                self.trouble = ""
                return
            self._report("no cards to share", problem, problem)
            await asyncio.sleep(NO_CARDS_SECONDS)

    def _report(self, what: str, problem: str, trouble: str) -> None:
        """Report a problem once, for as long as the ``trouble`` is the same."""
        if trouble != self.trouble:
            self.trouble = trouble
            _LOG.warning("%s reason=%s", what, problem)
            self.news.report(wire.EVENT_NO_CARDS, f"{what}: {problem}")

    def begin(self, remembered: Sequence[PhysicalCard]) -> None:
        """The node's cards at the start: those of the first count, and of those ``remembered`` the ones that are lost."""
        self._stock.cards = tuple(remembered)
        self._take_stock()
        self.node.begin(self._stock.cards)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await self._turn()
            self.turns += 1
            await asyncio.sleep(TURN_SECONDS)

    async def _turn(self) -> None:
        try:
            reports = await self._patiently("read the reports of the cards", self.session.poll)
            if self._take(reports):
                self.node.refresh()
            if self.clock() >= self.next_survey:
                await self._recount()
        except NvmlError as error:
            await self._reopen(error)
        await self._look_after_the_sick()

    def _take(self, reports: Reports) -> bool:
        """Enter the reports in ``CardHealth``; whether a card fell ill."""
        is_news = False
        for xid in reports.xids:
            is_critical = self.health.note_xid(xid.uuid, xid.code)
            _LOG.warning("xid uuid=%s xid=%d makes_sick=%s", xid.uuid, xid.code, is_critical)
            self.metrics.xids[xid.uuid, str(xid.code)] += 1
            is_news |= is_critical
        for uuid in reports.lost:
            _LOG.warning("card lost uuid=%s", uuid)
            is_news |= self.health.lose(uuid)
        for uuid, reason in reports.failed:
            _LOG.warning("no reports of the card until the next count uuid=%s reason=%s", uuid, reason)
            self.next_survey = min(self.next_survey, self.clock() + self.survey_seconds)
        if reports.lost or reports.is_outdated:
            # Was it taken out, or does it come back? Is there another?
            self._hurry()
        return is_news

    async def _recount(self) -> None:
        """Count the cards again. Raises NvmlError."""
        await self._count()
        self.trouble = ""
        self.health.miss_driver(is_away=False)
        is_whole = not self._take_stock()
        self.node.change_cards(self._stock.cards)
        self.node.refresh()
        if is_whole:
            self.retry_seconds = 0.0

    async def _reopen(self, error: NvmlError) -> None:
        """NVML was shut under us, or the driver is away: open it again, and log it if that fails."""
        _LOG.debug("opening NVML again reason=%s", error)
        if self.clock() < self.next_survey and self.trouble:
            return
        try:
            await self._recount()
        except NvmlError as again:
            why = "" if again.code in CONTAINER_CODES else "no driver, "
            self._report(f"{why}all cards are unhealthy until it is back", self._stock.problem(again), str(again))
            self.health.miss_driver(is_away=True)
            self.node.refresh()
            self._hurry()

    async def _look_after_the_sick(self) -> None:
        recoveries: list[Recovery] = []
        for uuid in self.health.sick:
            checkup = await self._patiently("check a card", functools.partial(self.session.check, uuid))
            recoveries += self.health.observe(uuid, answers=checkup.answers, action=checkup.action, now=self.clock())
        if recoveries:
            self.node.refresh(recoveries)

    async def _count(self) -> Survey:
        """The cards now, in a fresh session if the open one may not know all. Raises NvmlError."""
        started = self.clock()
        try:
            self.survey = await self._patiently("count the cards", self.session.count)
        except NvmlError:
            self.metrics.nvml_errors["survey"] += 1
            raise
        ended = self.clock()
        self._rest_seconds = max(self.survey_seconds, min((ended - started) / _DEAF_PART, _LONGEST_REST))
        self.next_survey = ended + self._rest_seconds
        return self.survey

    def _take_stock(self) -> frozenset[str]:
        """Compare the last count with the cards before it; those that are lost. Raises ContainerFaultError."""
        lost = self._stock.take(self.survey)
        if lost:
            self._hurry()
        return lost

    def _hurry(self) -> None:
        """Count again, immediately if nothing was wrong before (NVML may renumber the others), and later the longer it lasts."""
        self.next_survey = min(self.next_survey, self.clock() + self.retry_seconds)
        self.retry_seconds = min(max(self.retry_seconds * 2, FIRST_RETRY_SECONDS), self._rest_seconds)

    async def _patiently(self, act: str, question: Callable[[], _T]) -> _T:
        """The answer, however long it takes; logs a line if it takes long."""
        alarm = asyncio.create_task(self._complain(act))
        try:
            return await self.thread.run(question)
        finally:
            alarm.cancel()

    async def _complain(self, act: str) -> None:
        silent = 0.0
        while silent < SILENCE_SECONDS:
            await asyncio.sleep(SILENCE_SECONDS - silent)
            silent = self.thread.silent_seconds()
        text = "NVML does not answer act=%r for_seconds=%.0f; what it would report is not seen"
        _LOG.warning(text, act, silent)
