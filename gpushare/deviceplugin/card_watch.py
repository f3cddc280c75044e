"""Watches the cards through NVML, and reports which became unhealthy, recovered, came or went.

NVML is asked in a thread of its own and may take as long as it likes. Each turn reads the reports of the cards and looks
at those that are unhealthy. Now and then the cards are counted again, in a fresh session of NVML if the kernel does not report
changes, because a session never learns of a card that came later. No report is read during that, so it is done the more
seldom the longer it takes.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import quote

from gpushare import wire
from gpushare.deviceplugin.core.announced_cards import NO_INDEX, CardChange, PhysicalCard, Roster, count_cards, uuids_of
from gpushare.deviceplugin.core.health import CardHealth, ContainerFault, Recovery
from gpushare.deviceplugin.core.kept_pods import indices_of
from gpushare.deviceplugin.core.node_pods import NodePods
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.node_status import NodeWriter
from gpushare.foreign import Decoder, UnreadableError
from gpushare.kube.api_errors import ApiError, NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder, Level
from gpushare.manifests import ConfigMap, ObjectMeta
from gpushare.model.cards import NOT_SHARED, REASON_MIG, REASON_NOT_VISIBLE, REASON_TOO_SMALL
from gpushare.model.node import parse_unhealthy
from gpushare.model.quantity import MemoryUnit
from gpushare.nvml.api import BLOCKED_CODES, CONTAINER_CODES, Card, NvmlError, Reports, Survey
from gpushare.nvml.session import NvmlSession, NvmlThread

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
# Values of NVIDIA_VISIBLE_DEVICES that choose no cards: with "void" the runtime leaves the container alone.
_ALL_OR_NONE: Final = ("", "all", "none", "void")
# The pause between two attempts to record an event, in seconds, and the attempts after which others come first.
EVENT_RETRY_SECONDS: Final = 2.0
EVENT_ATTEMPTS: Final = 300
# The most events that wait; beyond that the newest is dropped: an API server that stays away must not fill our memory.
_LONGEST_QUEUE: Final = 1000
# How often the ConfigMap of cards that are declared unhealthy is read, in seconds: people and scripts write it, and the extender
# acts on it before that.
POLL_SECONDS: Final = 30.0
_DECODER: Final = Decoder(ConfigMap)

_Report = tuple[str, ObjectMeta, str, str, Level]


@dataclass(eq=False)
class CardNews:
    """Changes of the cards, as events for people: on our Node, and on each of its ``pods`` that holds the card.

    No caller waits for an event: events wait in a queue until the API server takes them.
    """

    client: ApiClient
    node: NodeWriter
    pods: NodePods
    events: EventRecorder
    # Each, and whether it has all its attempts before the others.
    reports: asyncio.Queue[tuple[_Report, bool]] = field(
        default_factory=lambda: asyncio.Queue(_LONGEST_QUEUE), init=False
    )

    def report_changes(self, changes: Iterable[CardChange]) -> None:
        """Cards became unhealthy, recovered, or left the list. The last is reported to pods; the Node has it with the advice."""
        for change in changes:
            reason, state = wire.EVENT_CARD_UNHEALTHY, "is unhealthy"
            if change.healthy:
                reason, state = wire.EVENT_CARD_RECOVERED, "is healthy again"
            elif change.why in NOT_SHARED:
                reason, state = wire.EVENT_CARD_NOT_SHARED, "is not shared any more"
            level: Level = "Normal" if change.healthy else "Warning"
            card = change.card
            text = f"card {card.index} ({card.uuid}) of node {self.node.name} {state}: {change.why}"
            if reason != wire.EVENT_CARD_NOT_SHARED:
                self._put(("Node", ObjectMeta(name=self.node.name), reason, text, level))
            for pod in self.pods.in_admission_order():
                if card.index in indices_of(pod):
                    self._put(("Pod", pod.metadata, reason, text, level))

    def report(self, reason: str, text: str) -> None:
        """Something else of the Node."""
        self._put(("Node", ObjectMeta(name=self.node.name), reason, text, "Warning"))

    async def run(self) -> None:
        """Record events until cancelled, in their order; one that is refused for ten minutes goes behind the others."""
        while True:
            report, is_new = await self.reports.get()
            for _ in range(EVENT_ATTEMPTS if is_new else 1):
                if await self._is_recorded(report):
                    break
                await asyncio.sleep(EVENT_RETRY_SECONDS)
            else:
                self._put(report, is_new=False)

    async def _is_recorded(self, report: _Report) -> bool:
        kind, metadata, reason, text, level = report
        if kind == "Node" and not (metadata := self.node.metadata).uid:
            # An event without its uid is not shown with the Node.
            try:
                metadata = (await self.client.get_node(self.node.name)).metadata
            except ApiError:
                return False
        return await self.events.record(kind, metadata, reason, text, level)

    def _put(self, report: _Report, *, is_new: bool = True) -> None:
        try:
            self.reports.put_nowait((report, is_new))
        except asyncio.QueueFull:
            line = "not reported kind=%s name=%s event=%s: too many events wait"
            _LOG.warning(line, report[0], report[1].name, report[2])


def why_not_shared(card: Card, unit: MemoryUnit) -> tuple[str, str] | None:
    """Why a card that answers is not announced, and what helps; None if it is announced."""
    if card.mig:
        return REASON_MIG, (
            f"card {card.uuid} ({card.model}) is in MIG mode and not shared: its memory belongs to its slices; "
            "switch MIG off to share it (nvidia-smi -mig 0), or leave it to NVIDIA's device plugin"
        )
    if unit.units_of(card.memory_mib):
        return None
    has = f"card {card.uuid} ({card.model}) is not shared: it has {card.memory_mib} MiB, which is less than one unit of {unit}"
    fits = MemoryUnit(2 ** (card.memory_mib.bit_length() - 1)) if card.memory_mib else None
    return REASON_TOO_SMALL, has if fits is None else f"{has}; share it with --memory-unit {fits}"


def why_not_visible(card: PhysicalCard, visible: str) -> tuple[str, str]:
    """Why a card that the node shared before is not announced by a plugin whose container was given others, and what helps."""
    return REASON_NOT_VISIBLE, (
        f"card {card.uuid} ({card.model}) is not shared: the device plugin's container has {wire.ENV_VISIBLE_DEVICES}={visible}; "
        "set it to all to share every card of the node"
    )


@dataclass(eq=False)
class CardWatch:
    """The cards of one node. ``clock`` gives seconds and only goes forward; ``survey_seconds`` is the least between counts."""

    nvml: NvmlThread
    node: NodeWriter
    health: CardHealth
    news: CardNews
    clock: Callable[[], float]
    metrics: PluginMetrics
    survey_seconds: float = 10.0
    # The cards that this process was given, as its NVIDIA_VISIBLE_DEVICES has them.
    visible: str = ""
    # Called after each count, before anything is done with its cards.
    on_count: Callable[[Sequence[Card]], Awaitable[None]] | None = None
    # Turns taken: while this number stands still, NVML does not answer.
    turns: int = field(default=0, init=False)
    survey: Survey = field(default=Survey((), ()), init=False)
    next_survey: float = field(default=0.0, init=False)
    retry_seconds: float = field(default=0.0, init=False)
    # The cards of the last count, and the lost ones; the UUIDs of cards that answered in this process.
    cards: tuple[PhysicalCard, ...] = field(default=(), init=False)
    answered: frozenset[str] = field(default=frozenset(), init=False)
    # The texts of the last count about cards that are not shared, or cannot be read: each is reported once.
    reported: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    # By UUID, cards that the node shared before and that this process was not given, with the reason and its text.
    invisible: dict[str, tuple[str, str]] = field(default_factory=dict, init=False)
    # Why NVML shows no cards, "" if it does: reported once.
    trouble: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._container = ContainerFault(self.clock)
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
                problem = self._problem(error)
            if not problem:
                self.trouble = ""
                return
            if self._report("no cards to share", problem, problem):
                await self.node.report_no_cards(problem)
            await asyncio.sleep(NO_CARDS_SECONDS)

    def _report(self, what: str, problem: str, trouble: str) -> bool:
        """Report a problem once, for as long as the ``trouble`` is the same; is it news?"""
        if trouble == self.trouble:
            return False
        self.trouble = trouble
        _LOG.warning("%s reason=%s", what, problem)
        self.news.report(wire.EVENT_NO_CARDS, f"{what}: {problem}")
        return True

    def begin(self, remembered: Sequence[PhysicalCard]) -> None:
        """The node's cards at the start: those of the first count, and of those ``remembered`` the ones that are lost."""
        self.cards = tuple(remembered)
        self._take_stock()
        self.node.begin(self.cards)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await self._turn()
            self.turns += 1
            await asyncio.sleep(TURN_SECONDS)

    async def _turn(self) -> None:
        try:
            reports = await self._patiently("read the reports of the cards", NvmlSession.poll)
            self._take(reports)
            self.node.refresh()
            if self.clock() >= self.next_survey:
                await self._recount()
        except NvmlError as error:
            await self._reopen(error)
        await self._look_after_the_unhealthy()

    def _take(self, reports: Reports) -> None:
        """Enter the reports in ``CardHealth``."""
        for xid in reports.xids:
            is_critical = self.health.note_xid(xid.uuid, xid.code)
            _LOG.warning("xid uuid=%s xid=%d makes_unhealthy=%s", xid.uuid, xid.code, is_critical)
            self.metrics.xids[xid.uuid, str(xid.code)] += 1
        for uuid in reports.lost:
            _LOG.warning("card lost uuid=%s", uuid)
            self.health.lose(uuid)
        for uuid, reason in reports.failed:
            _LOG.warning("no reports of the card until the next count uuid=%s reason=%s", uuid, reason)
            self.next_survey = min(self.next_survey, self.clock() + self.survey_seconds)
        if reports.lost or reports.is_outdated:
            # Was it taken out, or does it come back? Is there another?
            self._hurry()

    async def _recount(self) -> None:
        """Count the cards again. Raises NvmlError."""
        await self._count()
        self.trouble = ""
        self.health.driver_is_away = False
        lost = self._take_stock()
        self.node.change_cards(self.cards)
        self.node.refresh()
        if not lost:
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
            self._report(f"{why}all cards are unhealthy until it is back", self._problem(again), str(again))
            self.health.driver_is_away = True
            self.node.refresh()
            self._hurry()

    async def _look_after_the_unhealthy(self) -> None:
        recoveries: list[Recovery] = []
        for uuid in self.health.unhealthy:
            checkup = await self._patiently("check a card", functools.partial(NvmlSession.check, uuid=uuid))
            recoveries += self.health.observe(uuid, answers=checkup.answers, action=checkup.action, now=self.clock())
        if recoveries:
            self.node.refresh(recoveries)

    async def _count(self) -> Survey:
        """The cards now, in a fresh session if the open one may not know all. Raises NvmlError."""
        started = self.clock()
        try:
            self.survey = await self._patiently("count the cards", NvmlSession.count)
        except NvmlError:
            self.metrics.nvml_errors["survey"] += 1
            raise
        ended = self.clock()
        self._rest_seconds = max(self.survey_seconds, min((ended - started) / _DEAF_PART, _LONGEST_REST))
        self.next_survey = ended + self._rest_seconds
        if self.on_count is not None:
            await self.on_count(self.survey.cards)
        return self.survey

    def _take_stock(self) -> frozenset[str]:
        """Bring ``cards`` to the last count; the UUIDs of those that are lost. Raises ContainerFaultError."""
        survey = self.survey
        withheld = {card.uuid: why for card in survey.cards if (why := why_not_shared(card, self.node.unit))}
        answering = [
            PhysicalCard(card.index, card.uuid, card.model, card.memory_mib, card.numa or 0)
            for card in survey.cards
            if card.uuid not in withheld
        ]
        # A card that gives its UUID is that card, and no other that is missing.
        known = uuids_of(self.cards)
        places = [card.index for card in survey.unreadable if not card.uuid or card.uuid in known]
        roster = count_cards(self.cards, answering, places, frozenset(withheld))
        self.answered |= uuids_of(answering)
        for card in roster.cards:
            if card not in self.cards:
                line = "card nvml_index=%d uuid=%s model=%s mib=%d"
                _LOG.info(line, card.nvml_index, card.uuid, card.model, card.mib)
        for uuid in roster.removed - withheld.keys():
            _LOG.warning("card is gone uuid=%s", uuid)
        seen = {card.uuid for card in survey.cards}
        if self.visible not in _ALL_OR_NONE:
            gone = [card for card in self.cards if card.uuid in roster.removed and card.nvml_index == NO_INDEX]
            self.invisible |= {card.uuid: why_not_visible(card, self.visible) for card in gone}
        withheld |= {uuid: why for uuid, why in self.invisible.items() if uuid not in seen}
        self.node.withhold({uuid: reason for uuid, (reason, _) in withheld.items()})
        self.cards = roster.cards
        for uuid in roster.lost:
            self.health.lose(uuid)
        for uuid in survey.missed:
            _LOG.warning("the driver asks for a recovery of a card after an unreported fault uuid=%s", uuid)
            self.health.miss(uuid)
        self._report_new(wire.EVENT_CARD_NOT_SHARED, [text for _, text in withheld.values()])
        self._report_new(wire.EVENT_CARD_UNREADABLE, self._unreadable(roster))
        if roster.lost:
            self._hurry()
        return roster.lost

    def _report_new(self, event: str, texts: Iterable[str]) -> None:
        """Report the texts that the count before did not have."""
        found = frozenset(texts)
        for text in found - self.reported.get(event, frozenset()):
            _LOG.warning("card trouble event=%s reason=%s", event, text)
            self.news.report(event, text)
        self.reported[event] = found

    def _unreadable(self, roster: Roster) -> Iterable[str]:
        """The texts about cards that cannot be read, if they are not known to be lost. Raises ContainerFaultError.

        Cards from which this process is kept, and which it had before, are a fault of its container.
        """
        unreadable, lost = (
            self.survey.unreadable,
            {card.nvml_index for card in roster.cards if card.uuid in roster.lost},
        )
        # Which cards the other unreadable ones are is not known; a lost one is reported by its name.
        for card in unreadable if len(unreadable) > len(roster.lost) else ():
            if card.index not in lost:
                yield f"card {card.index} by NVML's count cannot be read: {card.reason}"
        blocked = [card.reason for card in unreadable if card.code in BLOCKED_CODES]
        if blocked and roster.lost & self.answered:
            yield self._container.fails(blocked[0])
        else:
            self._container.answered()

    def _problem(self, error: NvmlError) -> str:
        """NVML does not show the cards; what to report. Raises ContainerFaultError if a new container is needed."""
        if error.code in CONTAINER_CODES:
            return self._container.fails(str(error))
        self._container.works()
        return str(error)

    def _hurry(self) -> None:
        """Count again, immediately if nothing was wrong before (NVML may renumber the others), and later the longer it lasts."""
        self.next_survey = min(self.next_survey, self.clock() + self.retry_seconds)
        self.retry_seconds = min(max(self.retry_seconds * 2, FIRST_RETRY_SECONDS), self._rest_seconds)

    async def _patiently(self, act: str, question: Callable[[NvmlSession], _T]) -> _T:
        """The answer, however long it takes; logs a line if it takes long."""
        line = "NVML does not answer act=%r for_seconds=%.0f; what it would report is not seen"
        alarm = asyncio.get_running_loop().call_later(SILENCE_SECONDS, _LOG.warning, line, act, SILENCE_SECONDS)
        try:
            return await self.nvml.ask(question)
        finally:
            alarm.cancel()


