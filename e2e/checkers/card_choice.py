"""Which cards of a node a pod may have by the API and by its wishes, and which of them its policy likes best. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from e2e import spec
from e2e.checkers.history import Object
from e2e.checkers.overcommit import SLOTS, booked_in_api, holds_a_node, shares_or_none, slots_taken
from e2e.checkers.pod_requests import gpu_containers, named_slots, slots_of, units_of
from e2e.site.node_cards import Card, Cards, UnreadableError, amount, averaged, described

_WISH: Final = "gpushare.aliyun.com/"
_WORD: Final = re.compile(r"[a-z0-9]+")
_MODELS: Final = r"[^,a-z0-9]*[a-z0-9][^,]*(,[^,a-z0-9]*[a-z0-9][^,]*)*"
_UUIDS: Final = r" *(gpu|mig)-[-0-9a-f]+ *(, *(gpu|mig)-[-0-9a-f]+ *)*"
# The texts that a wish may have.
_FORMS: Final = {
    "policy": r"binpack|spread|fragmentation",
    "card-model": _MODELS,
    "card-model-not": _MODELS,
    "card-uuid": _UUIDS,
    "card-uuid-not": _UUIDS,
    "same-card": r"[a-z0-9]([-_.a-z0-9]{0,61}[a-z0-9])?",
    "split": r"whole|[0-9]*[1-9][0-9]*(,[0-9]*[1-9][0-9]*)+",
}


class Room(NamedTuple):
    """A card that a pod may have: the units that are free, and all that it has."""

    free: int
    size: int


class _Version(msgspec.Struct):
    v: int


@dataclass(frozen=True, slots=True)
class Wish:
    """The wishes of a pod, with their texts; ``parts`` are its units on each card, the largest first."""

    texts: Mapping[str, str]
    parts: tuple[int, ...]

    @property
    def policy(self) -> str:
        """How to choose among the cards and nodes that hold the pod."""
        return self.texts.get("policy", "binpack")

    def is_for(self, cards: Iterable[Card]) -> bool:
        """Can a node with these cards fulfil it? Some wishes need to know which card is which."""
        names_cards = any(name.startswith("card-") for name in self.texts)
        return not (names_cards or len(self.parts) > 1) or all(card.uuid for card in cards)

    def admits(self, card: Card) -> bool:
        """May the pod have this card?"""
        model, uuid = _words(card.model), card.uuid.lower()
        return (
            any(_words(one) in model for one in self._entries("card-model") or ("",))
            and not any(_words(one) in model for one in self._entries("card-model-not"))
            and uuid in (self._entries("card-uuid") or (uuid,))
            and uuid not in self._entries("card-uuid-not")
            and (self.texts.get("split") != "whole" or card.units == self.parts[0])
        )

    def _entries(self, name: str) -> list[str]:
        return [one.strip().lower() for one in self.texts[name].split(",")] if name in self.texts else []


def _words(text: str) -> str:
    """The words of a model with a blank before and after each, so that T4 is not in T400."""
    found = _WORD.findall(text.lower())
    return f" {' '.join(found)} " if found else ""


def texts_of(pod: Object) -> dict[str, str]:
    """The texts of its wishes, by their names without our prefix; blanks of a split count for nothing."""
    annotations = pod["metadata"].get("annotations") or {}
    found = {name.removeprefix(_WISH): text for name, text in annotations.items() if name.startswith(_WISH)}
    if "split" in found:
        text = found["split"].strip()
        found["split"] = text if text.startswith("w") else "".join(text.split())
    return found


def _is_sound(texts: Mapping[str, str], names: Iterable[str]) -> bool:
    return all(re.fullmatch(_FORMS[name], texts[name], re.IGNORECASE) for name in names if name in texts)


def wish_of(pod: Object) -> Wish | None:
    """The wishes of a pod; None if they make no sense: then no card will do."""
    texts, units = texts_of(pod), units_of(pod)
    if not texts.keys() <= _FORMS.keys() or not _is_sound(texts, texts):
        return None
    if texts.get("split", "whole") == "whole":
        return Wish(texts, (units,))
    parts = tuple(sorted(map(int, texts["split"].split(",")), reverse=True))
    is_one = [one.kind for one in gpu_containers(pod)] == ["app"]
    return Wish(texts, parts) if is_one and sum(parts) == units else None


def members_of(pod: Object, pods: Iterable[Object]) -> list[Object]:
    """The pods with which it wishes to share a card."""
    name = _group(pod)
    return [one for one in (pods if name else ()) if _group(one) == name and gpu_containers(one)]


def group_of(pod: Object, pods: Iterable[Object]) -> frozenset[tuple[str, int]] | None:
    """The (node, card) of these; None if the pod may have any card."""
    places = (
        (one["spec"]["nodeName"], card)
        for one in members_of(pod, pods)
        if holds_a_node(one)
        for card in shares_or_none(one) or ()
        if card >= 0
    )
    return frozenset(places) or None


def _group(pod: Object) -> tuple[str, str] | None:
    texts = texts_of(pod)
    is_one = "same-card" in texts and _is_sound(texts, _FORMS)
    return (pod["metadata"].get("namespace", ""), texts["same-card"]) if is_one else None


def cards_of(node: Object) -> Cards | None:
    """By our annotation while it agrees with the node's amounts, else of equal size; None if another program knows the sizes."""
    try:
        units, count = amount(node, spec.RESOURCE_MEMORY), amount(node, spec.RESOURCE_COUNT)
        cards = described(node)
    except UnreadableError:
        if _is_newer(node):
            return None
        cards = None
    if cards is not None and (cards.units, len(cards.cards)) == (units, count):
        return cards
    equal = averaged(node)
    return equal if not count or equal.units == units else None


