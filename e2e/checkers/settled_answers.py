"""Rules for an extender at rest, when the API shows all that it knows: scores, the price of a preemption, and its choice of a card.

The state has the pods as they count (``overcommit.as_counted``).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from e2e.checkers.card_choice import Room, best, cards_of, fits, group_of, rooms_of, wish_of
from e2e.checkers.extender_messages import priority_of, victims_of
from e2e.checkers.history import Asked, Finding, Object, State, name_of
from e2e.checkers.overcommit import booked_in_api, holds_a_node, shares_or_none
from e2e.checkers.pod_requests import gpu_containers, named_slots, units_of

# A node that is fuller by this has a better score, and not an equal one.
_CLEARLY: Final = 0.3


def rooms_on(state: State, pod: Object, name: str, without: AbstractSet[str] = frozenset()) -> dict[int, Room]:
    """The cards of a node that the pod may have, once the pods with these uids have ended."""
    pods = [one for one in _pods_on(state, name) if one["metadata"]["uid"] not in without]
    banned, group = state.banned.get(name, frozenset()), group_of(pod, state.pods.values())
    rooms = rooms_of(pod, state.nodes[name], pods, banned, group)
    assert rooms is not None, f"{name} has cards that no rule knows"
    return rooms


def _pods_on(state: State, name: str) -> list[Object]:
    return [one for one in state.pods.values() if holds_a_node(one) and one["spec"]["nodeName"] == name]


def wrong_bind(state: State, pod: Object, name: str, bound: Object, error: str) -> str:
    """How a bind was wrong: ``state`` is the one before, ``bound`` the pod afterwards; "" if it was right."""
    rooms, cards = rooms_on(state, pod, name), shares_or_none(bound) or {}
    has_room = fits(pod, (room.free for room in rooms.values()))
    if error or not bound["spec"].get("nodeName"):
        return f"refused, though a card has room: {error}" if has_room or not error else ""
    wish = wish_of(pod)
    if wish is None or not has_room:
        return f"bound to cards {cards}, of which none has room"
    if any(index not in rooms or units > rooms[index].free for index, units in cards.items()):
        return f"bound to cards {cards}, {rooms} have room"
    if sorted(cards.values(), reverse=True) != list(wish.parts):
        return f"bound to cards {cards}, should be in parts {wish.parts}"
    if len(wish.parts) == 1 and not cards.keys() <= (liked := best(pod, rooms)).keys():
        return f"bound to card {cards}, its policy likes {liked} of {rooms} better"
    return ""


def kept_room(state: State, book: Object, uids: Collection[str]) -> Iterator[Finding]:
    """A book that was read when all binds of these pods had their answers has those that are bound in the end."""
    booked = {
        (one["namespace"], one["name"], node["name"], card["id"])
        for node in book["nodes"] or ()
        for card in node["devs"] or ()
        for one in card["pods"] or ()
    }
    for pod in (one for uid, one in state.pods.items() if uid in uids and holds_a_node(one) and gpu_containers(one)):
        metadata, node = pod["metadata"], pod["spec"]["nodeName"]
        for index in shares_or_none(pod) or ():
            if (metadata["namespace"], metadata["name"], node, index) not in booked:
                yield Finding(
                    "kept room", 0.0, "its bind was under way, and the book lacked it", name_of(pod), node, index
                )


def right_scores(state: State, entry: Asked) -> Iterator[Finding]:
    """A node that does not hold the pod has the score 0; a fuller one a better score, or for the policy spread a worse one."""
    pod = entry.question["Pod"]
    wish = wish_of(pod)
    full: dict[str, list[tuple[float, float]]] = {}
    scores = {one["Host"]: one["Score"] for one in entry.answer}
    for name in sorted(scores.keys() & state.nodes.keys()):
        rooms = rooms_on(state, pod, name)
        if not fits(pod, (room.free for room in rooms.values())):
            if scores[name]:
                yield Finding("score", entry.at, f"{scores[name]} for a node that does not hold the pod", node=name)
        elif wish is not None and len(wish.parts) == 1 and wish.policy != "fragmentation" and _is_whole(state, name):
            full[name] = _fullness(state, pod, name, rooms)
    sign = -1 if wish is not None and wish.policy == "spread" else 1
    for fuller, other in itertools.permutations(full, 2):
        ahead = min(least - most for (least, _), (_, most) in zip(full[fuller], full[other], strict=True))
        gain = sign * (scores[fuller] - scores[other])
        if ahead >= 0 > gain or (ahead >= _CLEARLY and gain == 0):
            text = f"{scores[fuller]}, and {scores[other]} for {other}, which is emptier: {full}"
            yield Finding("score", entry.at, text, node=fuller)


def right_cpu(state: State, entry: Asked, expected: Collection[tuple[int, float]]) -> Iterator[Finding]:
    """Policy fragmentation: of empty nodes with equal cards, those are better that keep CPU for the pods that are expected.

    ``expected``: units and CPU of these. Judged are nodes that have enough for as many as their cards hold, and then none for any.
    """
    pod, scores = entry.question["Pod"], {one["Host"]: one["Score"] for one in entry.answer}
    rooms = next(rooms_on(state, pod, name) for name in scores)
    enough = max(cpu for _, cpu in expected) * sum(room.size for room in rooms.values())
    asked = float(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    had = {name: float(state.nodes[name]["status"]["allocatable"]["cpu"]) for name in scores}
    least = min(cpu for _, cpu in expected)
    poor = [name for name, cpu in had.items() if cpu >= enough and cpu - asked < least]
    for name, other in itertools.product(poor, [name for name, cpu in had.items() if cpu - asked >= enough]):
        if scores[name] >= scores[other]:
            text = f"{scores[name]}, and {scores[other]} for {other}, which keeps CPU for the pods that are expected"
            yield Finding("score", entry.at, text, node=name)


def _is_whole(state: State, name: str) -> bool:
    """Are all cards usable? Whether the others count in the sum of a node is a matter of taste."""
    cards = cards_of(state.nodes[name])
    return cards is not None and not state.banned.get(name) and all(card.healthy for card in cards.cards.values())


def _fullness(state: State, pod: Object, name: str, rooms: dict[int, Room]) -> list[tuple[float, float]]:
    """The least and the most by which the pod's card and the node are full, from 0 to 1: with the pod, and the node before, too."""
    units, cards, booked = units_of(pod), cards_of(state.nodes[name]), booked_in_api(_pods_on(state, name))
    sizes = {index: card.units for index, card in cards.cards.items()} if cards else {}
    used, total = sum(booked.get((name, index), 0) for index in sizes), sum(sizes.values())
    on_cards = [(room.size - room.free + units) / room.size for room in best(pod, rooms).values()]
    sums = used / total, min((used + units) / total, 1.0)
    return [(min(on_cards), max(on_cards)), *((one, one) for one in sums)]


