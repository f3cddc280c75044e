"""The answer of ``simulate``, as a document for programs: where pods would land, how many fit, the largest that fits. Pure.

Whether a pod fits is the answer of kube-scheduler's filters and of the extender's. Which node it gets of those that hold it is the
extender's opinion alone: kube-scheduler adds its own, and chooses at random among equal nodes. How many pods fit does not depend on
that, because each node has its own room; only the first pod of a wish ``same-card`` chooses for all others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from gpushare import wire
from gpushare.errors import GpushareError
from gpushare.extender.core.explain import describe_request
from gpushare.extender.core.filter import filter_nodes
from gpushare.extender.core.prioritize import prioritize
from gpushare.kubectl_gpushare.core.cluster_state import ClusterState
from gpushare.kubectl_gpushare.core.manifest_pods import PodsOfObject
from gpushare.kubectl_gpushare.core.node_rules import amounts_of, not_judged, rule_against, short_of, times_in
from gpushare.kubectl_gpushare.core.scheduler_objects import AskedPod
from gpushare.kubectl_gpushare.core.waiting_causes import Cause, NodeVerdict, by_kind, verdicts_on
from gpushare.kubectl_gpushare.core.waiting_kinds import BAD_WISH, NOT_SHARED, RESOURCES
from gpushare.model.allocation import Shares
from gpushare.model.node import Booking, Device, NodeInfo, laid_out_with
from gpushare.model.placement import Question, find
from gpushare.model.quantity import MemoryUnit

_THOUSAND: Final = 1000
# A model of card, and the MiB of its node's unit.
_Kind = tuple[str, int]


def simulate(one: PodsOfObject, subject: AskedPod, state: ClusterState, bound: Collection[str] = ()) -> dict[str, Any]:
    """One workload on the cluster. Its pods stay in ``state``, so that a second workload finds them there.

    ``bound`` are the nodes of its pods that are in the cluster already: the others are placed.
    """
    try:
        asked = state.question_of(subject)
    except GpushareError as error:
        return refused(one, Cause(BAD_WISH, str(error)))
    nodes = [
        name
        for name, node in sorted(state.nodes.items())
        if not rule_against(node, subject) and not (one.on_each_node and name in bound)
    ]
    replicas = len(nodes) if one.on_each_node else max(one.replicas - len(bound), 0)
    if bound:
        one = one._replace(note="; ".join(filter(None, [one.note, f"already bound: {len(bound)} of its pods"])))
    fits = _fits(subject, asked, state, nodes if one.on_each_node else None)
    answer: dict[str, Any] = _head(one, replicas) | {
        "request": describe_request(asked) | {"priority": subject.priority},
        "notJudged": list(not_judged(subject)),
        "fits": sum(fits.values()),
        "models": _models(subject, asked, state, fits),
    }
    placed = list(_on_each(nodes, subject, state) if one.on_each_node else _placed(subject, replicas, state))
    answer |= {
        "placed": len(placed),
        "placements": [
            {"node": node, "cards": [{"id": index, "units": units} for index, units in shares], "pods": pods}
            for (node, shares), pods in Counter(placed).items()
        ],
    }
    if answer["placed"] < replicas:
        left = set(nodes) - {node for node, _ in placed} if one.on_each_node else set(state.nodes)
        answer["causes"] = [
            _described(cause, subject.metadata.namespace)
            for cause in _causes(subject, state, left, every=one.on_each_node)
        ]
    return answer


def refused(one: PodsOfObject, cause: Cause) -> dict[str, Any]:
    """The answer about a workload of which no pod can be created."""
    return _head(one, one.replicas) | {"placed": 0, "fits": 0, "causes": [_described(cause, one.namespace)]}


def _head(one: PodsOfObject, replicas: int) -> dict[str, Any]:
    return {"object": one.title, "replicas": replicas, "note": one.note}


def _described(cause: Cause, namespace: str) -> dict[str, Any]:
    """A reason why not all pods of the namespace have room."""
    means, advice = cause.texts(namespace)
    return {"kind": cause.kind, "means": means, "do": advice, "message": cause.message, "nodes": len(cause.nodes)}


def _causes(subject: AskedPod, state: ClusterState, nodes: Container[str], *, every: bool) -> list[Cause]:
    """Why these nodes take no such pod; ``every``: nodes that have no shared cards count, too."""
    found = [one for one in verdicts_on(subject, state.question_of(subject), state) if one.name in nodes]
    if every:
        known, wanted = {one.name for one in found}, amounts_of(subject)
        short = {name: short_of(state.free_on(name), wanted) for name in state.nodes if name not in known}
        found += [NodeVerdict(name, why, ((RESOURCES, why),)) for name, why in short.items() if why and name in nodes]
    return by_kind(found) or [Cause(NOT_SHARED)]


def _open(subject: AskedPod, state: ClusterState) -> dict[str, None]:
    """The nodes that kube-scheduler would ask the extender about."""
    wanted = amounts_of(subject)
    return {
        name: None
        for name, node in sorted(state.nodes.items())
        if not rule_against(node, subject) and not short_of(state.free_on(name), wanted)
    }


def _placed(subject: AskedPod, replicas: int, state: ClusterState) -> Iterator[tuple[str, Shares]]:
    """Node and cards of each pod, until none fits."""
    open_nodes, wanted = _open(subject, state), amounts_of(subject)
    for _ in range(replicas):
        place = _place(subject, open_nodes, state)
        if place is None:
            return
        if short_of(state.free_on(place[0]), wanted):
            del open_nodes[place[0]]
        yield place


def _on_each(names: Iterable[str], subject: AskedPod, state: ClusterState) -> Iterator[tuple[str, Shares]]:
    """The cards of a pod on each of these nodes that has room for it."""
    open_nodes = _open(subject, state)
    places = (_place(subject, {name: None}, state) for name in names if name in open_nodes)
    return filter(None, places)


def _place(subject: AskedPod, nodes: dict[str, None], state: ClusterState) -> tuple[str, Shares] | None:
    """Node and cards of the next pod, which is there from then on."""
    asked = state.question_of(subject)
    found = _chosen(asked, nodes, state)
    if found is not None:
        state.assume(found[0], subject, asked.request, found[1])
    return found


def _chosen(asked: Question, nodes: dict[str, None], state: ClusterState) -> tuple[str, Shares] | None:
    """Node and cards that the extender likes best."""
    snapshot, answers = state.book.snapshot(), state.book.answers
    fitting = filter_nodes(asked, nodes, snapshot, answers.reasons(asked.request)).fitting
    if not fitting:
        return None
    scores = prioritize(asked, fitting, snapshot, answers.costs(asked))
    name = max(fitting, key=scores.__getitem__)
    found = find(snapshot.nodes[name], asked) if asked.request.units else ()
    assert not isinstance(found, str)
    return name, found


def _fits(subject: AskedPod, asked: Question, state: ClusterState, one_on: Collection[str] | None) -> Counter[_Kind]:
    """How many such pods fit until the cluster is full, by the model of their card; or one on each of some nodes."""
    found: Counter[_Kind] = Counter()
    wanted, infos = amounts_of(subject), state.book.snapshot().nodes
    nodes = _open(subject, state)
    if asked.request.wishes.group and not asked.group_cards:
        # All pods follow the first.
        name, shares = _chosen(asked, nodes, state) or ("", ())
        nodes, asked = {name: None} if name else {}, replace(asked, group_cards={name: frozenset(dict(shares))})
    for name in nodes:
        most = times_in(state.free_on(name), wanted)
        most = most if one_on is None else min(most, int(name in one_on))
        if asked.request.units == 0:
            found["", 0] += 0 if infos[name].counts_slots and not asked.request.names_slots else most
        elif not isinstance(find(infos[name], asked), str):
            found.update(_on_node(infos[name], asked, most))
    return found


def _on_node(info: NodeInfo, asked: Question, most: int) -> Counter[_Kind]:
    """How many pods, at most ``most``, the cards of a node hold that holds one."""
    if asked.request.wishes.split:
        return _split_on_node(info, asked, most)
    found: Counter[_Kind] = Counter()
    for device in info.devices:
        pods = min(_on_card(device, info, asked), most)
        most -= pods
        found[device.model, device.unit_mib] += pods
    return found


def _on_card(device: Device, info: NodeInfo, asked: Question) -> int:
    request = asked.request
    in_group = not asked.group_cards or device.index in asked.group_cards.get(info.name, ())
    is_whole = not request.wishes.whole or device.total == request.units
    if not (asked.wishes_for(device) and in_group and is_whole):
        return 0
    pods = device.free // request.units
    return min(pods, device.free_slots // request.slots) if info.counts_slots else pods


def _split_on_node(info: NodeInfo, asked: Question, most: int) -> Counter[_Kind]:
    """One pod after the other: how many fit depends on the cards that each takes."""
    found: Counter[_Kind] = Counter()
    kinds = {device.index: (device.model, device.unit_mib) for device in info.devices}
    for number in range(most):
        shares = find(info, asked)
        if isinstance(shares, str):
            break
        found[kinds[shares[0][0]]] += 1
        booking = Booking(f"simulated-{number}", "", "", asked.request.units, shares, asked.request.slots)
        info = laid_out_with(info, [*info.bookings, booking])
    return found


def _models(subject: AskedPod, asked: Question, state: ClusterState, fits: Counter[_Kind]) -> list[dict[str, Any]]:
    """By model and unit of its cards: how many cards the pod may have, how many pods fit, and the largest pod that would."""
    others = {name: amount for name, amount in amounts_of(subject).items() if name != wire.RESOURCE_MEMORY}
    cards: Counter[_Kind] = Counter()
    largest: defaultdict[_Kind, int] = defaultdict(int)
    for name, info in state.book.snapshot().nodes.items():
        if rule_against(state.nodes[name], subject) or not info.devices:
            continue
        free = state.free_on(name)
        is_open = not short_of(free, others) and (asked.request.names_slots or not info.counts_slots)
        in_sum = max(free.get(wire.RESOURCE_MEMORY, 0), 0) // _THOUSAND
        for device in info.devices:
            if device.healthy and asked.wishes_for(device):
                key = device.model, device.unit_mib
                cards[key] += 1
                has_slots = not info.counts_slots or device.free_slots >= max(asked.request.slots, 1)
                largest[key] = max(largest[key], min(device.free, in_sum) if is_open and has_slots else 0)
    return [
        {
            "model": model,
            "unit": str(MemoryUnit(mib)) if mib else "",
            "cards": cards[model, mib],
            "fits": fits[model, mib],
            "largest": largest[model, mib],
        }
        for model, mib in sorted(cards)
    ]
