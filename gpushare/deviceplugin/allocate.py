"""Allocate: find the container that waits, steer its ids onto its pod's card, give its variables, verify the owner.

The kubelet's three calls, in its order: GetPreferredAllocation (we choose ids on the card that the extender chose;
the kubelet obeys), Allocate (the variables), PreStartContainer (the kubelet's book names the owner; only then may the
container start).

No card is over-committed here: a card has as many ids as units, an id belongs to one container at a time, and the ids
of one container lie on one card. An error of Allocate ends the pod with its text in the pod's status; an error of
PreStartContainer makes the kubelet try again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.candidates import Candidate, candidates, match
from gpushare.deviceplugin.container_answer import ContainerAnswer, Granted, answer
from gpushare.deviceplugin.devices import DeviceIds
from gpushare.deviceplugin.node_pods import NodePods
from gpushare.deviceplugin.node_status import NodeStatus
from gpushare.deviceplugin.owner import KubeletBook, Owner
from gpushare.errors import GpushareError, NoCandidateError
from gpushare.kube.client import ApiClient
from gpushare.kube.errors import ServerError, UnreachableError
from gpushare.kube.events import EventRecorder
from gpushare.manifests import ObjectMeta, Pod
from gpushare.model.allocation import decode
from gpushare.model.pod import gpu_containers, pod_request
from gpushare.plugin_flags import ContainerFlags

_LOG = logging.getLogger(__name__)

# How often a list of pods is asked for before a kubelet's call fails, and the pause between, in seconds. A kubelet puts no limit
# on Allocate, but admits no other pod meanwhile.
LIST_ATTEMPTS: Final = 10
LIST_PAUSE_SECONDS: Final = 1.0


class HeldError(GpushareError):
    """The container must not start yet; the kubelet tries again. ``pod`` is whose it is, where that is known."""

    def __init__(self, message: str, pod: ObjectMeta | None = None) -> None:
        super().__init__(message)
        self.pod = pod


class Allocator:
    """Answers the kubelet for one node. ``rules`` say how the runtime is told a container's card."""

    def __init__(
        self,
        client: ApiClient,
        pods: NodePods,
        node: NodeStatus,
        book: KubeletBook,
        events: EventRecorder,
        *,
        rules: ContainerFlags | None = None,
    ) -> None:
        self._client = client
        self._events = events
        self._pods = pods
        self._node = node
        self._book = book
        self._rules = rules or ContainerFlags()
        # By pod uid, the containers that were answered. What was granted before our start is the kubelet's to know.
        self._granted: dict[str, list[str]] = {}
        # What GetPreferredAllocation chose, for the Allocate that follows with exactly these ids.
        self._chosen: dict[frozenset[str], Candidate] = {}
        # Which pod each answered set of ids was meant for: what we know where the kubelet's book says nothing.
        self._meant: dict[frozenset[str], Candidate] = {}
        self._lock = asyncio.Lock()

    @property
    def _ids(self) -> DeviceIds:
        return DeviceIds(self._node.cards.cards)

    async def recover(self) -> None:
        """After our own start: pods that have ids in the kubelet's book were admitted before, and wait no more."""
        await self._refresh()
        for owner in set((await self._book.owners()).values()):
            pod = self._pod_of(owner)
            if pod is not None:
                self._granted[pod.metadata.uid] = [name for name, _ in gpu_containers(pod)]

    async def prefer(self, available: Sequence[str], must_include: Sequence[str], size: int) -> list[str]:
        """Ids for a container that asks for ``size``, all on its pod's card. Raises NoCandidateError."""
        async with self._lock:
            ids = self._ids
            offered = dict.fromkeys([*must_include, *available])
            by_index = Counter(card.index for card in map(ids.card_of, offered) if card is not None)
            must_card = ids.one_card_of(must_include) if must_include else None
            candidate = match(
                await self._waiting(), size, by_index, must_be=must_card.index if must_card is not None else None
            )
            on_card = [one for one in offered if (card := ids.card_of(one)) and card.index == candidate.index]
            chosen = on_card[:size]
            self._chosen = {frozenset(chosen): candidate}
            return chosen

    async def allocate(self, device_ids: Sequence[str]) -> ContainerAnswer:
        """What the container that gets these ids is told. Raises NoCandidateError."""
        async with self._lock:
            card = self._ids.one_card_of(device_ids)
            if card is None:
                raise NoCandidateError(
                    f"the kubelet chose {len(device_ids)} ids that do not lie on one card of this node"
                )
            key = frozenset(device_ids)
            candidate = self._chosen.pop(key, None)
            if candidate is None:
                # A kubelet that did not ask, or did not obey.
                free = {card.index: len(device_ids)}
                candidate = match(await self._waiting(), len(device_ids), free, must_be=card.index)
            granted = Granted((card,), candidate.units, candidate.pod_units, self._node.isolation_off)
            told = answer(granted, self._node.nvml_indices, device_ids, self._rules)
            self._granted.setdefault(candidate.uid, []).append(candidate.container)
            self._meant[key] = candidate
            _LOG.info(
                "allocated pod=%s/%s uid=%s container=%s device=%d units=%d",
                candidate.namespace, candidate.pod, candidate.uid, candidate.container, card.index, candidate.units,
            )  # fmt: skip
            return told

    async def verify(self, device_ids: Sequence[str]) -> None:
        """As ``_verify``, and says on the pod why its container is held. Raises HeldError."""
        try:
            await self._verify(device_ids)
        except HeldError as error:
            if error.pod is not None:
                await self._events.record("Pod", error.pod, "GPUShareHeld", str(error))
            raise

    async def _verify(self, device_ids: Sequence[str]) -> None:
        """Before the container with these ids starts: are they on the card that its pod's annotation names?

        Marks the pod assigned. Ids that we never announced pass: they are the Go plugin's, whose answer the kubelet
        kept. Raises HeldError where the owner is not known yet or its annotation names another card.
        """
        ids = self._ids
        if all(ids.card_of(device_id) is None for device_id in device_ids):
            return
        card = ids.one_card_of(device_ids)
        if card is None:
            raise HeldError("the ids of this container lie on several cards")
        pod = await self._owner(device_ids)
        allocation = decode(pod.metadata.annotations, pod_request(pod))
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if allocation is None or card.index not in {index for index, _ in allocation.shares}:
            said = "no card" if allocation is None else f"card {allocation.index}"
            raise HeldError(f"pod {name} has ids of card {card.index}, but its annotation names {said}", pod.metadata)
        if not allocation.assigned:
            await self._client.annotate_pod(pod, {wire.ANNOTATION_ASSIGNED: "true"})
            _LOG.info("assigned pod=%s uid=%s device=%d", name, pod.metadata.uid, card.index)

    async def _waiting(self) -> list[Candidate]:
        await self._refresh()
        return candidates(self._pods.in_bind_order(), self._granted)

    async def _refresh(self) -> None:
        """Our watch may be behind the kubelet's; a fresh list is not. Patient, as an error of Allocate ends the pod for good.

        Raises ApiError.
        """
        selector = f"spec.nodeName={self._node.name}"
        for attempt in range(LIST_ATTEMPTS):
            try:
                self._pods.replace(await self._client.list_pods(field_selector=selector))
                break
            except (ServerError, UnreachableError):
                if attempt == LIST_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(LIST_PAUSE_SECONDS)
        alive = {pod.metadata.uid for pod in self._pods.in_bind_order()}
        self._granted = {uid: names for uid, names in self._granted.items() if uid in alive}
        self._meant = {key: candidate for key, candidate in self._meant.items() if candidate.uid in alive}

    async def _owner(self, device_ids: Sequence[str]) -> Pod:
        owner = await self._book.owner(device_ids)
        if owner is None:
            meant = self._meant.get(frozenset(device_ids))
            owner = Owner(uid=meant.uid) if meant is not None else None
        if owner is None:
            raise HeldError("the kubelet does not say yet which pod these ids belong to")
        await self._refresh()
        pod = self._pod_of(owner)
        if pod is None:
            raise HeldError(
                f"the ids belong to pod {owner.namespace}/{owner.name}{owner.uid}, which is not on this node"
            )
        return pod

    def _pod_of(self, owner: Owner) -> Pod | None:
        if not owner.uid:
            return self._pods.find(owner.namespace, owner.name)
        return next((pod for pod in self._pods.in_bind_order() if pod.metadata.uid == owner.uid), None)
