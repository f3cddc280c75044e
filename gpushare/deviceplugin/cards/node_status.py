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
that is well again has its ids before a scheduler places a pod there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.core.announced_cards import (
    AnnouncedCards,
    CardChange,
    PhysicalCard,
    about_us,
    has_left,
    patch_for,
    shape,
)
from gpushare.deviceplugin.core.devices import check_ids
from gpushare.deviceplugin.core.former_unit import unit_before
from gpushare.deviceplugin.core.health import CardHealth, Recovery, XidRules, named_cards
from gpushare.errors import TooManyIdsError
from gpushare.kube.api_errors import ApiError
from gpushare.kube.client import ApiClient
from gpushare.manifests import Node, ObjectMeta
from gpushare.model.cards import NodeCards
from gpushare.model.node import boot_of, described_cards
from gpushare.model.quantity import MemoryUnit

_LOG = logging.getLogger(__name__)

# How often the Node is compared with what we published, in seconds: if our role may not watch it, and if it may.
REASSERT_SECONDS: Final = 10.0
WATCHED_SECONDS: Final = 60.0
# After a failure, and the least between two comparisons, in seconds.
RETRY_SECONDS: Final = 2.0
PAUSE_SECONDS: Final = 0.1


Listener = Callable[[Sequence[CardChange]], None]


class NodeWriter:
    """Our Node and its cards. Call ``prepare`` first, then ``begin``.

    ``cards`` is what is announced now and may change at any await. ``boot`` is the id of the present boot, as the Node shows it.
    The argument is used while the Node shows none. ``in_use`` answers the card indices that pods of the node name; ``max_ids`` is
    as in ``check_ids``; ``slots`` is the slots of a card in slots mode, 0 in ids mode. Each of the ``listeners`` is called with
    every change of the cards, after it.
    """

    def __init__(
        self,
        client: ApiClient,
        name: str,
        unit: MemoryUnit,
        boot: str,
        *,
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
        self.listeners: list[Listener] = []
        self._client = client
        # Cards that will be announced once their coming is published; None: no card will come.
        self._coming: tuple[PhysicalCard, ...] | None = None
        # Cards that cannot be announced: logged once.
        self._refused: tuple[PhysicalCard, ...] | None = None
        # The unit of the amounts on the Node: in slots mode exact MiB.
        self.unit = MemoryUnit(1) if slots else unit
        self._boot = self.boot = boot
        self._health = health or CardHealth(XidRules(), 0)
        self._announced = AnnouncedCards(unit, boot, self._health, slots)
        self._in_use = in_use
        self._max_ids = max_ids
        self._published: tuple[object, ...] = ()
        # The operator's annotation that was acted on, and that is still to be removed from the Node.
        self._acted_on = ""
        self._unknown_annotations: list[str] = []
        self._is_watched = False
        self._wake = asyncio.Event()

    @property
    def cards(self) -> NodeCards:
        """The cards that are announced now, healthy or not."""
        return self._announced.cards

    @property
    def nvml_indices(self) -> Mapping[str, int]:
        """By UUID, NVML's index of each card that is in the machine."""
        return self._announced.nvml_indices

    async def prepare(self) -> None:
        """Read the Node: which index its cards had, and which were sick. Raises ApiError."""
        node = await self._read()
        known, refusal = described_cards(node)
        if refusal:
            # After a rollback: a card must keep the index by which pods know it.
            _LOG.warning("the cards annotation is not ours node=%s reason=%s kept=indices", self.name, refusal)
        self.cards_before = known
        self.unit_before = unit_before(node)
        self._announced.restore(known)
        self.boot = boot_of(node) or self._boot
        self._log(self._health.booted(self.boot))

    def begin(self, physical: Sequence[PhysicalCard]) -> None:
        """The cards at the start, when no kubelet holds a list of ours yet.

        Each card keeps its index; another gets one that no pod names.
        """
        self._announced.count(physical)
        self._adopt(tuple(physical))

    def check(self) -> None:
        """Raises TooManyIdsError if the kubelet would not take the cards of the start."""
        check_ids(self.cards, self.kubelet_version, self._max_ids)

    def change_cards(self, physical: Sequence[PhysicalCard]) -> None:
        """Cards came or went, or say other things of themselves; they are announced once that is published."""
        physical = tuple(physical)
        self._announced.count(physical)
        if physical in (self._announced.physical, self._refused):
            self._coming = None
            return
        self._coming = physical
        self.wake()

    def refresh(self, recoveries: Iterable[Recovery] = ()) -> None:
        """A card fell ill or recovered: show it immediately if that changes anything."""
        self._log(recoveries)
        self._report(self._announced.apply_health(recoveries))

    def wake(self) -> None:
        """Compare the Node with what should be on it, now."""
        self._wake.set()

    # Called by the watch of our Node.

    def set(self, item: Node) -> None:
        """The Node changed; most of its changes are not about us."""
        self._is_watched = True
        if about_us(item) != self._published:
            self.wake()

    def remove(self, metadata: ObjectMeta) -> None:
        """The Node object is gone; when it is created again, it knows nothing of us."""
        self._published = ()

    def begin_anew(self) -> None:
        """The API server's history went back: compare the Node with what should be on it, now."""
        self.wake()

    async def publish(self) -> None:
        """Write cards and count if the Node does not have them. Raises ApiError."""
        node = await self._read()
        self._read_annotations(node)
        if self._coming is None and has_left(self.cards, self.nvml_indices, self._in_use()):
            self._coming = self._announced.physical
        if self._coming is not None:
            await self._exchange(node, self._coming)
            node = await self._read()
        await self._write(node, self.cards)

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
            pause = WATCHED_SECONDS if self._is_watched and not waits_for_pods else REASSERT_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    # Inside

    async def _exchange(self, node: Node, physical: tuple[PhysicalCard, ...]) -> None:
        """Announce other cards, in the order that the head of this module describes."""
        cards = self._announced.describe(physical, self._in_use())
        try:
            check_ids(cards, self.kubelet_version, self._max_ids)
        except TooManyIdsError as error:
            _LOG.error("cards not announced node=%s cards=%d reason=%s", self.name, len(physical), error)
            self._coming, self._refused = None, physical
            return
        if shape(cards) != shape(self.cards):
            await self._write(node, cards, is_moving=True)
        if self._coming == physical:
            self._coming = None
        self._adopt(physical)

    def _adopt(self, physical: tuple[PhysicalCard, ...]) -> None:
        self._report(self._announced.adopt(physical, self._in_use()))

    def _report(self, changes: Sequence[CardChange] | None) -> None:
        """Publish an announcement that is not as before, and log the changes of health."""
        if changes is None:
            return
        for change in changes:
            card = change.card
            level = logging.INFO if change.healthy else logging.WARNING
            state = "healthy" if change.healthy else "unhealthy"
            _LOG.log(level, "card is %s device=%d uuid=%s reason=%s", state, card.index, card.uuid, change.why)
        self.wake()
        for listener in self.listeners:
            listener(changes)

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

    async def _read(self) -> Node:
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
            recoveries += self._health.believe(uuids)
        self._acted_on = named
        self.refresh(recoveries)

    def _log(self, recoveries: Iterable[Recovery]) -> None:
        for one in recoveries:
            _LOG.info("card recovered node=%s uuid=%s was=%s rule=%s", self.name, one.uuid, one.reason, one.rule)
