"""A node at an instant: the answer, the list, the annotation and the metrics that its pods and cards imply. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from e2e import spec
from e2e.checkers.history import Object
from e2e.checkers.overcommit import is_over, shares_or_none
from e2e.checkers.pod_requests import GpuContainer, gpu_containers, units_of
from e2e.metrics import series_in
from e2e.site.node_cards import described


@dataclass(frozen=True, slots=True)
class KnownCard:
    """One card; ``name`` is the one that the runtime gets."""

    uuid: str
    mib: int
    units: int
    name: str


@dataclass(slots=True)
class NodeState:
    """Cards and pods of a node, as what was done to them implies."""

    cards: dict[int, KnownCard]
    ill: dict[int, str] = field(default_factory=dict)
    """Cards with a fault, and the reason."""
    banned: frozenset[int] = frozenset()
    """Those that the ConfigMap bans."""
    is_away: bool = False
    """Is the driver away?"""
    pods: dict[str, Object] = field(default_factory=dict)
    """Those that have not ended, by name, in the order in which they were bound."""
    given: dict[str, dict[str, tuple[list[str], Mapping[str, str]]]] = field(default_factory=dict)
    """The ids and variables of each container, by pod."""
    own: dict[str, str] = field(default_factory=dict)
    """Variables that each container has besides."""

    @property
    def unhealthy(self) -> dict[int, str]:
        """Cards that no pod may get, and why."""
        away = dict.fromkeys(self.cards if self.is_away else (), "no driver")
        return dict.fromkeys(sorted(self.banned), "ConfigMap") | away | self.ill

    def held(self) -> dict[str, int]:
        """The card of each id that a container has."""
        return {
            one: int(told[spec.ENV_INDEX])
            for containers in self.given.values()
            for ids, told in containers.values()
            for one in ids
        }

    def room(self) -> dict[int, int]:
        """Units of each healthy card that no pod has, by its annotation."""
        booked: Counter[int] = Counter()
        for pod in self.pods.values():
            booked.update(shares_or_none(pod) or {} if gpu_containers(pod) else {})
        return {one: card.units - booked[one] for one, card in self.cards.items() if one not in self.unhealthy}

    def waiting(self) -> dict[str, GpuContainer]:
        """The next container of each pod that waits, a pod that has begun alone."""
        found: dict[str, GpuContainer] = {}
        begun: dict[str, GpuContainer] = {}
        for name, pod in self.pods.items():
            have = self.given.get(name, {})
            rest = [one for one in gpu_containers(pod) if one.name not in have]
            if rest and not is_over(pod):
                (begun if have else found)[name] = rest[0]
        return begun or found

    def variables(self, name: str, container: GpuContainer, index: int) -> dict[str, str]:
        """All variables of a container of a pod on this card."""
        card = self.cards[index]
        return {
            spec.ENV_VISIBLE: card.name,
            spec.ENV_INDEX: str(index),
            spec.ENV_POD_UNITS: str(units_of(self.pods[name])),
            spec.ENV_CONTAINER_UNITS: str(container.units),
            spec.ENV_DEVICE_UNITS: str(card.units),
            **self.own,
        }


def wrong_list(
    state: NodeState, health: Mapping[str, str], card_of: Mapping[str, int], *, keeps_held: bool
) -> Iterator[str]:
    """A unit of each card is an id, healthy as its card is; those that pods have stay healthy if the plugin keeps them so."""
    total, unhealthy = sum(card.units for card in state.cards.values()), state.unhealthy
    if len(health) != total:
        yield f"{len(health)} ids, the cards have {total} units"
    held = state.held() if keeps_held else {}
    due = sum(state.cards[index].units for index in unhealthy) - sum(index in unhealthy for index in held.values())
    if (count := sum(one != "Healthy" for one in health.values())) != due:
        yield f"{count} ids are unhealthy, should be {due}"
    for one, index in card_of.items():
        wanted = "Unhealthy" if index in unhealthy and one not in held else "Healthy"
        if health.get(one) != wanted:
            yield f"{one} of card {index} is {health.get(one)}, should be {wanted}"


def wrong_node(state: NodeState, node: Object, unit: str) -> Iterator[str]:
    """The annotation has each card with its health, and the condition has those that are unhealthy."""
    found, unhealthy = described(node), state.unhealthy
    shown = (
        {one.index: (one.uuid, one.mib, one.units, one.healthy, one.reason) for one in found.cards.values()}
        if found
        else {}
    )
    due = {
        index: (card.uuid, card.mib, card.units, index not in unhealthy, unhealthy.get(index, ""))
        for index, card in state.cards.items()
    }
    if found is None or (shown, found.mode, found.unit) != (due, "ids", unit):
        yield f"the annotation has {found}, should have {due} in {unit}"
    conditions = {one["type"]: one for one in node["status"].get("conditions") or ()}
    healthy = conditions.get(spec.NODE_HEALTHY, {})
    wanted = ("False", "CardsUnhealthy") if unhealthy else ("True", "CardsHealthy")
    if (healthy.get("status"), healthy.get("reason")) != wanted:
        yield f"the condition is {healthy}, should be {wanted}"
    if missing := [one for one in unhealthy.values() if one not in healthy.get("message", "")]:
        yield f"the condition's message {healthy.get('message')!r} lacks {missing}"


def wrong_metrics(state: NodeState, text: str, unit_mib: int, counts: Mapping[tuple[str, ...], int]) -> Iterator[str]:
    """The series of each card are its facts, and the counters are what was done; ``counts`` by name and values of labels."""
    due: dict[tuple[str, ...], float] = {
        ("gpushare_cards",): len(state.cards),
        ("gpushare_held_containers",): 0,
        **counts,
    }
    for index, card in state.cards.items():
        due["gpushare_card_healthy", card.uuid] = index not in state.unhealthy
        due["gpushare_card_memory_bytes", card.uuid] = card.mib << 20
        due["gpushare_card_units", card.uuid] = card.units
    for pod in state.pods.values():
        due["gpushare_pod_booked_bytes", pod["metadata"]["uid"]] = units_of(pod) * unit_mib << 20
    series = series_in(text)
    for (name, *labels), value in due.items():
        found = [each for (of, pairs), each in series.items() if of == name and {*labels} <= {one for _, one in pairs}]
        if sum(found) != value:
            yield f"{name} of {labels} is {found}, should be {value}"
    yield from ended_pods(state, text)
    if [each for (of, _), each in series.items() if of == "gpushare_unit_bytes"] != [unit_mib << 20]:
        yield f"gpushare_unit_bytes is not {unit_mib} MiB"


def ended_pods(state: NodeState, text: str) -> Iterator[str]:
    """Pods that have ended, and a booking of theirs is still published."""
    uids = {pod["metadata"]["uid"] for pod in state.pods.values()}
    for name, pairs in series_in(text):
        if name == "gpushare_pod_booked_bytes" and dict(pairs)["uid"] not in uids:
            yield f"{name} of {dict(pairs)}, which has ended"
