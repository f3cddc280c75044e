"""The kubelet's two questions while it admits a pod: which ids, and what comes with them."""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from gpushare.cli.plugin_flags import ContainerFlags
from gpushare.deviceplugin.allocation.exchange import Exchange
from gpushare.deviceplugin.allocation.hand_bound import HandBound, judged
from gpushare.deviceplugin.allocation.node_view import NodeSnapshot, NodeView
from gpushare.deviceplugin.core.candidates import (
    Candidate,
    Cards,
    Offer,
    candidates,
    ids_by_card,
    last_guard,
    match,
    room,
)
from gpushare.deviceplugin.core.container_answer import Answered, ContainerAnswer, answer
from gpushare.deviceplugin.core.devices import DeviceIds, check_ids_of_pod
from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.deviceplugin.core.repair import cards_for
from gpushare.errors import NoCandidateError
from gpushare.kube.api_errors import ApiError

_LOG = logging.getLogger(__name__)
# The limits of a container with these cards of a pod, by its uid. Raises NoCandidateError if it must have some.
Limit = Callable[[Cards, str], Awaitable[Answered]]


async def no_limit(cards: Cards, uid: str) -> Answered:
    """The driver limits nothing."""
    return Answered()


_NO_POD: Final[tuple[frozenset[str], str]] = (frozenset(), "")


class Admission:
    """Remembers the container of its last answer; all else follows from the node's snapshot."""

    def __init__(
        self, view: NodeView, exchange: Exchange, hand_bound: HandBound, rules: ContainerFlags, limit: Limit
    ) -> None:
        self._view = view
        self._exchange = exchange
        self._hand_bound = hand_bound
        self._rules = rules
        self._limit = limit
        # The candidate of the last question, for the Allocate that follows with exactly these ids; until then it is a guess.
        self._chosen: dict[frozenset[str], Candidate] = {}
        # The ids that were answered last, and the pod that they were meant for.
        self._latest = _NO_POD

    def drop_unfinished(self, *, kubelet_is_another: bool = False) -> None:
        """We registered again, or a call was refused, which ends its pod: no pod is half done any more.

        If another kubelet asks from now on, no Allocate follows what the one before it was answered.
        """
        self._latest = _NO_POD
        if kubelet_is_another:
            self._take_question(frozenset())

    @property
    def is_asked(self) -> bool:
        """Does a question wait for its Allocate?"""
        return bool(self._chosen)

    async def prefer(self, available: Sequence[str], must_include: Sequence[str], size: int) -> list[str]:
        """Ids for a container. Raises NoCandidateError, ApiError."""
        self._take_question(frozenset())
        offered = list(dict.fromkeys([*must_include, *available]))
        snapshot = await self._look(size)
        candidate = self._candidate_for(snapshot, offered, must_include, size)
        chosen = _pick(candidate, snapshot, offered)
        self._chosen = {frozenset(chosen): candidate}
        self._view.guess(frozenset(chosen), candidate)
        await self._exchange.mark()
        return chosen

    async def allocate(self, device_ids: Sequence[str]) -> ContainerAnswer:
        """The answer for the container with these ids. Raises NoCandidateError, ApiError."""
        key = frozenset(device_ids)
        candidate = self._take_question(key)
        if candidate is None:
            # It reuses all ids of an init container; or a kubelet that did not ask, or did not obey.
            snapshot = await self._look(len(device_ids))
            candidate = self._candidate_for(snapshot, device_ids, device_ids, len(device_ids))
        limit = await self._limit(candidate.cards, candidate.uid)
        snapshot, node = self._view.now(), self._view.node
        check_ids_of_pod(candidate.pod_units, node.cards, node.kubelet_version)
        last_guard(
            candidate, key, snapshot.holdings, snapshot.pods, snapshot.cards,
            counts_slots=snapshot.counts_slots, refusal=snapshot.refusal,
        )  # fmt: skip
        self._view.guess(key, candidate)
        await self._exchange.mark()
        self._latest = key, candidate.uid
        given = [index for index, _ in candidate.cards]
        _LOG.info(
            "allocated pod=%s/%s uid=%s container=%s device=%s units=%d",
            candidate.namespace, candidate.pod, candidate.uid, candidate.container, ",".join(map(str, given)), candidate.units,
        )  # fmt: skip
        cards = tuple(card for card in snapshot.cards if card.index in given)
        return answer(
            cards, candidate.units, candidate.pod_units, node.nvml_indices, device_ids, self._rules,
            isolation_off=node.isolation_off, limit=limit,
        )  # fmt: skip

    def _take_question(self, ids: frozenset[str]) -> Candidate | None:
        """Return the candidate that these ids were offered to, and drop every other pending offer."""
        chosen, self._chosen = self._chosen, {}
        self._view.withdraw(chosen)
        return chosen.get(ids)

    async def _look(self, size: int) -> NodeSnapshot:
        """The node now, by a fresh list; pods that came without the extender, and that this may be for, have their card in it."""
        await self._view.refresh()
        self._view.forget_unwritten()
        snapshot = self._view.now()

        is_possible = functools.partial(_may_ask, snapshot, size)
        if any(True for _ in judged(snapshot, is_possible)):
            try:
                # Marks that turned out to be of no use would stand in their way.
                await self._exchange.run()
                await self._hand_bound.run(is_possible, reports=False)
            except ApiError as error:
                # Their own trouble: it must not end the pod that is asked for.
                _LOG.warning("cannot write the cards of pods that came without the extender error=%s", error)
            snapshot = self._view.now()
        return snapshot

    def _candidate_for(
        self, snapshot: NodeSnapshot, offered: Sequence[str], must: Sequence[str], size: int
    ) -> Candidate:
        """The container that this is most likely for. Raises NoCandidateError."""
        offer = self._offer(snapshot, offered, must, size)
        while True:
            try:
                return match(self._waiting(snapshot), offer, functools.partial(_elsewhere, snapshot))
            except NoCandidateError as error:
                # The kubelet's records never named these ids: it gave up the pod of that call, and the pod that was guessed waits.
                if not self._view.withdraw(grant.ids for grant in snapshot.holdings.grants if grant.is_guess):
                    reason = self._hand_bound.reason_against(snapshot, functools.partial(_may_ask, snapshot, size))
                    if not reason:
                        raise
                    text = f"{error}; a pod that was bound without the extender gets no card: {reason}"
                    raise NoCandidateError(text) from error
            snapshot = self._view.now()

    def _waiting(self, snapshot: NodeSnapshot) -> list[Candidate]:
        # The pod of the kubelet's last call: by the kubelet's records, else by our guess.
        ids, guessed = self._latest
        latest = next((grant.uid for grant in snapshot.holdings.grants if grant.ids == ids), guessed)
        return candidates(snapshot.pods, snapshot.holdings.containers(), snapshot.aims, latest, snapshot.admitted)

    def _offer(self, snapshot: NodeSnapshot, offered: Sequence[str], must: Sequence[str], size: int) -> Offer:
        counts_slots = snapshot.counts_slots
        left = room(
            snapshot.holdings, snapshot.pods, snapshot.cards, counts_slots=counts_slots, besides=frozenset(offered)
        )
        reused = snapshot.holdings.owner(must) if must else None
        taken = reused.uid if reused is not None and not reused.is_guess else ""
        free = Counter(_untaken(snapshot, offered, taken).values())
        if size and not free:
            text = f"none of the {len(offered)} ids that the kubelet offers is a free one of this node's cards"
            raise NoCandidateError(text)
        must_pod = taken if any(candidate.uid == taken for candidate in self._waiting(snapshot)) else ""
        must_cards = Counter(DeviceIds(snapshot.cards).cards_of(must).values())
        return Offer(size, free, left, must_cards, counts_slots, must_pod)


