"""Questions to an extender at rest: the rules that judge every run know the answers by the API alone. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from e2e.builders import NO_SCHEDULER, gpu_container, gpu_pod
from e2e.checkers.history import Object
from e2e.checkers.overcommit import Sizes, booked_in_api, holds_a_node

# The shapes of pods that are asked about, and the sets of victims that are proposed.
_SHAPES, _PROPOSALS = 12, 6


def fitting(rng: random.Random, pods: Sequence[Object], sizes: Sizes, slot: Mapping[str, Any]) -> Iterator[Object]:
    """Pods to filter: amounts just as large as what a card has left, or as a card, or a unit more, in several shapes.

    ``slot`` is what each container asks for beside its units.
    """
    booked = booked_in_api(pods)
    cards = {(node, card): units for node, of in sizes.items() for card, units in of.items()}
    edges = sorted({1, *cards.values(), *(units - booked.get(place, 0) for place, units in cards.items())})
    wanted = [units for edge in edges for units in (edge, edge + 1) if units > 0]
    for number, units in enumerate(rng.sample(wanted, min(len(wanted), _SHAPES))):
        yield _pod(rng, f"asked-{number}", units, slot)


def preempting(
    rng: random.Random, pods: Sequence[Object], sizes: Sizes, slot: Mapping[str, Any]
) -> Iterator[tuple[Object, dict[str, list[str]]]]:
    """Pods that would end others, each with the uids that a scheduler proposes on each node."""
    here = {node: [pod for pod in pods if holds_a_node(pod) and pod["spec"]["nodeName"] == node] for node in sizes}
    for number in range(_PROPOSALS):
        units = rng.choice([units for of in sizes.values() for units in of.values()])
        pod = _pod(rng, f"urgent-{number}", rng.choice([units, units // 2 + 1]), slot)
        pod["spec"]["priority"] = rng.choice([500, 2000])
        proposed = {}
        for node, on in here.items():
            lower = [one for one in on if one["spec"].get("priority", 0) < pod["spec"]["priority"]]
            if lower:
                proposed[node] = [one["metadata"]["uid"] for one in rng.sample(lower, rng.randint(1, len(lower)))]
        if proposed:
            yield pod, proposed


def _pod(rng: random.Random, name: str, units: int, slot: Mapping[str, Any]) -> Object:
    """A pod that needs these units at once: of one container, of two, or of an init container or a sidecar."""
    part = rng.randint(1, max(units // 2, 1))
    pod = gpu_pod(
        name, *rng.choice([[units], [units], [part, units - part] if part < units else [units]]), scheduler=NO_SCHEDULER
    )
    containers = pod["spec"]["containers"]
    shape = rng.choice(("plain", "init", "sidecar"))
    if shape == "init":
        # It has ended when the others start, so it needs nothing beside them.
        pod["spec"]["initContainers"] = [gpu_container("i0", part)]
    elif shape == "sidecar" and len(containers) > 1:
        pod["spec"]["initContainers"] = [containers.pop(0) | {"restartPolicy": "Always"}]
    for one in (*containers, *pod["spec"].get("initContainers", ())):
        one["resources"]["limits"] |= slot
    pod["metadata"]["namespace"] = "bursts"
    return pod
