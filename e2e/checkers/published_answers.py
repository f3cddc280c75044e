"""The answers of ``kubectl gpushare`` against the API at rest: for each the part that is judged, and its right value. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection
from typing import Any, Final

from e2e import spec
from e2e.checkers.history import Object, name_of
from e2e.checkers.overcommit import shares_or_none
from e2e.checkers.pod_requests import units_of
from e2e.checkers.published_series import MIB, Rest, RestingCard

_NODE: Final = re.compile(rf"node (\S+): {spec.NODE_HEALTHY} is False")
_OVERUSE: Final = re.compile(r"node (\S+): (\d+) pods? uses? more of a card than \w+ booked$")
_UNHEALTHY: Final = re.compile(r"card (\d+) \([^)]*\) is unhealthy")
_WAITS: Final = re.compile(r"waits? for a card.*?([a-z0-9-]+/[a-z0-9-]+)")
_LIMITS: Final = re.compile(
    rf"node (\S+): (?:{spec.NODE_LIMITS} is (?:False|Unknown)|the memory limit is not the share of (.*))"
)
_LIMITED_POD: Final = re.compile(r"(\S+/\S+) on card \d+ \((?:loose|none)\)")
# The words of ``explain`` for a card with too little room, the kinds of waiting about cards alone, and the nodes named of each.
_FULL: Final = "too full"
_CAUSES: Final = ("full", "fragmented", "too-small", "unhealthy")
_EXAMPLES: Final = 3
Pair = tuple[Any, Any]
"""The part of an answer that is judged, and the same as it should be."""


def doctor(rest: Rest, answer: Any) -> Pair:
    """Nodes with unhealthy cards are named with these, those with pods that overuse, pods that wait may be, and nothing else.

    A pod on several cards may have a limit that is not the share of each, as one number is for all (``memory_limits``), and that
    of a lost card is not known.
    """
    texts = [one["what"] for one in answer["findings"]]
    given = {node[1]: set(map(int, _UNHEALTHY.findall(text))) for text in texts if (node := _NODE.match(text))}
    waiting = set(map(name_of, rest.waiting))
    several = {name_of(pod): pod["spec"]["nodeName"] for pod in rest.holding if len(shares_or_none(pod) or {}) > 1}
    unsure = {*several.values(), *(card.node for card in rest.cards if card.is_silent)}
    others = [
        text
        for text in texts
        if not (_NODE.match(text) or _OVERUSE.match(text) or ((one := _WAITS.search(text)) and one[1] in waiting))
        and not ((one := _LIMITS.match(text)) and one[1] in unsure and _names_only(one[2], several))
    ]
    unhealthy = defaultdict[str, set[int]](set)
    for card in rest.cards:
        if not card.is_healthy:
            unhealthy[card.node].add(card.index)
    greedy = Counter(
        pod["spec"]["nodeName"] for pod in rest.holding if pod["metadata"]["uid"] in {one[0] for one in rest.overuse}
    )
    counted = {one[1]: int(one[2]) for text in texts if (one := _OVERUSE.match(text))}
    # A pod may not have been reported before its card was lost.
    counted = counted if not any(rest.overuse.values()) else greedy
    return (given, counted, others), (dict(unhealthy), greedy, [])


def _names_only(text: str | None, pods: Collection[str]) -> bool:
    """Is each pod of a text about limits one of these? Not if it names none in a form that is known."""
    names = _LIMITED_POD.findall(text or "")
    return text is None or (bool(names) and set(names) <= set(pods) and len(names) == text.count(" on card "))


def top(rest: Rest, answer: Any) -> Pair:
    """Each pod has its booking of each card and what it uses beyond it, and each node its sums."""
    silent = {one[:2] for one, is_silent in rest.overuse.items() if is_silent}
    pods = {
        (one["uid"], one["node"], one["card"]): (
            one["booked"],
            (one["uid"], one["card"]) not in silent and one["overuse"],
        )
        for one in answer["pods"]
    }
    over = {(uid, card): (used - booked) * MIB for uid, card, booked, used in rest.overuse}
    booked = {
        (uid := pod["metadata"]["uid"], pod["spec"]["nodeName"], card): (
            units * rest.mib_per_unit * MIB,
            (uid, card) not in silent and over.get((uid, card)),
        )
        for pod in rest.holding
        for card, units in (shares_or_none(pod) or {}).items()
    }
    nodes = {one["name"]: (one["total"], one["booked"], one["pods"], one["healthy"]) for one in answer["nodes"]}
    sums = {}
    for node in {card.node for card in rest.cards}:
        cards = [card for card in rest.cards if card.node == node]
        total, used = (
            sum(units) * rest.mib_per_unit * MIB
            for units in zip(*((one.units, one.booked) for one in cards), strict=True)
        )
        on = sum(pod["spec"]["nodeName"] == node for pod in rest.holding)
        sums[node] = total, used, on, str(all(card.is_healthy for card in cards))
    return (pods, nodes), (booked, sums)


def explain_waiting(rest: Rest, pod: Object, answer: Any) -> Pair:
    """A pod that waits: which nodes and cards have room, why the others have none, and which pods would have to end."""
    units = units_of(pod)
    cards = {(node["name"], one["id"]): one for node in answer["nodes"] for one in node["cards"]}
    given = {place: (one["total"], one["free"], one["reason"], _makes_room(one)) for place, one in cards.items()}
    right = {}
    for one in rest.cards:
        reason = _reason(one, one.free, units)
        right[one.node, one.index] = one.units, one.free, reason, reason == _FULL
    fits = sorted({card.node for card in rest.cards if card.free >= units})
    causes = {
        one["kind"]: (one["nodes"], one["examples"])
        for one in answer["causes"]
        if one["kind"] in _CAUSES and "nodes" in one
    }
    return (
        (answer["state"], answer["request"]["units"], sorted(answer["fits"]), given, causes),
        ("waiting", units, fits, right, _causes(rest, units, fits)),
    )


def _reason(card: RestingCard, free: int, units: int) -> str:
    """Why a card with these units free does not hold a pod; "" if it does."""
    if not card.is_healthy:
        return "unhealthy"
    return "" if free >= units else _FULL if card.units >= units else "too small"


def _causes(rest: Rest, units: int, fits: Collection[str]) -> dict[str, tuple[int, list[str]]]:
    """Each kind of waiting that is about cards, with its nodes."""
    found = defaultdict[str, set[str]](set)
    for node in {card.node for card in rest.cards} - {*fits}:
        cards = [card for card in rest.cards if card.node == node]
        is_large = any(card.is_healthy and card.units >= units for card in cards)
        is_split = sum(card.free for card in cards) >= units
        found["too-small" if not is_large else "fragmented" if is_split else "full"].add(node)
        if any(not card.is_healthy and card.units - card.booked >= units for card in cards):
            found["unhealthy"].add(node)
    return {kind: (len(nodes), sorted(nodes)[:_EXAMPLES]) for kind, nodes in found.items()}


def explain_bound(rest: Rest, pod: Object, answer: Any) -> Pair:
    """A pod with a card: its node, what it has of each card there, and which one would be chosen without it."""
    node, shares = pod["spec"]["nodeName"], shares_or_none(pod) or {}
    cards = [(card, shares.get(card.index, 0)) for card in rest.cards if card.node == node]
    right = {}
    for one, held in cards:
        free = one.is_healthy and one.free + held
        right[one.index] = held, free, _reason(one, free, units_of(pod)), one.booked - held
    given = {
        one["id"]: (
            one["held"], one["freeWithoutIt"], one["reason"], sum(other["units"] for other in one["sharedWith"]),
        )
        for one in answer["cards"]
    }  # fmt: skip
    fitting = [(free, index) for index, (_, free, reason, _) in right.items() if not reason]
    chosen = [index for _, index in sorted(fitting)[:1]]
    return (
        (answer["state"], answer["node"], given, answer["policyWouldChoose"]),
        ("bound", node, right, chosen),
    )


def simulate(rest: Rest, amounts: list[int], answer: Any) -> Pair:
    """Pods of these amounts, largest first: how many fit, and the largest of each model that does."""
    largest = {
        model: max(one.free for one in rest.cards if one.model == model) for model in {one.model for one in rest.cards}
    }
    largest = {model: units for model, units in largest.items() if units}
    fits = [sum(one.free // units for one in rest.cards) for units in amounts]
    given = [
        (one["fits"], one["placed"], {of["model"]: of["largest"] for of in one["models"] if of["largest"]})
        for one in answer["workloads"]
    ]
    return given, [(count, min(count, 1), largest) for count in fits]


def _makes_room(card: Any) -> bool:
    """Would the end of the pods that it names make room on the card, and not that of fewer?"""
    ends = [one["units"] for one in card.get("roomIfEnded", ())]
    return bool(ends) and sum(ends) - min(ends) < card["wanted"] - card["free"] <= sum(ends)