def _untaken(snapshot: NodeSnapshot, offered: Sequence[str], uid: str) -> dict[str, int]:
    """The cards of those ids of ours that no container of another pod has, whatever the kubelet believes."""
    taken = snapshot.holdings.taken_besides(uid)
    return DeviceIds(snapshot.cards).cards_of(one for one in offered if one not in taken)


def _pick(candidate: Candidate, snapshot: NodeSnapshot, offered: Sequence[str]) -> list[str]:
    """The first of the offered ids on each of the candidate's cards; those that must be taken come first."""
    wanted = ids_by_card(candidate, snapshot.counts_slots)
    chosen = []
    for one, index in _untaken(snapshot, offered, candidate.uid).items():
        if wanted[index] > 0:
            wanted[index] -= 1
            chosen.append(one)
    return chosen


def _may_ask(snapshot: NodeSnapshot, size: int, pod: KeptPod) -> bool:
    """May a call for this many ids be for a container of this pod?"""
    return snapshot.counts_slots or any(units == size for _, units in pod.gpu_containers)


def _elsewhere(snapshot: NodeSnapshot, candidate: Candidate) -> list[int]:
    """The cards that a container may get instead of its own: its annotation follows before it starts."""
    pod_card = snapshot.pod_card(candidate.uid)
    may_move = pod_card is not None and pod_card.may_move
    return cards_for(candidate.uid, snapshot.pod_cards, snapshot.units) if may_move else []
