"""All that the plugin knows of its node at one moment: pods by the API, holdings by the kubelet's records."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from gpushare import wire
from gpushare.bounds import PODS_OF_A_PAGE
from gpushare.deviceplugin.core.bookings import allocation_by_book, open_units, pod_cards
from gpushare.deviceplugin.core.candidates import Candidate
from gpushare.deviceplugin.core.devices import DeviceIds
from gpushare.deviceplugin.core.holdings import Entry, Grant, Holdings, lay
from gpushare.deviceplugin.core.kept_pods import KeptPod, cut_down
from gpushare.deviceplugin.core.node_pods import NodePods
from gpushare.deviceplugin.core.repair import PodCard, aims
from gpushare.deviceplugin.kubelet_records import KubeletRecords
from gpushare.deviceplugin.node_status import NodeWriter
from gpushare.kube.api_errors import REFUSALS, ApiError, ConflictError, NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.manifests import Pod
from gpushare.model.cards import MODE_SLOTS, CardFacts, NodeCards

_LOG = logging.getLogger(__name__)

# How often a list of pods is asked for before a kubelet's call fails, and the pause between, in seconds. A kubelet puts no limit
# on Allocate, but admits no other pod until it ends.
LIST_ATTEMPTS: Final = 10
LIST_PAUSE_SECONDS: Final = 1.0
# Errors of a write that concern its pod alone.
NOT_WRITTEN: Final = (ConflictError, NotFoundError, *REFUSALS)


@dataclass(frozen=True)
class NodeSnapshot:
    """One moment. ``units`` are those of each healthy card for pods on one card, ``aims`` the card that each of them should be on.

    ``admitted`` are pods that the kubelet's records name or have named. ``refusal`` is why no pod may
    have more of any card, "" if nothing is against it.
    """

    pods: tuple[KeptPod, ...]
    announced: NodeCards
    holdings: Holdings
    pod_cards: tuple[PodCard, ...]
    units: Mapping[int, int]
    aims: Mapping[str, int]
    admitted: frozenset[str]
    refusal: str

    @property
    def cards(self) -> tuple[CardFacts, ...]:
        """The node's cards."""
        return self.announced.cards

    @property
    def counts_slots(self) -> bool:
        """Is an id a container, and not a unit?"""
        return self.announced.mode == MODE_SLOTS

    def pod(self, uid: str) -> KeptPod:
        """A pod that is in the snapshot. Raises KeyError."""
        return self._by_uid[uid]

    def pod_card(self, uid: str) -> PodCard | None:
        """The card of a pod on one card, by its annotation and by its ids; None for other pods."""
        return self._pod_card_of.get(uid)

    @functools.cached_property
    def _by_uid(self) -> Mapping[str, KeptPod]:
        return {pod.metadata.uid: pod for pod in self.pods}

    @functools.cached_property
    def _pod_card_of(self) -> Mapping[str, PodCard]:
        return {one.uid: one for one in self.pod_cards}


