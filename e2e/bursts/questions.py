"""Questions to an extender at rest: the rules that judge every run know the answers by the API alone. Pure."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from e2e import spec
from e2e.builders import NO_SCHEDULER, gpu_container, gpu_pod
from e2e.bursts.burst_plan import NAMESPACES
from e2e.checkers.history import Object
from e2e.checkers.overcommit import Sizes, booked_in_api, holds_a_node
from e2e.checkers.pod_requests import units_of

# The shapes of pods that are asked about, and the sets of victims that are proposed.
_SHAPES, _PROPOSALS = 24, 16
# Texts of wishes; some make no sense.
_MODELS = ("T4", "t4, A100", " T4 ,H100", "A100-SXM4", "1080 ti", "H100", "-")
_UUIDS = ("GPU-0", "gpu-1,GPU-2", " GPU-2 , gpu-3", "GPU-3", "0")
_WISHES = {
    "policy": ("binpack", "spread", "spread", "fragmentation", "fast"),
    "card-model": _MODELS,
    "card-model-not": _MODELS,
    "card-uuid": _UUIDS,
    "card-uuid-not": _UUIDS,
    "same-card": ("one", "two", "no/name"),
    "split": ("whole", " whole ", "2,1", "0,3"),
    "card-modle": ("T4",),
}
# The names of wishes, the usual ones more often.
_NAMES = (*_WISHES, *(name for name in _WISHES if name != "card-modle"), "policy", "split", "split")


def asked(
    rng: random.Random, pods: Sequence[Object], sizes: Sizes, slot: Mapping[str, Any], claims: Collection[str]
) -> Iterator[tuple[str, str]]:
    """The verbs and bodies: which nodes have room, and, as it ``claims``, how good they are and which pods would have to end."""
    for pod in _fitting(rng, pods, sizes, slot):
        if "wishes" in claims and rng.random() < 0.6:
            pod["metadata"]["annotations"] = wishes(rng, units_of(pod))
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": [*sizes]})
        yield spec.FILTER, body
        if "prioritize" in claims:
            yield spec.PRIORITIZE, body
    for pod, proposed in _preempting(rng, pods, sizes, slot) if "preempt" in claims else ():
        if "wishes" in claims and rng.random() < 0.3:
            pod["metadata"]["annotations"] = wishes(rng, units_of(pod))
        victims = {node: {"Pods": [{"UID": uid} for uid in uids]} for node, uids in proposed.items()}
        question = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
        yield spec.PREEMPT, json.dumps(question)


def wishes(rng: random.Random, units: int) -> dict[str, str]:
    """One or two wishes of a pod that asks for these units."""
    part = rng.randint(1, max(units // 2, 1))
    texts = {**_WISHES, "split": (*_WISHES["split"], *(f"{part} , {units - part}", f"{units - part},{part}") * 3)}
    names = rng.choices(_NAMES, k=rng.choice((1, 1, 2)))
    return {f"gpushare.aliyun.com/{name}": rng.choice(texts[name]) for name in names}


def _fitting(rng: random.Random, pods: Sequence[Object], sizes: Sizes, slot: Mapping[str, Any]) -> Iterator[Object]:
    """Pods to filter: amounts just as large as what a card has left, or as a card, or a unit more, in several shapes.

    ``slot`` is what each container asks for beside its units.
    """
    booked = booked_in_api(pods)
    cards = {(node, card): units for node, of in sizes.items() for card, units in of.items()}
    edges = sorted({1, *cards.values(), *(units - booked.get(place, 0) for place, units in cards.items())})
    wanted = [units for edge in edges for units in (edge, edge + 1) if units > 0]
    for number, units in enumerate(rng.sample(wanted, min(len(wanted), _SHAPES))):
        yield _pod(rng, f"asked-{number}", units, slot, _namespace(pods))


def _namespace(pods: Sequence[Object]) -> str:
    return next((str(pod["metadata"]["namespace"]) for pod in pods), NAMESPACES[0])


def _preempting(
    rng: random.Random, pods: Sequence[Object], sizes: Sizes, slot: Mapping[str, Any]
) -> Iterator[tuple[Object, dict[str, list[str]]]]:
    """Pods that would end others, each with the uids that a scheduler proposes on each node."""
    here = {node: [pod for pod in pods if holds_a_node(pod) and pod["spec"]["nodeName"] == node] for node in sizes}
    for number in range(_PROPOSALS):
        units = rng.choice([units for of in sizes.values() for units in of.values()])
        pod = _pod(rng, f"urgent-{number}", rng.choice([units, units // 2 + 1]), slot, _namespace(pods))
        known = sorted({one["spec"].get("priority", 0) for on in here.values() for one in on})
        pod["spec"]["priority"] = rng.choice([500, 2000, 2000, rng.choice(known or [0])])
        proposed = {}
        for node, on in here.items():
            lower = [one for one in on if one["spec"].get("priority", 0) < pod["spec"]["priority"]]
            if lower:
                proposed[node] = [one["metadata"]["uid"] for one in rng.sample(lower, rng.randint(1, len(lower)))]
        if proposed:
            yield pod, proposed


def _pod(rng: random.Random, name: str, units: int, slot: Mapping[str, Any], namespace: str) -> Object:
    """A pod that needs these units together: in one container, in two, beside a sidecar, or in an init container beside one."""
    part = rng.randint(1, max(units // 2, 1))
    rest, sidecar = units - part, gpu_container("s0", part) | {"restartPolicy": "Always"}
    # An init container has ended when the others start, so it needs nothing beside them.
    shapes: list[tuple[list[int], list[dict[str, Any]]]] = [([units], []), ([units], [gpu_container("i0", part)])]
    if rest > 0:
        beside = gpu_container("i0", rest)
        shapes += [([part, rest], []), ([rest], [sidecar]), ([rng.randint(1, rest)], [sidecar, beside])]
    amounts, init = rng.choice(shapes)
    pod = gpu_pod(name, *amounts, scheduler=NO_SCHEDULER)
    pod["spec"]["initContainers"] = init
    for one in (*pod["spec"]["containers"], *init):
        one["resources"]["limits"] |= slot
    pod["metadata"]["namespace"] = namespace
    return pod