async def follow_declared(client: ApiClient, node: NodeWriter, health: CardHealth) -> None:
    """Enter the cards that an operator declares unhealthy in ``health``, until cancelled.

    It is the ConfigMap ``kube-system/unhealthy-gpu-<node>`` of the contract. The extender follows it too, and stops placing there
    immediately; here the kubelet gets the new list. A role without the right to read it (the original's) is no fault: then
    only the extender knows. For a node with one of the longest names there can be none, and the API server answers 404.
    """
    name = quote(wire.UNHEALTHY_CONFIGMAP_PREFIX + node.name, safe="")
    path = f"/api/v1/namespaces/{wire.UNHEALTHY_CONFIGMAP_NAMESPACE}/configmaps/{name}"
    reported: tuple[str, ...] = ()
    while True:
        try:
            data = _DECODER.decode(await client.request("GET", path)).data or {}
        except NotFoundError:
            data = {}
        except (ApiError, UnreadableError) as error:
            # Its last content still holds, be it from before our start.
            _LOG.debug("cannot read path=%s error=%s", path, error)
            await asyncio.sleep(POLL_SECONDS)
            continue
        health.declared, odd = parse_unhealthy(data.get("gpus", ""))
        if odd and odd != reported:
            _LOG.warning("no card indices path=%s entries=%.200s", path, ",".join(odd))
        reported = odd
        node.refresh()
        await asyncio.sleep(POLL_SECONDS)
