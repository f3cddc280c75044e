"""Our part of the Node: how many cards there are, and the facts of each.

The count lives in ``status.capacity``, which the kubelet keeps but zeroes when it starts without its checkpoint, and
which is lost with a re-created Node; so it is asserted again and again. The cards annotation rides in the same write
to ``nodes/status``: the original's role has no other right on nodes, and no reader ever sees the one without the other.

A reader believes the annotation while its units add up to the capacity of gpu-mem and its cards to gpu-count, and divides
the one by the other if they do not. So there is a moment to fear: the cards are others, and the kubelet does not count
them yet (or the other way round); an average over that is wrong for every card. Hence the order when cards come or go:

1. one write: the new annotation, and a count of 0, which means "no card of this node can be had" to every reader;
2. the kubelet gets the new list, and puts the new sum into the capacity;
3. the count, once the sum is there.

If only health changes, sums and count stay, and every reader sees the old state or the new one. The kubelet gets it first: a card
that recovered has its ids before a scheduler places a pod there. A card that was taken out stays, unhealthy, while a pod names
it.

The conditions and the overuse annotation are a write of their own after that: a policy of an earlier version that refuses them must
not keep the cards from the Node.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.core.announced_cards import (
    ENDED,
    CardChange,
    Health,
    PhysicalCard,
    about_us,
    changes_between,
    describe_cards,
    has_left,
    health_of,
    no_cards,
    patch_for,
    report_for,
    shape,
    uuids_of,
)
from gpushare.deviceplugin.core.bookings import unit_before
from gpushare.deviceplugin.core.devices import check_ids
from gpushare.deviceplugin.core.health import CardHealth, Recovery, XidRules, named_cards
from gpushare.errors import TooManyIdsError
from gpushare.kube.api_errors import ApiError
from gpushare.kube.client import ApiClient
from gpushare.manifests import Node, ObjectMeta, ReportedNode
from gpushare.model.cards import NOT_SHARED, REASON_TAKEN_OUT, CardFacts, NodeCards
from gpushare.model.node import boot_of, described_cards
from gpushare.model.quantity import MemoryUnit

_LOG = logging.getLogger(__name__)

# How often the Node is compared with what we published, in seconds: if our role may not watch it or a write failed, and if not.
REASSERT_SECONDS: Final = 10.0
WATCHED_SECONDS: Final = 60.0
# After a failure, and the least between two comparisons, in seconds.
RETRY_SECONDS: Final = 2.0
PAUSE_SECONDS: Final = 0.1
# Seconds between a list in which a card recovered and its Node: a kubelet acknowledges no list.
LEAD_SECONDS: Final = 0.25


class NodeWriter:
    """Our Node and its cards. Call ``prepare`` first, then ``begin``.

    ``cards`` is what is announced now, healthy or not, and may change at any await. ``nvml_indices`` has by UUID NVML's index of
    each of them that is in the machine. ``boot`` is the id of the present boot, as the Node shows it. The argument is used while
    the Node shows none. ``now`` is in seconds since 1970; ``in_use`` answers the card indices that pods name; ``max_ids`` is as in
    ``check_ids``; ``slots`` is the slots of a card in slots mode, 0 in ids mode. Each of the ``listeners`` is called with
    every change of the cards, after it, and without one if pods may have other ids than before.
    """

    def __init__(
        self,
        client: ApiClient,
        name: str,
        unit: MemoryUnit,
        boot: str,
        *,
        now: Callable[[], float],
        health: CardHealth | None = None,
        in_use: Callable[[], frozenset[int]] = frozenset,
        max_ids: int | None = None,
        slots: int = 0,
    ) -> None:
        self.name = name
        self.metadata = ObjectMeta(name=name)
        # The Node's annotation before our start.
        self.cards_before: NodeCards | None = None
        self.unit_before: MemoryUnit | None = None
        self.isolation_off = False
        self.kubelet_version = ""
        self.listeners: list[Callable[[Sequence[CardChange]], None]] = []
        # The ids of unhealthy cards that are announced as healthy.
        self.kept_ids: Callable[[], frozenset[str]] = frozenset
        self._client = client
        # The cards of the last count, those that are announced, and those that cannot be announced, which is logged once.
        # An announced card that was not counted is absent, even if the Node is not yet written.
        self._counted: tuple[PhysicalCard, ...] = ()
        self._physical: tuple[PhysicalCard, ...] = ()
        self._refused: tuple[PhysicalCard, ...] | None = None
        self.nvml_indices: Mapping[str, int] = {}
        # By UUID, each card that was ever announced with an index that no other has now: if it comes back it has that again.
        self._known: dict[str, CardFacts] = {}
        # The unit of the amounts on the Node: in slots mode exact MiB.
        self.unit = MemoryUnit(1) if slots else unit
        self._boot = self.boot = boot
        self._health = health or CardHealth(XidRules(), 0)
        self._slots = slots
        self.cards = describe_cards((), self.unit, boot, slots=slots)
        self._in_use = in_use
        self._max_ids = max_ids
        self._published: tuple[object, ...] = ()
        # The operator's annotation that was acted on, and that is still to be removed from the Node.
        self._acted_on = ""
        self._unknown_annotations: list[str] = []
        self._is_watched = False
        self._wake = asyncio.Event()
        self._withheld: Mapping[str, str] = {}
        self._now = now
        # The overuse annotation and the condition about limits that the Node should have, and why the last report was refused.
        self._overuse = ""
        self._refusal = ""
        self._limits: Health | None = None
        # When the last recovery of a card was announced, by the loop's clock.
        self._recovered_at = -math.inf

    async def prepare(self) -> None:
        """Read the Node: which index its cards had, and which were unhealthy. Raises ApiError."""
        node = await self._read()
        known, refusal = described_cards(node)
        if refusal:
            # After a rollback: a card must keep the index by which pods know it.
            _LOG.warning("the cards annotation is not ours node=%s reason=%s kept=indices", self.name, refusal)
        self.cards_before = known
        self.unit_before = unit_before(node)
        if known is not None:
            self._health.restore(known)
            self._known = {card.uuid: card for card in known.cards}
            # Cards that are announced from now on are compared with these.
            self.cards = known
        self.boot = boot_of(node) or self._boot
        self._log(self._health.booted(self.boot))

    def begin(self, physical: Sequence[PhysicalCard]) -> None:
        """The cards at the start, when no kubelet holds a list of ours yet.

        Each card keeps its index; another gets one that no pod names. Raises TooManyIdsError if the kubelet would not take them.
        """
        self._counted = tuple(physical)
        self._adopt(self._counted)
        check_ids(self.cards, self.kubelet_version, self._max_ids)

    def change_cards(self, physical: Sequence[PhysicalCard]) -> None:
        """Cards came or went, or say other things of themselves; they are announced once that is published."""
        self._counted = tuple(physical)
        if self._counted not in (self._physical, self._refused):
            self.wake()

    def withhold(self, why: Mapping[str, str]) -> None:
        """The cards that are not shared although nothing is wrong with them, by UUID, each with its reason (``NOT_SHARED``)."""
        if why != self._withheld:
            self._withheld = why
            self.wake()

    def refresh(self, recoveries: Iterable[Recovery] = ()) -> None:
        """A card became unhealthy or recovered: show it immediately if that changes anything."""
        self._log(recoveries)
        self._show(self._with_health(self.cards, self._physical), {one.uuid: one.rule for one in recoveries})

    def announce(self, changes: Sequence[CardChange] = ()) -> None:
        """Call the listeners: cards changed so, or pods may have other ids than before."""
        for listener in self.listeners:
            listener(changes)

    def wake(self) -> None:
        """Compare the Node with what should be on it, now."""
        self._wake.set()

    def show_overuse(self, text: str) -> None:
        """The overuse annotation is this from now on, "" for none."""
        if text != self._overuse:
            self._overuse = text
            self.wake()

    def show_limits(self, limits: Health) -> None:
        """The condition about limits is this from now on."""
        if limits != self._limits:
            self._limits = limits
            self.wake()

    # Called by the watch of our Node.

    def set(self, item: Node) -> None:
        """The Node changed; most of its changes are not about us."""
        self._is_watched = True
        if about_us(item) != self._published:
            self.wake()

    def remove(self, metadata: ObjectMeta) -> None:
        """The Node object is gone; when it is created again, it knows nothing of us."""
        self._published = ()

    def restart_history(self) -> None:
        """The API server's history went back: compare the Node with what should be on it, now."""
        self.wake()

    async def publish(self) -> None:
        """Write cards and count if the Node does not have them. Raises ApiError."""
        node = await self._read()
        self._read_annotations(node)
        while (lead := self._recovered_at + LEAD_SECONDS - asyncio.get_running_loop().time()) > 0:
            # A pod that is bound for the card earlier would be refused for good.
            await asyncio.sleep(lead)
            node = await self._read()
            self._read_annotations(node)
        coming = self._physical if self._counted == self._refused else self._counted
        if coming != self._physical or has_left(self.cards, self.nvml_indices, self._in_use()):
            await self._exchange(node, coming)
            node = await self._read()
        await self._write(node, self.cards)
        await self._report(health_of(self.cards, self._withheld), node)

    async def report_no_cards(self, problem: str) -> None:
        """The Node has no card to share, for now."""
        await self._report(no_cards(problem))

    async def end(self) -> None:
        """The plugin ends: the Node does not show as watched any more."""
        self._overuse = ""
        self._limits = self._limits and ENDED
        await self._report(ENDED)

    async def publish_patiently(self) -> None:
        """Publish, and wait for an API server that is away."""
        while True:
            self._wake.clear()
            try:
                return await self.publish()
            except ApiError as error:
                _LOG.warning("cannot publish node=%s error=%s", self.name, error)
                await asyncio.sleep(RETRY_SECONDS)

    async def keep_published(self) -> None:
        """Publish now and for ever; an API server that is away is tried again."""
        while True:
            await self.publish_patiently()
            await asyncio.sleep(PAUSE_SECONDS)
            # A card that was taken out goes with its last pod, and the end of a pod does not change the Node.
            waits_for_pods = has_left(self.cards, self.nvml_indices, frozenset())
            is_complete = self._is_watched and not waits_for_pods and not self._refusal
            pause = WATCHED_SECONDS if is_complete else REASSERT_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    # Inside

    async def _exchange(self, node: Node, physical: tuple[PhysicalCard, ...]) -> None:
        """Announce other cards, in the order that the head of this module describes."""
        cards = self._described(physical)
        try:
            check_ids(cards, self.kubelet_version, self._max_ids)
        except TooManyIdsError as error:
            _LOG.error("cards not announced node=%s cards=%d reason=%s", self.name, len(physical), error)
            self._refused = physical
            return
        if shape(cards) != shape(self.cards):
            await self._write(node, cards, is_moving=True)
        self._adopt(physical)

    def _adopt(self, physical: tuple[PhysicalCard, ...]) -> None:
        """Announce these cards from now on."""
        self._physical = physical
        self.nvml_indices = {card.uuid: card.nvml_index for card in physical}
        cards = self._described(physical)
        indices = {card.index for card in cards.cards}
        others = {uuid: card for uuid, card in self._known.items() if card.index not in indices}
        self._known = others | {card.uuid: card for card in cards.cards}
        self._show(cards, {})

    def _described(self, physical: Sequence[PhysicalCard]) -> NodeCards:
        known = self._known.values() if self._known or self.cards_before is not None else None
        cards = describe_cards(physical, self.unit, self.boot, known, self._in_use(), slots=self._slots)
        return self._with_health(cards, physical)

    def _with_health(self, cards: NodeCards, physical: Sequence[PhysicalCard]) -> NodeCards:
        """A card is absent if it is not in the machine, or not yet: its NVML index is known once it is adopted."""
        here = uuids_of(self._counted) & uuids_of(physical)
        counted = uuids_of(self._counted)
        # One that comes back keeps its reason until it is adopted.
        absent = {
            card.uuid: (card.uuid in counted and card.reason) or self._withheld.get(card.uuid, REASON_TAKEN_OUT)
            for card in cards.cards
            if card.uuid not in here
        }
        return self._health.applied(cards, absent)

    def _show(self, cards: NodeCards, rules: Mapping[str, str]) -> None:
        """Announce the cards from now on, and if that is news, publish it and log the changes of health with their ``rules``."""
        before, self.cards = self.cards, cards
        if before == cards:
            return
        changes = changes_between(before, cards, rules, self._withheld)
        for change in changes:
            card = change.card
            level = logging.INFO if change.healthy else logging.WARNING
            state = "healthy" if change.healthy else "not shared" if change.why in NOT_SHARED else "unhealthy"
            _LOG.log(level, "card is %s device=%d uuid=%s reason=%s", state, card.index, card.uuid, change.why)
        if any(change.healthy for change in changes):
            self._recovered_at = asyncio.get_running_loop().time()
        self.wake()
        self.announce(changes)

    async def _write(self, node: Node, cards: NodeCards, *, is_moving: bool = False) -> None:
        patch = patch_for(node, cards, self._acted_on, is_moving=is_moving)
        if patch is None:
            return
        await self._client.patch_node_status(self.name, patch)
        if wire.ANNOTATION_RECOVERED in patch["metadata"]["annotations"]:
            # The same annotation, written again, counts again.
            self._acted_on = ""
        count = patch["status"]["capacity"][wire.RESOURCE_COUNT]
        _LOG.info("published node=%s cards=%s unit=%s", self.name, count, cards.unit)

    async def _report(self, health: Health, node: ReportedNode | None = None) -> None:
        """Write the conditions and the overuse annotation, if ``node``, or what is read now, has others.

        The same failure is worth one line.
        """
        try:
            patch = report_for(node or await self._read(), health, self._overuse, self._now(), self._limits)
            if patch is None:
                return
            await self._client.patch_node_status(self.name, patch)
        except ApiError as error:
            if str(error) != self._refusal:
                self._refusal = str(error)
                _LOG.warning("cannot write the condition of the node node=%s error=%s", self.name, error)
        else:
            self._refusal = ""

    async def _read(self) -> ReportedNode:
        node = await self._client.get_node(self.name)
        self.metadata = node.metadata
        self.isolation_off = (node.metadata.labels or {}).get(wire.LABEL_ISOLATION_OFF) == "true"
        info = node.status.node_info if node.status else None
        self.kubelet_version = info.kubelet_version if info else ""
        self._published = about_us(node)
        return node

    def _read_annotations(self, node: Node) -> None:
        """Log news on the Node: another boot, an operator's annotation, one that is most likely misspelt."""
        self.boot = boot_of(node) or self._boot
        recoveries = self._health.booted(self.boot)
        annotations = node.metadata.annotations or {}
        unknown = sorted(
            key for key in annotations if key.startswith(wire.PEOPLE_PREFIX) and key != wire.ANNOTATION_RECOVERED
        )
        if unknown and unknown != self._unknown_annotations:
            names = ",".join(unknown)
            _LOG.warning(
                "no annotation of a node that gpushare knows names=%.200s known=%s", names, wire.ANNOTATION_RECOVERED
            )
        self._unknown_annotations = unknown
        named = annotations.get(wire.ANNOTATION_RECOVERED, "")
        # Once, as it stays for as long as the Node cannot be written.
        if named and named != self._acted_on:
            uuids, odd = named_cards(named, self.cards.cards)
            if odd:
                _LOG.warning("no such cards annotation=%s entries=%.200s", wire.ANNOTATION_RECOVERED, ",".join(odd))
            recoveries += self._health.accept(uuids)
        self._acted_on = named
        self.refresh(recoveries)

    def _log(self, recoveries: Iterable[Recovery]) -> None:
        for one in recoveries:
            _LOG.info("card recovered node=%s uuid=%s was=%s rule=%s", self.name, one.uuid, one.reason, one.rule)