@dataclass(eq=False)
class NodeView:
    """Where a snapshot comes from. ``repairs``: may indices of pods be changed?"""

    client: ApiClient
    pods: NodePods
    node: NodeWriter
    records: KubeletRecords
    repairs: bool = field(kw_only=True)
    # By ids, the container that they were answered for, from the question on until the kubelet's records name their container.
    guesses: dict[frozenset[str], Grant] = field(default_factory=dict, init=False)
    # By uid, pods with annotations that the API server refused to change a moment ago, and its reason.
    refused: dict[str, str] = field(default_factory=dict, init=False)
    # Pods that the records have named at some look; they drop a pod when it ends.
    admitted: frozenset[str] = field(default=frozenset(), init=False)
    # The records as they were read last for when no file can be read.
    last: tuple[Entry, ...] = field(default=(), init=False)

    def guess(self, ids: frozenset[str], candidate: Candidate) -> None:
        """These ids were answered for that container; lines of pods that have ended do not name their owner any more."""
        self.last = tuple(entry for entry in self.last if not entry.ids & ids or self.pod_of(entry) is not None)
        cards = DeviceIds(self.node.cards.cards).cards_of(ids)
        self.guesses[ids] = Grant(candidate.uid, candidate.container, ids, cards, is_guess=True)

    def withdraw(self, guesses: Iterable[frozenset[str]]) -> bool:
        """The answers with these ids were for no container after all; were there any?"""
        withdrawn = [self.guesses.pop(ids, None) for ids in guesses]
        return any(withdrawn)

    def forget_unwritten(self) -> None:
        """The kubelet asks again. It writes each answer down before: what is in no line of its file, it never took.

        If the file cannot be read this is not known.
        """
        if self.records.checkpoint() is not None:
            self.guesses.clear()

    async def refresh(self, attempts: int | None = None) -> None:
        """Our watch may be behind the kubelet's; a fresh list is not. Patient, as an error of Allocate ends the pod for good.

        Raises ApiError.
        """
        for left in reversed(range(attempts or LIST_ATTEMPTS)):
            try:
                await list_living(self.pods, self.client, self.node.name)
                return
            except ApiError:
                # An error of any kind: an API server that has just started answers 401 and 403 before it has read its roles.
                if not left:
                    raise
                await asyncio.sleep(LIST_PAUSE_SECONDS)

    async def write(self, pod: Pod, changes: Mapping[str, str | None], *, unchanged: bool = False) -> None:
        """Write annotations that count from then on; ``unchanged`` as in ``ApiClient.annotate_pod``. Raises ApiError."""
        self.pods.expect(pod.metadata.uid, changes)
        try:
            self.pods.wrote(await self.client.annotate_pod(pod, changes, unchanged=unchanged))
        except ApiError as error:
            if not error.may_have_happened:
                self.pods.expect(pod.metadata.uid, None)
            raise

    async def look_again(self, uid: str, error: ApiError) -> None:
        """One of the ``NOT_WRITTEN`` errors: the pod has gone or changed, or may not be changed now. Raises ApiError."""
        if isinstance(error, (ConflictError, NotFoundError)):
            _LOG.info("looking again uid=%s reason=%s", uid, error)
        else:
            # Its own trouble: other pods' admissions and repairs go on.
            _LOG.warning("its annotations cannot be changed uid=%s reason=%s", uid, error)
            self.refused[uid] = str(error)
        await self.refresh()

    async def read_records(self) -> None:
        """Read the kubelet's records for ``now``. Never during an admission (see ``kubelet_records``)."""
        self.last = await self.records.entries()

    def now(self) -> NodeSnapshot:
        """The state now, by the kubelet's file, which may be read at any time."""
        file = self.records.checkpoint()
        entries = self.last if file is None else file
        announced = self.node.cards
        counts_slots = announced.mode == MODE_SLOTS
        pods = self.pods.in_admission_order()
        alive = frozenset(pod.metadata.uid for pod in pods)
        named_now = {pod.metadata.uid for pod in map(self.pod_of, entries) if pod is not None}
        self.admitted = (self.admitted | named_now) & alive
        holdings = lay(
            entries,
            (guess for guess in self.guesses.values() if guess.uid in alive),
            self.pod_of,
            DeviceIds(announced.cards).cards_of,
            resource=wire.RESOURCE_SLOT if counts_slots else wire.RESOURCE_MEMORY,
        )
        # For good: a guess must not come back when the owner of the ids ends.
        self.guesses = {grant.ids: grant for grant in holdings.grants if grant.is_guess}
        if self._accept(holdings, pods, counts_slots=counts_slots):
            pods = self.pods.in_admission_order()
        cards_of_pods = pod_cards(pods, holdings, repairs=self.repairs, refused=self.refused)
        units = open_units(pods, holdings, announced.cards)
        plan = dict(aims(cards_of_pods, units))
        # Where a pod's first container is, there the others go too.
        plan |= {uid: min(cards) for uid in alive if len(cards := holdings.cards(uid)) == 1}
        refusal = "" if self.pods.are_known else wire.REASON_UNREADABLE_POD
        return NodeSnapshot(pods, announced, holdings, cards_of_pods, units, plan, self.admitted, refusal)

    def _accept(self, holdings: Holdings, pods: Iterable[KeptPod], *, counts_slots: bool) -> bool:
        """Take the cards of pods from the kubelet's records if their annotations were changed before this process knew them."""
        found = False
        for pod in pods:
            has = allocation_by_book(pod, holdings.of_pod(pod.metadata.uid), counts_slots=counts_slots)
            if has is not None:
                sizes = {card.index: card.units for card in self.node.cards.cards}
                self.pods.correct(
                    pod.metadata.uid, replace(has, device_units=sum(sizes.get(index, 0) for index, _ in has.shares))
                )
                found = True
        return found

    def pod_of(self, entry: Entry) -> KeptPod | None:
        """The pod that a line of the kubelet's records speaks of."""
        if entry.uid:
            return self.pods.called(entry.uid, self.node.metadata)
        return self.pods.find(entry.namespace, entry.pod)


def named(pod: Pod) -> tuple[str, str, str]:
    """Namespace, name and uid, for a line of the log."""
    return pod.metadata.namespace, pod.metadata.name, pod.metadata.uid


async def list_all(pods: NodePods, client: ApiClient, node: str) -> None:
    """Take all pods of the node, ended ones too, page by page, each cut down as it is read. Raises ApiError."""
    since = pods.newest
    listed, version = await client.pods_by_pages(f"spec.nodeName={node}", PODS_OF_A_PAGE.most, cut_down)
    pods.replace(listed, version, since=since)


async def list_living(pods: NodePods, client: ApiClient, node: str) -> None:
    """Take the pods of the node that have not ended: those that have cost nothing, however many and large they are.

    A failed pod may still have containers that run, so a known pod that the list lacks is asked for by its name. Raises ApiError.
    """
    since = pods.newest
    selector = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"
    listed, version = await client.pods_by_pages(selector, PODS_OF_A_PAGE.most, cut_down)
    for pod in pods.missing_in(listed, version):
        try:
            shown = await client.get_pod(pod.metadata.namespace, pod.metadata.name)
        except NotFoundError:
            continue
        except ApiError as error:
            _LOG.info("not known whether it has ended uid=%s error=%s", pod.metadata.uid, error)
            shown = pod
        if shown.metadata.uid == pod.metadata.uid and shown.spec.node_name in (node, None):
            listed.append(shown)
    pods.replace(listed, version, since=since, without_ended=True)
