"""The series that an extender and device plugins publish, against the API's objects at rest. Pure; docs/reference.md has each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from e2e import spec
from e2e.checkers.history import Object
from e2e.checkers.overcommit import SLOTS, Sizes, booked_in_api, held_on, holds_a_node, is_over, shares_or_none
from e2e.checkers.pod_requests import gpu_containers
from e2e.metrics import Series
from e2e.site.node_cards import described

MIB: Final = 1024 * 1024
_EXTENDER: Final = "gpushare_extender_"
_WAITING: Final = f"{_EXTENDER}waiting_pods"
# Any sample of these that is not expected is 0 at rest.
_QUIET: Final = (
    "gpushare_log_lines_dropped_total",
    f"{_EXTENDER}largest_free_units",
    f"{_EXTENDER}open_to_everybody",
    f"{_EXTENDER}unreadable_objects_total",
    "gpushare_held_containers",
    "gpushare_held_pod",
    "gpushare_pod_overuse_bytes",
    "gpushare_pod_unbooked_card",
    "gpushare_unreadable_objects_total",
)
_COUNTED: Final = ("_total", "_count", "_sum", "_bucket")


@dataclass(frozen=True, slots=True)
class RestingCard:
    """One card, as it reports itself, and what the API's pods hold of it."""

    node: str
    index: int
    uuid: str
    model: str
    mib: int
    units: int
    booked: int
    is_healthy: bool
    is_silent: bool
    """Is nothing known of its processes?"""
    without_figure: int = 0
    """The processes of which the driver does not know what they use."""

    @property
    def free(self) -> int:
        """The units that one pod can still get of it."""
        return self.units - self.booked if self.is_healthy else 0

    @property
    def labels(self) -> dict[str, str]:
        """Those of its series on its node."""
        return {"card": str(self.index), "uuid": self.uuid, "model": self.model}


@dataclass(frozen=True, slots=True)
class Rest:
    """The API's pods and nodes at rest, and the cards; ``slots`` of each, 0 if they are not counted."""

    pods: Sequence[Object]
    nodes: Sequence[Object]
    cards: Sequence[RestingCard]
    mib_per_unit: int
    slots: int
    troubled: Collection[str]
    """Nodes that were created again, or had cards that failed and recovered."""
    has_overuse: bool = False
    """Has a pod of the cluster ever used more than it booked?"""

    def is_steady(self, one: Object) -> bool:
        """Is it a node, or a pod on one, that had no trouble?"""
        return (one["spec"].get("nodeName") or one["metadata"]["name"]) not in self.troubled

    @property
    def holding(self) -> list[Object]:
        """The pods that have a card."""
        return [pod for pod in self.pods if holds_a_node(pod) and gpu_containers(pod) and shares_or_none(pod)]

    @property
    def failed(self) -> set[tuple[str, str]]:
        """The uid of each node and of each pod that has an unhealthy card, with the card."""
        return {
            (one["metadata"]["uid"], f"card {card.index}")
            for card in self.cards
            for one in (*self.nodes, *self.holding)
            if self.is_steady(one)
            and not card.is_healthy
            and (one["metadata"]["name"] == card.node or card.index in _cards_on(one, card.node))
        }

    @property
    def overuse(self) -> dict[tuple[str, int, int, int], bool]:
        """Uid, card, MiB booked and used of each pod that uses more than it booked, and whether its card is silent."""
        silent = {(card.node, card.index) for card in self.cards if card.is_silent}
        return {
            (pod["metadata"]["uid"], index, booked, mib): (pod["spec"]["nodeName"], index) in silent
            for pod in self.holding
            for index, mib in held_on(pod).items()
            if mib > (booked := (shares_or_none(pod) or {}).get(index, 0) * self.mib_per_unit)
        }

    @property
    def waiting(self) -> list[Object]:
        """The pods that wait for a card."""
        return [
            pod
            for pod in self.pods
            if gpu_containers(pod)
            and not (pod["spec"].get("nodeName") or is_over(pod) or pod["metadata"].get("deletionTimestamp"))
        ]


def _cards_on(pod: Object, node: str) -> Mapping[int, int]:
    return shares_or_none(pod) or {} if pod["spec"].get("nodeName") == node else {}


def resting(
    pods: Sequence[Object],
    nodes: Sequence[Object],
    unhealthy: Mapping[tuple[str, int], bool],
    sizes: Sizes,
    hardware: Callable[[str], Sequence[Mapping[str, Any]]],
    troubled: Collection[str],
    hidden: Collection[tuple[str, int]] = (),
    *,
    has_overuse: bool = False,
) -> Rest:
    """``unhealthy``: cards by (node, index), and whether each is lost; ``hidden`` are those of which NVML knows no process.

    ``hardware``: a node's cards, as they report themselves.
    """
    booked = booked_in_api(pods)
    cards = [
        RestingCard(
            node, at := one["index"], one["uuid"], one["name"], one["memory"]["total_mib"], sizes[node][at],
            booked.get((node, at), 0), (node, at) not in unhealthy, unhealthy.get((node, at), False) or (node, at) in hidden,
            sum(row["mib"] is None for row in one["processes"]),
        )
        for node in sizes for one in hardware(node)
    ]  # fmt: skip
    known = next(filter(None, map(described, nodes)))
    has_slots = known.mode == SLOTS
    unit, slots = (1, known.cards[0].slots) if has_slots else (spec.MIB_PER_UNIT, 0)
    return Rest(pods, nodes, cards, unit, slots, troubled, has_overuse)


Expected = Iterator[tuple[str, dict[str, str], float | None]]
"""None for a value that is not known."""


