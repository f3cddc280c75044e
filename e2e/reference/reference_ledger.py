"""Grants of ids and cards to containers, and the container that is next. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from e2e.reference.reference_pods import (
    ASSIGNED,
    ASSUMED_AT,
    INDEX,
    Container,
    Faults,
    Object,
    containers,
    full_name,
    is_over,
    shares,
    units,
)

_NEVER: Final = 1 << 63
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Grant:
    """The ids of one container, and its cards; it ``passes_on`` its ids if it is an ordinary init container."""

    ids: frozenset[str]
    cards: Mapping[int, int]
    passes_on: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """The container that an Allocate is for."""

    pod: Object
    container: Container

    @property
    def key(self) -> Key:
        """Uid and container."""
        return self.pod["metadata"]["uid"], self.container.name


class Ledger:
    """Grants by uid and container."""

    def __init__(self, sizes: Mapping[int, int], faults: Faults) -> None:
        self.grants: dict[Key, Grant] = {}
        self._sizes, self._faults = sizes, faults
        self._ended: set[str] = set()

    def settle(self, pods: Sequence[Object], ids: Collection[str] = ()) -> list[Object]:
        """The pods that hold or want cards; grants of others are over, as are those with ids that the kubelet gives away again."""
        live = [pod for pod in pods if not is_over(pod) and pod["metadata"]["uid"] not in self._ended]
        uids = {pod["metadata"]["uid"] for pod in live}
        self.grants = {key: grant for key, grant in self.grants.items() if key[0] in uids}
        again = {key[0] for key, one in self.grants.items() if not one.passes_on and one.ids & set(ids)}
        self._ended = (self._ended | again) & {pod["metadata"]["uid"] for pod in pods}
        self.grants = {key: grant for key, grant in self.grants.items() if key[0] not in again}
        return [pod for pod in live if pod["metadata"]["uid"] not in again]

    def turn(self, pods: Sequence[Object], size: int, ids: Collection[str]) -> Turn | None:
        """The next container of this size; ``ids`` may have been handed on by an init container of its pod."""
        handed_on = {key[0] for key, one in self.grants.items() if one.passes_on and one.ids & set(ids)}
        for pod in sorted(pods, key=self._order):
            if handed_on and pod["metadata"]["uid"] not in handed_on:
                continue
            container = self._next(pod, size)
            if container is not None and self._has_room(pods, pod, size):
                return Turn(pod, container)
        return None

    def card_for(self, pods: Sequence[Object], amount: int, without: str = "") -> int | None:
        """The fullest card with room for a pod that no scheduler has put on one."""
        booked = self.used(pods, without)
        for pod in pods:
            if not self._holds(pod) and pod["metadata"]["uid"] != without:
                booked.update(shares(pod))
        free = {card: size - booked[card] for card, size in self._sizes.items()}
        if "over-commits" not in self._faults:
            free = {card: room for card, room in free.items() if room >= amount}
        return min(free, key=lambda card: (free[card], card), default=None)

    def used(self, pods: Sequence[Object], without: str = "") -> Counter[int]:
        """Units of each card that pods hold."""
        found: Counter[int] = Counter()
        for pod in pods:
            uid = pod["metadata"]["uid"]
            held = [grant for key, grant in self.grants.items() if key[0] == uid]
            if uid == without or not self._holds(pod):
                continue
            if held:
                found[next(iter(held[0].cards))] += len(frozenset[str]().union(*(grant.ids for grant in held)))
            else:
                found.update(shares(pod))
        return found

    def is_free(self, pods: Sequence[Object], pod: Object, card: int, others: Collection[str]) -> bool:
        """Would the pod fit on the card, if the ``others`` were not there?"""
        rest = [one for one in pods if one["metadata"]["uid"] not in {*others, pod["metadata"]["uid"]}]
        return units(pod) <= self._sizes.get(card, 0) - sum((shares(one) or {}).get(card, 0) for one in rest)

    def holder(self, ids: Collection[str]) -> Key | None:
        """The container that was given one of the ids, the last one if they were handed on."""
        return next((key for key, grant in reversed(self.grants.items()) if grant.ids & set(ids)), None)

    def _holds(self, pod: Object) -> bool:
        uid = pod["metadata"]["uid"]
        return self._is_assigned(pod) or any(key[0] == uid for key in self.grants)

    def _is_assigned(self, pod: Object) -> bool:
        if "forgets-at-restart" in self._faults:
            return False
        return (pod["metadata"].get("annotations") or {}).get(ASSIGNED) == "true"

    def _order(self, pod: Object) -> tuple[bool, int, str, str]:
        """Pods that have a part of theirs first, then as they were bound."""
        uid, annotations = pod["metadata"]["uid"], pod["metadata"].get("annotations") or {}
        begun = any(key[0] == uid for key in self.grants) and "d01-oldest-equal-pod" not in self._faults
        text = str(annotations.get(ASSUMED_AT, ""))
        return (
            not begun,
            int(text) if text.isdecimal() else _NEVER,
            pod["metadata"]["creationTimestamp"],
            full_name(pod),
        )

    def _next(self, pod: Object, size: int) -> Container | None:
        """The pod's first container without a grant, if it is of this size."""
        uid, own = pod["metadata"]["uid"], containers(pod, self._faults)
        annotations = pod["metadata"].get("annotations") or {}
        if "d22-hand-bound-passed-over" in self._faults and INDEX not in annotations:
            return None
        begun = [one for one in own if (uid, one.name) in self.grants]
        if self._is_assigned(pod) and not begun:
            return None
        if "d02-container-against-pod" in self._faults:
            return own[0] if own and not begun and units(pod, self._faults) == size else None
        # A plugin that was started again does not know what init containers had.
        apps_begun = any(not one.passes_on for one in begun)
        waiting = [one for one in own if one not in begun and not (one.passes_on and apps_begun)]
        return waiting[0] if waiting and waiting[0].units == size else None

    def _has_room(self, pods: Sequence[Object], pod: Object, size: int) -> bool:
        if "over-commits" in self._faults:
            return True
        cards, used = shares(pod), self.used(pods)
        own = {grant.ids for key, grant in self.grants.items() if key[0] == pod["metadata"]["uid"] and grant.passes_on}
        reusable = max(map(len, own), default=0)
        return all(card in self._sizes and size - reusable <= self._sizes[card] - used[card] for card in cards)