def right_price(state: State, entry: Asked, budgets: Sequence[Object]) -> Iterator[Finding]:
    """The victims on each node cost least: broken budgets, the highest priority, all priorities, how many.

    Those of one card are taken off, or all, and kept again as far as there is room: those that break a budget first, then the more
    important ones. A proposed victim that is of no use is spared if the others leave enough room in sum. Between pods of one
    priority nothing decides, so nodes with such pods are not judged.
    """
    pod, proposed, kept = entry.question["Pod"], victims_of(entry.question), victims_of(entry.answer)
    for name in sorted(kept.keys() & state.nodes.keys()):
        lower = [one for one in _pods_on(state, name) if gpu_containers(one) and priority_of(one) < priority_of(pod)]
        ranks = {(_is_leaving(one), -priority_of(one)) for one in lower}
        if len(ranks) == len(lower):
            node = _Preempted(state, pod, name, lower, budgets)
            said = entry.answer["NodeNameToMetaVictims"][name].get("NumPDBViolations", 0)
            for text in node.wrong(proposed.get(name, set()), kept[name], said):
                yield Finding("price", entry.at, text, node=name)


def _is_leaving(pod: Object) -> bool:
    return pod["metadata"].get("deletionTimestamp") is not None


class _Preempted:
    """A node on which a pod wants to end others, of which ``lower`` are less important."""

    def __init__(self, state: State, pod: Object, name: str, lower: list[Object], budgets: Sequence[Object]) -> None:
        self._state, self._pod, self._name = state, pod, name
        lower = sorted(lower, key=lambda one: (_is_leaving(one), -priority_of(one)))
        self._breaking = _breaking(lower, budgets)
        lower.sort(key=lambda one: one["metadata"]["uid"] not in self._breaking)
        self._lower = {one["metadata"]["uid"]: one for one in lower}

    def wrong(self, proposed: set[str], kept: set[str], said: int) -> Iterator[str]:
        """The faults of an answer; ``said`` is its number of broken budgets."""
        ours = {one["metadata"]["uid"] for one in _pods_on(self._state, self._name) if gpu_containers(one)}
        proposed, kept = proposed & ours, kept & ours
        cheapest = min(self._sets(), key=self._cost, default=set[str]())
        due = cheapest if not proposed - cheapest or self._is_enough(cheapest, proposed) else cheapest | proposed
        if self._cost(kept) != self._cost(due):
            yield f"{self._told(kept)} end, should be {self._told(due)}; proposed were {self._told(proposed)}"
        if said != len(kept & self._breaking):
            yield f"{said} broken budgets, should be {len(kept & self._breaking)}"

    def _sets(self) -> Iterator[set[str]]:
        shares = {uid: shares_or_none(one) or {} for uid, one in self._lower.items()}
        for index in {card for of in shares.values() for card in of}:
            yield from self._reprieved({uid for uid, of in shares.items() if index in of})
        yield from self._reprieved(set(self._lower))

    def _reprieved(self, ended: set[str]) -> Iterator[set[str]]:
        if not self._helps(ended):
            return
        for uid in self._lower:
            if uid in ended and self._helps(ended - {uid}):
                ended = ended - {uid}
        yield ended

    def _helps(self, ended: set[str]) -> bool:
        rooms = rooms_on(self._state, self._pod, self._name, ended)
        return fits(self._pod, (room.free for room in rooms.values()))

    def _is_enough(self, ended: set[str], proposed: set[str]) -> bool:
        """Do these give back as much as those that are proposed, in sum, of units and of slots?"""
        anyone: Object = {"metadata": {}, "spec": {"containers": []}}
        total = sum(room.size for room in rooms_on(self._state, anyone, self._name).values())
        left = [one for one in _pods_on(self._state, self._name) if one["metadata"]["uid"] not in ended]
        given, lost = (sum(map(self._slots, uids)) for uids in (ended - proposed, proposed - ended))
        has_slots = given >= lost or not named_slots(self._pod)
        return bool(ended) and has_slots and total - sum(map(units_of, left)) >= units_of(self._pod)

    def _slots(self, uid: str) -> int:
        return named_slots(self._state.pods[uid])

    def _cost(self, ended: Collection[str]) -> tuple[Any, ...]:
        dying = [uid for uid in ended if uid in self._lower and not _is_leaving(self._lower[uid])]
        priorities = sorted((priority_of(self._lower[uid]) for uid in dying), reverse=True)
        return len(self._breaking.intersection(dying)), priorities[:1], sum(priorities) + 2**31 * len(dying), len(dying)

    def _told(self, uids: set[str]) -> str:
        return ", ".join(sorted(name_of(self._state.pods[uid]) for uid in uids)) or "none"


def _breaking(pods: Sequence[Object], budgets: Sequence[Object]) -> set[str]:
    """The pods that break a budget if they are evicted after those before them."""
    taken: Counter[str] = Counter()
    found = set()
    for pod in pods:
        labels = pod["metadata"].get("labels") or {}
        for budget in budgets:
            name, wanted = budget["metadata"]["name"], budget["spec"]["selector"]["matchLabels"]
            if wanted.items() <= labels.items():
                taken[name] += 1
                if taken[name] > (budget.get("status") or {}).get("disruptionsAllowed", 0):
                    found.add(pod["metadata"]["uid"])
    return found