def of_extender(rest: Rest) -> Expected:
    """The gauges of the extender: names, labels and values."""
    unit = rest.mib_per_unit * MIB
    yield f"{_EXTENDER}nodes", {}, len(rest.nodes)
    yield f"{_EXTENDER}pods", {"state": "booked"}, len(rest.holding)
    yield f"{_EXTENDER}pods", {"state": "assumed"}, 0
    largest, states = defaultdict[str, int](int), Counter[tuple[str, str]]()
    for card in rest.cards:
        largest[card.model] = max(largest[card.model], card.free)
        states[card.model, "healthy" if card.is_healthy else "unhealthy"] += 1
        labels = {"node": card.node, **card.labels}
        for name, units in (("card", card.units), ("card_booked", card.booked)):
            yield f"{_EXTENDER}{name}_units", labels, units
            yield f"{_EXTENDER}{name}_bytes", labels, units * unit
    for model, units in largest.items():
        yield f"{_EXTENDER}largest_free_bytes", {"model": model}, units * unit
    for (model, state), count in states.items():
        yield f"{_EXTENDER}cards", {"model": model, "state": state}, count


def of_plugin(rest: Rest, node: str) -> Expected:
    """The gauges of a node's device plugin, which looks at use: names, labels and values."""
    cards, unit = {card.index: card for card in rest.cards if card.node == node}, rest.mib_per_unit * MIB
    yield "gpushare_cards", {}, len(cards)
    mode = {"mode": "slots", "unit": "MiB"} if rest.slots else {"mode": "ids", "unit": "GiB"}
    yield "gpushare_unit_bytes", mode, unit
    # A pod that was short-lived may have been reported, or not.
    yield "gpushare_overuse_episodes_total", {}, None if rest.has_overuse else 0
    for card in cards.values():
        yield "gpushare_card_memory_bytes", card.labels, card.mib * MIB
        yield "gpushare_card_units", card.labels, card.units
        yield "gpushare_card_slots", card.labels, rest.slots
        yield "gpushare_card_healthy", card.labels, card.is_healthy
        if not card.is_silent:
            yield "gpushare_card_unaccounted_bytes", card.labels, 0
            yield "gpushare_card_processes_without_figure", card.labels, card.without_figure
    for pod in (one for one in rest.pods if holds_a_node(one) and one["spec"]["nodeName"] == node):
        yield from _of_pod(rest, pod, cards)


def _of_pod(rest: Rest, pod: Object, cards: Mapping[int, RestingCard]) -> Expected:
    metadata, unit = pod["metadata"], rest.mib_per_unit * MIB
    of_pod = {key: metadata[key] for key in ("namespace", "uid")} | {"pod": metadata["name"]}
    shares = _cards_on(pod, pod["spec"]["nodeName"]) if gpu_containers(pod) else {}
    for index, units in shares.items():
        yield "gpushare_pod_booked_bytes", {**of_pod, "card": str(index)}, units * unit
    for index, mib in held_on(pod).items():
        on, is_silent, over = (
            {**of_pod, "card": str(index)},
            cards[index].is_silent,
            mib * MIB - shares.get(index, 0) * unit,
        )
        if not gpu_containers(pod):
            # A card that is silent now may have shown its process before.
            yield "gpushare_pod_unbooked_card", on, None if is_silent else 1
        elif over > 0 and not is_silent:
            yield "gpushare_pod_overuse_bytes", on, over
        if not is_silent:
            yield "gpushare_pod_used_bytes", on, mib * MIB


def wrong_series(program: str, series: Series, expected: Expected) -> Iterator[str]:
    """The samples that are not as expected; those of a thing that is not there must not be either, or be 0."""
    values = {(name, frozenset(labels.items())): value for name, labels, value in expected}
    names = {name for name, _ in values}.union(_QUIET)
    for key in values.keys() | {key for key in series if key[0] in names}:
        if (due := values.get(key, 0)) is not None and (value := series.get(key)) != due:
            yield f"{program}: {key[0]} {dict(sorted(key[1]))} is {value}, should be {due}"


def wrong_waits(rest: Rest, series: Series, refusals: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Each pod that waits is counted once it is reported on, and by a reason of its last answer if that refused all nodes.

    ``refusals`` have the reasons by uid. The extender keeps its last answer, also if it holds no more.
    """
    reported = sum(
        one["type"] == "PodScheduled" for pod in rest.waiting for one in pod["status"].get("conditions") or ()
    )
    counts = {dict(labels)["reason"]: value for (name, labels), value in series.items() if name == _WAITING}
    count, most = sum(counts.values()), len(rest.waiting)
    if not reported <= count <= most:
        yield f"extender: {count} pods wait, should be {reported} to {most}"
    refused = [reasons for pod in rest.waiting if (reasons := refusals.get(pod["metadata"]["uid"]))]
    for reasons in {*refused, frozenset[str]().union(*refused)}:
        due, given = sum(one <= reasons for one in refused), sum(counts.get(one, 0) for one in reasons)
        if given < due:
            yield f"extender: {given} pods wait for {sorted(reasons)}, should be {due} at least"


def fallen(program: str, before: Series, series: Series) -> Iterator[str]:
    """Counters never fall, nor go, while a program lives."""
    for key, value in before.items():
        if key[0].endswith(_COUNTED) and series.get(key, -1) < value:
            yield f"{program}: {key[0]} {dict(sorted(key[1]))} was {value}, and is {series.get(key)}"


def begun_again(program: str, before: Series, series: Series) -> Iterator[str]:
    """Between two looks with the same pods no overuse begins: one that goes on is one episode, also while its card is silent."""
    key = "gpushare_overuse_episodes_total", frozenset[tuple[str, str]]()
    if (count := series.get(key)) != (known := before.get(key)):
        yield f"{program}: {count} episodes of overuse, should be {known} still"
