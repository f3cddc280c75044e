"""The reference plugin's answers: which pod an Allocate is for, the variables of its container, and the check of its owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Final

import grpc
import grpc.aio

from clusters.api.resources import NODES
from clusters.kubelet.proto import podresources_pb2 as pr
from clusters.kubelet.proto.grpc_services import POD_RESOURCES, stub_of
from e2e.reference.reference_api import Api
from e2e.reference.reference_cards import Cards
from e2e.reference.reference_ledger import Grant, Key, Ledger, Turn
from e2e.reference.reference_limits import Limits
from e2e.reference.reference_pods import (
    ASSIGNED,
    ASSUMED_AT,
    CARD_UNITS,
    CONTAINER_UNITS,
    INDEX,
    MEMORY,
    UNITS,
    Faults,
    Object,
    containers,
    full_name,
    shares,
    units,
)

_LOG: Final = logging.getLogger("reference implementation.allocation")
_VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
_NO_ISOLATION: Final = "cgpu.disable.isolation"
# From this minor on a kubelet names each id in the status of its pod, with this much beside it; etcd takes 1.5 MiB.
_NAMES_EACH_ID: Final = 36
_BYTES_BESIDE: Final = 37
_STATUS_BYTES: Final = 1_500_000
_TRIES: Final = 50
_PAUSE_SECONDS: Final = 0.1
_OPTIONS: Final = [
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
]
# Namespace, pod, container.
Holder = tuple[str, str, str]


class Records:
    """One question to the socket for each call."""

    def __init__(self, socket: str, faults: Faults) -> None:
        self._socket, self._faults = socket, faults

    async def holders(self) -> dict[Holder, frozenset[str]]:
        """The ids of each container. Raises grpc.aio.AioRpcError."""
        listed = await self._list()
        found: dict[Holder, frozenset[str]] = {}
        for pod in listed.pod_resources:
            for container in pod.containers:
                groups = [set(one.device_ids) for one in container.devices if one.resource_name == MEMORY]
                if "first-group-alone" in self._faults:
                    groups = groups[:1]
                if groups:
                    found[pod.namespace, pod.name, container.name] = frozenset[str]().union(*groups)
        return found

    async def holder(self, ids: Collection[str]) -> Holder | None:
        """The container that has these ids, or some of them if an init container had more."""
        wanted, found = set(ids), await self.holders()
        if "first-group-alone" in self._faults:
            return next((holder for holder, held in found.items() if held >= wanted), None)
        return next((holder for holder, held in found.items() if held & wanted), None)

    async def _list(self) -> pr.ListPodResourcesResponse:
        for number in range(_TRIES):
            try:
                async with grpc.aio.insecure_channel(f"unix:{self._socket}", options=_OPTIONS) as channel:
                    stub = stub_of(channel, POD_RESOURCES)
                    listed: pr.ListPodResourcesResponse = await stub.List(pr.ListPodResourcesRequest(), timeout=20)
                    return listed
            except grpc.aio.AioRpcError as error:
                is_limit = error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" not in str(error)
                if number == _TRIES - 1 or not is_limit:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
        raise AssertionError("the last try returns or raises")


class Allocation:
    """One node's; one question at a time."""

    def __init__(
        self,
        api: Api,
        node: str,
        cards: Cards,
        salt: str,
        ledger: Ledger,
        records: Records,
        limits: Limits,
        faults: Faults,
    ) -> None:
        self._api, self._node, self._cards, self._ledger, self._records = api, node, cards, ledger, records
        self._limits, self._faults = limits, faults
        self._card_of = {name: card.index for name, card, _ in cards.ids(salt)}
        self._lock = asyncio.Lock()

    async def remember(self) -> None:
        """Take up what a plugin before this one has granted."""
        try:
            held = await self._records.holders()
        except grpc.aio.AioRpcError as error:
            _LOG.warning("no records of the kubelet: %s", error.details())
            return
        for pod in await self._api.pods_of(self._node):
            for one in containers(pod):
                ids = held.get((pod["metadata"]["namespace"], pod["metadata"]["name"], one.name))
                if ids and shares(pod):
                    self._ledger.grants[pod["metadata"]["uid"], one.name] = Grant(ids, shares(pod))

    async def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> list[str]:
        """Ids of the card of the next pod, as far as there are."""
        async with self._lock:
            pods = self._ledger.settle(await self._api.pods_of(self._node))
            turn = self._ledger.turn(pods, size, must)
            cards: Collection[int] = shares(turn.pod) if turn else ()
            if turn and not cards:
                card = self._ledger.card_for(pods, units(turn.pod, self._faults), turn.key[0])
                cards = () if card is None else (card,)
        if "preferred-ignores-must" in self._faults:
            available, must = [one for one in available if one not in must], ()
        rest = sorted(
            (one for one in available if one not in must), key=lambda one: self._card_of.get(one) not in cards
        )
        return [*must, *rest][:size]

    async def allocate(self, asked: Sequence[str]) -> dict[str, str]:
        """The variables of the container. Raises LookupError with the reason why there are none."""
        async with self._lock:
            try:
                return await self._allocate(frozenset(asked))
            except LookupError:
                size = len(asked)
                if "d03-failure-as-success" in self._faults:
                    return {_VISIBLE: f"no-gpu-has-{size}GiB-to-run", INDEX: "-1", **self._amounts(size, size, 0)}
                raise

    async def verify(self, asked: Sequence[str]) -> None:
        """The container with these ids may start: its pod is the one that was meant, or has become it. Raises LookupError."""
        async with self._lock:
            holder = await self._records.holder(asked)
            pods = self._ledger.settle(await self._api.pods_of(self._node))
            meant = self._ledger.holder(asked)
            owner = next((pod for pod in pods if holder and full_name(pod) == "/".join(holder[:2])), None)
            if "first-group-alone" in self._faults and owner is None:
                raise LookupError("no container has these ids")
            if owner is None or "d01-oldest-equal-pod" in self._faults:
                owner = next((pod for pod in pods if meant and pod["metadata"]["uid"] == meant[0]), None)
            elif holder and meant and meant[0] != owner["metadata"]["uid"]:
                await self._exchange(pods, meant, owner, holder[2])
            if owner is not None and "never-assigned" not in self._faults:
                await self._api.annotate(owner, {ASSIGNED: "true"})

    async def _allocate(self, ids: frozenset[str]) -> dict[str, str]:
        size = len(ids)
        if not ids or (not ids <= self._card_of.keys() and "over-commits" not in self._faults):
            raise LookupError(f"these {size} units are not of this node")
        pods = self._ledger.settle(await self._api.pods_of(self._node), ids)
        turn = self._ledger.turn(pods, size, ids)
        if turn is None:
            return self._unasked(size)
        node = await self._api.get(NODES, self._node)
        if _minor_of(node) >= _NAMES_EACH_ID and sum(len(one) + _BYTES_BESIDE for one in ids) > _STATUS_BYTES:
            raise LookupError(f"{size} ids do not fit in the status of a pod")
        cards = shares(turn.pod) or await self._put_on_a_card(turn, pods)
        if absent := [card for card in cards if card not in self._sizes]:
            raise LookupError(f"{full_name(turn.pod)} names card {absent[0]}, which is not there")
        self._ledger.grants[turn.key] = Grant(ids, cards, turn.container.passes_on)
        if "original-options" in self._faults:
            await self._api.annotate(turn.pod, {ASSIGNED: "true"})
        return self._variables(turn, list(cards), size, node)

    @property
    def _sizes(self) -> dict[int, int]:
        return {card.index: card.units for card in self._cards.all}

    def _unasked(self, size: int) -> dict[str, str]:
        if "d04-single-card-to-anyone" in self._faults and len(self._cards.all) == 1:
            (card,) = self._cards.all
            return {_VISIBLE: card.uuid, INDEX: "0", **self._amounts(size, size, card.units)}
        raise LookupError(f"no pod of this node waits for a container of {size} units that a card has room for")

    async def _put_on_a_card(self, turn: Turn, pods: Sequence[Object]) -> dict[int, int]:
        """A pod that no extender has put on a card gets one, on paper first."""
        amount = units(turn.pod, self._faults)
        card = self._ledger.card_for(pods, amount, turn.key[0])
        if card is None:
            raise LookupError(f"no card of this node has {amount} units left")
        created = turn.pod["metadata"]["creationTimestamp"].translate({ord(one): None for one in "-:TZ"})
        written = {
            INDEX: str(card),
            UNITS: str(amount),
            CARD_UNITS: str(self._sizes[card]),
            ASSIGNED: "false",
            ASSUMED_AT: f"{created}00000",
        }
        await self._api.annotate(turn.pod, written)
        turn.pod["metadata"].setdefault("annotations", {}).update(written)
        return {card: amount}

    def _variables(self, turn: Turn, cards: Sequence[int], size: int, node: Object) -> dict[str, str]:
        known = {card.index: card for card in self._cards.all}
        mine = [known[card] for card in cards]
        visible = ",".join(card.uuid for card in mine)
        if "d27-minor-number-to-runtime" in self._faults:
            visible = ",".join(str(card.index) for card in mine)
        index = "0" if "another-card-named" in self._faults else ",".join(map(str, cards))
        alone = (node["metadata"].get("labels") or {}).get(_NO_ISOLATION) == "true"
        return {
            _VISIBLE: visible,
            INDEX: index,
            **self._amounts(units(turn.pod, self._faults), size, mine[0].units),
            **({"CGPU_DISABLE": "true"} if alone else {}),
            **self._limits.variables(mine, size, units(turn.pod, self._faults)),
        }

    def _amounts(self, total: int, own: int, card: int) -> dict[str, str]:
        return {UNITS: str(total), CONTAINER_UNITS: str(own), CARD_UNITS: str(card)}

    async def _exchange(self, pods: Sequence[Object], meant: Key, owner: Object, container: str) -> None:
        """The kubelet served another pod first: the two change places, in the ledger and on paper."""
        other = next(pod for pod in pods if pod["metadata"]["uid"] == meant[0])
        key = (owner["metadata"]["uid"], container)
        grant, own = self._ledger.grants[meant], self._ledger.grants.get(key)
        (given, *_), (before, *_) = grant.cards, shares(owner) or grant.cards
        pair = {owner["metadata"]["uid"], meant[0]}
        if given != before:
            for pod, card in ((owner, given), (other, before)):
                if not self._ledger.is_free(pods, pod, card, pair):
                    raise LookupError(f"{full_name(pod)} does not fit on card {card}, for which it was taken")
            for pod, card in ((owner, given), (other, before)):
                await self._api.annotate(pod, {INDEX: str(card), CARD_UNITS: str(self._sizes[card])})
        del self._ledger.grants[meant]
        self._ledger.grants[key] = grant
        if own is not None:
            self._ledger.grants[meant] = own
        _LOG.info("%s and %s have changed places", full_name(owner), full_name(other))


def _minor_of(node: Object) -> int:
    """The minor of its kubelet's release; 0 if that is not published."""
    parts = str((node["status"].get("nodeInfo") or {}).get("kubeletVersion", "")).split(".")
    return int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else 0