def _is_newer(node: Object) -> bool:
    try:
        return msgspec.json.decode(node["metadata"]["annotations"][spec.NODE_CARDS], type=_Version).v > 1
    except (msgspec.MsgspecError, RecursionError):
        return False


def rooms_of(
    pod: Object,
    node: Object,
    pods: Collection[Object],
    banned: frozenset[int] = frozenset(),
    group: frozenset[tuple[str, int]] | None = None,
) -> dict[int, Room] | None:
    """The cards of a node that the pod may have, beside these pods; None if the API does not show it."""
    cards, name = cards_of(node), node["metadata"]["name"]
    if cards is None:
        return None
    wish, slots = wish_of(pod), slots_of(pod) if cards.mode == SLOTS else 0
    if (
        wish is None
        or not wish.is_for(cards.cards.values())
        or (slots and (len(wish.parts) > 1 or not named_slots(pod)))
    ):
        return {}
    booked, taken = booked_in_api(pods), slots_taken(pods, name)
    return {
        index: Room(card.units - booked.get((name, index), 0), card.units)
        for index, card in cards.cards.items()
        if card.healthy and index not in banned and wish.admits(card)
        if (group is None or (name, index) in group) and (not slots or card.slots - taken[index] >= slots)
    }


def fits(pod: Object, free: Iterable[int]) -> bool:
    """Is there room for the pod, or for each of its parts, on cards with these units free?"""
    wish, left = wish_of(pod), sorted(free, reverse=True)
    return wish is not None and len(left) >= len(wish.parts) and all(map(operator.ge, left, wish.parts))


def best(pod: Object, rooms: Mapping[int, Room]) -> dict[int, Room]:
    """Those of the cards that the pod's policy likes best, by the original's rule the fullest; all for the policy fragmentation."""
    wish, units = wish_of(pod), units_of(pod)
    fitting = {index: room for index, room in rooms.items() if room.free >= units}
    policy = wish.policy if wish else ""
    ranks = {
        index: -room.free if policy == "binpack" else room.free / room.size if policy == "spread" else 0
        for index, room in fitting.items()
    }
    return {index: room for index, room in fitting.items() if ranks[index] == max(ranks.values())}
