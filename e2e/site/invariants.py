"""The invariants of a cluster that shares cards, judged from what its API server shows. Pure.

``judge`` returns what is wrong. A rule is one function; the first line of its docstring is the promise that reports print.
Only the traceback of an error that no rule expects goes to a log.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from e2e import spec
from e2e.checkers.overcommit import shares_or_none
from e2e.checkers.pod_requests import units_of
from e2e.site.findings import Finding
from e2e.site.node_cards import Cards, UnreadableError, amount, averaged, described
from e2e.site.picture import Object, Picture, annotations_of, name_of, names_card
from e2e.site.unexpected import not_judged

Rule = Callable[[Picture], Iterator[Finding]]

_OURS: Final = (spec.RESOURCE_MEMORY, spec.RESOURCE_COUNT, spec.RESOURCE_SLOT)
# Resources of other plugins that hand out the same cards whole, or shared in another way.
_OTHER_PLUGINS: Final = re.compile(
    r"nvidia\.com/(gpu|mig-).*|volcano\.sh/vgpu-.*|tencent\.com/vcuda-.*|koordinator\.sh/gpu.*|aliyun\.com/gpu"
)
# The annotations that programs write on a pod, and its author may not.
_OF_PROGRAMS: Final = (
    spec.POD_INDEX,
    spec.POD_ALLOCATION,
    spec.POD_ASSIGNED,
    spec.POD_ASSUME_TIME,
    spec.POD_EXTENDER,
    spec.POD_REPAIR,
)
# The field managers of a person at a terminal. Programs have too many names to list: ours may appear as an HTTP library.
_BY_HAND: Final = "kubectl"


def judge(picture: Picture) -> list[Finding]:
    """All that is wrong in the picture. A node that a rule cannot judge is a finding, and the rule goes on with the others."""
    return [
        finding
        for subject, part in picture.parts().items()
        for name, rule in RULES.items()
        for finding in _judged(name, rule, subject, part)
    ]


def _judged(name: str, rule: Rule, subject: str, part: Picture) -> list[Finding]:
    try:
        return list(rule(part))
    except Exception as error:
        return [Finding("warning", name, subject, *not_judged(error))]


def other_resources(node: Object) -> list[str]:
    """The resources of other plugins that the node offers and that may be the same cards."""
    offered = (node.get("status", {}).get("capacity") or {}).items()
    return sorted(name for name, count in offered if _OTHER_PLUGINS.fullmatch(name) and str(count) != "0")


def cards_of(node: Object) -> Cards | None:
    """The cards that pods are booked on; None if annotation or capacity cannot be read, which is a finding of its own."""
    try:
        return described(node) or averaged(node)
    except UnreadableError:
        return None


def cards_annotation(picture: Picture) -> Iterator[Finding]:
    """The cards annotation of a node can be read, and is of a version that the programs know."""
    for name, node in picture.sharing_nodes.items():
        try:
            described(node)
        except UnreadableError as error:
            todo = "restart the node's device plugin, which writes it; if it is of a newer version, update the extender"
            yield Finding(
                "error", "cards-annotation", f"node {name}", f"{spec.NODE_CARDS} cannot be read: {error}", todo
            )


def capacity(picture: Picture) -> Iterator[Finding]:
    """A node offers as much memory and as many cards as its annotation describes."""
    for name, node in picture.sharing_nodes.items():
        try:
            units, count, slots = (amount(node, one) for one in _OURS)
            amount(node, spec.RESOURCE_MEMORY, "allocatable")
        except UnreadableError as error:
            todo = "restart the node's device plugin and its kubelet, which write it"
            yield Finding("error", "capacity", f"node {name}", str(error), todo)
            continue
        cards = cards_of(node)
        if cards is None or spec.NODE_CARDS not in annotations_of(node):
            continue
        if not (units if cards.mode == "ids" else slots):
            text = f"it describes {len(cards.cards)} cards and offers nothing: no device plugin is registered there"
            todo = f"start the device plugin, or remove the annotation {spec.NODE_CARDS} if sharing was removed from the node"
            yield Finding("error", "stale-annotation", f"node {name}", text, todo)
        elif (units, count) != (cards.units, len(cards.cards)):
            described_ones = f"its annotation describes {cards.units} on {len(cards.cards)}"
            text = f"it offers {units} units on {count} cards, {described_ones}"
            todo = "restart the node's device plugin; if the node has two of them, remove one"
            yield Finding("error", "capacity", f"node {name}", text, todo)


def unhealthy_cards(picture: Picture) -> Iterator[Finding]:
    """No card is unhealthy."""
    for name, node in picture.sharing_nodes.items():
        cards = cards_of(node)
        for card in cards.cards.values() if cards else ():
            if card.healthy:
                continue
            bound = picture.bound_pods.get(name, ())
            on_it = [name_of(pod) for pod in bound if card.index in (shares_or_none(pod) or ())]
            text = f"the card is unhealthy: {card.reason or 'no reason is given'}"
            text += f"; on it: {', '.join(on_it)}" if on_it else ""
            todo = "see docs/troubleshooting.md, GPUShareCardUnhealthy: repair the card, or replace it, and restart its pods"
            yield Finding("error", "unhealthy-card", f"node {name} card {card.index}", text, todo)


def over_booked(picture: Picture) -> Iterator[Finding]:
    """The pods of a card book no more memory than it has."""
    for name, node in picture.sharing_nodes.items():
        cards = cards_of(node)
        booked: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for pod in picture.bound_pods.get(name, ()):
            for index, units in (shares_or_none(pod) or {}).items():
                booked[index].append((name_of(pod), units))
        for index, parts in sorted(booked.items()):
            card = cards.cards.get(index) if cards else None
            total = sum(units for _, units in parts)
            if card is not None and total > card.units:
                pods = ", ".join(f"{pod} {units}" for pod, units in sorted(parts))
                text = f"its pods book {total} units, it has {card.units}: {pods}"
                todo = "delete a pod of the card; then find which program bound it without a look at the card"
                yield Finding("error", "over-booked", f"node {name} card {index}", text, todo)


def pod_annotations(picture: Picture) -> Iterator[Finding]:
    """The annotations of a bound pod are well formed, name a card of its node, and add up to its request."""
    nodes = picture.sharing_nodes
    for pod in picture.sharing_pods:
        node = nodes.get(pod["spec"].get("nodeName") or "")
        if node is not None and (faults := _faults(pod, cards_of(node))):
            todo = "delete the pod, so that it is scheduled again; only gpushare's programs write these annotations"
            yield Finding("error", "pod-annotations", f"pod {name_of(pod)}", "; ".join(faults), todo)


def forged(picture: Picture) -> Iterator[Finding]:
    """Only gpushare's programs wrote the annotations that name a pod's card."""
    for pod in picture.sharing_pods:
        present = [key for key in _OF_PROGRAMS if key in annotations_of(pod)]
        authors = {_author(pod, key) for key in present} - {""}
        if present and not pod["spec"].get("nodeName"):
            text = f"it is not bound, and has {', '.join(present)} already, which come with the binding"
        elif authors:
            text = f"{', '.join(present)}: written by {', '.join(sorted(authors))}"
        else:
            continue
        todo = "remove the annotations from the manifest of the pod, and delete the pod; the policies of our manifests refuse it"
        yield Finding("error", "forged-annotation", f"pod {name_of(pod)}", text, todo)


def bypassed(picture: Picture) -> Iterator[Finding]:
    """Each pod with card memory was bound by a scheduler that asked the extender."""
    nodes = picture.sharing_nodes
    for pod in picture.sharing_pods:
        node = pod["spec"].get("nodeName")
        if node not in nodes:
            continue
        has_card = names_card(pod)
        road = _road_past_the_scheduler(pod)
        if not road and has_card:
            continue
        chosen = "the device plugin chose its card" if has_card else "no card was chosen for it"
        text = f"it came to node {node} without the extender ({road or 'its scheduler does not ask the extender'}): {chosen}"
        todo = "let the scheduler place it: no nodeName in the manifest, and the extender in that scheduler's configuration"
        yield Finding("warning" if has_card else "error", "bypassed", f"pod {name_of(pod)}", text, todo)


def _faults(pod: Object, cards: Cards | None) -> list[str]:
    """Each annotation of a bound pod that is wrong in itself, or against the pod and its node."""
    annotations = annotations_of(pod)
    if not names_card(pod):
        return []
    asked = units_of(pod)
    shares = shares_or_none(pod)
    if shares is None:
        key = spec.POD_ALLOCATION if annotations.get(spec.POD_ALLOCATION) else spec.POD_INDEX
        return [f"{key} cannot be read: {annotations[key][:80]!r}"]
    faults = []
    unknown = sorted(set(shares) - set(cards.cards)) if cards is not None else []
    if unknown:
        faults.append(f"it names card {', '.join(map(str, unknown))}, which its node does not have")
    if sum(shares.values()) != asked:
        faults.append(f"its cards have {sum(shares.values())} units for it, it asks for {asked}")
    if annotations.get(spec.POD_UNITS, str(asked)) != str(asked):
        faults.append(f"{spec.POD_UNITS} is {annotations[spec.POD_UNITS][:80]!r}, it asks for {asked}")
    if annotations.get(spec.POD_ASSIGNED, "false") not in ("true", "false"):
        faults.append(f"{spec.POD_ASSIGNED} is {annotations[spec.POD_ASSIGNED][:80]!r}, neither true nor false")
    if not annotations.get(spec.POD_ASSUME_TIME, "0").isdigit():
        faults.append(f"{spec.POD_ASSUME_TIME} is {annotations[spec.POD_ASSUME_TIME][:80]!r}, no time")
    return faults


def _author(pod: Object, key: str) -> str:
    """The pod's author or a person, if one wrote the annotation; "" also if the API server does not show it.

    A Binding's annotations have no field manager. The entry with the containers is that of the pod's creation.
    """
    for entry in pod["metadata"].get("managedFields") or ():
        fields = entry.get("fieldsV1") or {}
        written = (fields.get("f:metadata") or {}).get("f:annotations") or {}
        if f"f:{key}" not in written:
            continue
        manager = str(entry.get("manager", ""))
        if "f:containers" in (fields.get("f:spec") or {}):
            return f"{manager}, which created the pod"
        if manager.startswith(_BY_HAND):
            return manager
    return ""


def _road_past_the_scheduler(pod: Object) -> str:
    """How a pod came to its node without a scheduler; "" if there is no sign of it."""
    if "kubernetes.io/config.mirror" in annotations_of(pod):
        return "a static pod"
    created: list[Mapping[str, Any]] = [
        (entry.get("fieldsV1") or {}).get("f:spec") or {} for entry in pod["metadata"].get("managedFields") or ()
    ]
    # The API server notes no field manager for the node of a Binding.
    return "its manifest has a nodeName" if any("f:nodeName" in fields for fields in created) else ""


RULES: Final[Mapping[str, Rule]] = {
    "cards annotation": cards_annotation,
    "capacity": capacity,
    "unhealthy cards": unhealthy_cards,
    "over-booked cards": over_booked,
    "pod annotations": pod_annotations,
    "forged annotations": forged,
    "pods without the extender": bypassed,
}
