"""No card is booked beyond its units: in the API, in the extender's book, by the containers' variables, by the pods it serves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from e2e import spec
from e2e.checkers import UnknownError
from e2e.checkers.pod_requests import gpu_containers, units_of

# The annotations by which a pod has its card, or its cards.
_CARDS: Final = (spec.POD_INDEX, spec.POD_ALLOCATION)
# Units of each card of each node, by the index that annotations use.
Sizes = Mapping[str, Mapping[int, int]]


def is_over(pod: Mapping[str, Any]) -> bool:
    """Has the pod ended?"""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def booked_in_api(pods: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], int]:
    """Units that annotations of pods, bound and not ended, put on each (node, card), without those of ``unreadable``."""
    booked: dict[tuple[str, int], int] = defaultdict(int)
    for pod in pods:
        if holds_a_node(pod):
            for index, units in (shares_or_none(pod) or {}).items():
                booked[pod["spec"]["nodeName"], index] += units
    return dict(booked)


def holds_a_node(pod: Mapping[str, Any]) -> bool:
    """Is the pod bound, and has it not ended?"""
    return bool(pod["spec"].get("nodeName")) and not is_over(pod)


def shares_of(pod: Mapping[str, Any]) -> dict[int, int]:
    """Units that a pod's annotations put on each card: all on one, or on several by the multi-card annotation.

    Raises ValueError for annotations that cannot be read.
    """
    annotations = pod["metadata"].get("annotations") or {}
    several = annotations.get(spec.POD_ALLOCATION)
    if several:
        shares: dict[int, int] = defaultdict(int)
        for cards in msgspec.json.decode(several, type=dict[str, dict[int, int]]).values():
            for card, units in cards.items():
                shares[card] += units
        return dict(shares)
    index = annotations.get(spec.POD_INDEX)
    return {} if index is None else {int(index): units_of(pod)}


def shares_or_none(pod: Mapping[str, Any]) -> dict[int, int] | None:
    """The units of a pod on each card, by its annotations; None if they cannot be read."""
    try:
        return shares_of(pod)
    except (ValueError, TypeError, RecursionError):
        return None


def unreadable(pods: Sequence[Mapping[str, Any]]) -> list[str]:
    """Bound pods that ask for card memory, and whose annotations cannot be read."""
    return [
        f"{pod['metadata']['name']}: its annotations name no card: "
        f"{ {name: text for name, text in pod['metadata']['annotations'].items() if name in _CARDS} }"
        for pod in pods
        if holds_a_node(pod) and gpu_containers(pod) and shares_or_none(pod) is None
    ]


def check_api(pods: Sequence[Mapping[str, Any]], sizes: Sizes) -> list[str]:
    """Cards that annotations over-book, and annotations that cannot be read. Nodes without sizes are not judged.

    Raises UnknownError if no pod is bound to a card.
    """
    booked, findings = booked_in_api(pods), unreadable(pods)
    if not booked and not findings:
        raise UnknownError("no pod is bound to a card: nothing to judge")
    return findings + [
        f"card {index} of {node}: {units} booked in the API, it has {sizes[node].get(index, 0)}"
        for (node, index), units in sorted(booked.items())
        if node in sizes and units > sizes[node].get(index, 0)
    ]


def check_inspect(inspect: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], sizes: Sizes) -> list[str]:
    """Cards on which the extender's book differs from the true size or from the API's annotations; nodes that are gone."""
    findings = []
    booked = booked_in_api(pods)
    for node in inspect["nodes"]:
        if node["name"] not in sizes:
            findings.append(f"{node['name']}: is in the extender's book, and no Node has this name")
            continue
        for device in node["devs"]:
            card = f"card {device['id']} of {node['name']}"
            true_size = sizes[node["name"]].get(device["id"])
            if device["totalGPU"] != true_size:
                findings.append(f"{card}: the extender says {device['totalGPU']} units, it has {true_size}")
            if device["usedGPU"] > device["totalGPU"]:
                findings.append(f"{card}: {device['usedGPU']} of {device['totalGPU']} in the extender's book")
            in_api = booked.get((node["name"], device["id"]), 0)
            if device["usedGPU"] != in_api:
                findings.append(f"{card}: {device['usedGPU']} in the extender's book, {in_api} in the API")
    return findings


def check_containers(
    variables: Mapping[tuple[str, str], Sequence[Mapping[str, str]]],
    uuids: Mapping[str, Mapping[int, str]],
    sizes: Sizes,
) -> list[str]:
    """Cards that the variables of running containers over-book, and variables that name another card than they should.

    ``variables``: by (node, pod), one mapping a container. Raises UnknownError if no container printed any.
    """
    if not variables:
        raise UnknownError("no container told its variables: nothing to judge")
    told: dict[tuple[str, int], int] = defaultdict(int)
    findings = []
    for (node, pod), containers in variables.items():
        for given in containers:
            try:
                index, units = int(given[spec.ENV_INDEX]), int(given[spec.ENV_CONTAINER_UNITS])
            except (KeyError, ValueError) as error:
                findings.append(f"{pod} on {node}: its variables name no card and amount: {error}")
                continue
            told[node, index] += units
            if given.get(spec.ENV_VISIBLE) not in (uuids[node].get(index), str(index)):
                findings.append(f"{pod} on {node}: card {index}, but it sees {given.get(spec.ENV_VISIBLE)}")
    findings += [
        f"card {index} of {node}: containers were told {units} units, it has {sizes[node].get(index, 0)}"
        for (node, index), units in sorted(told.items())
        if units > sizes[node].get(index, 0)
    ]
    return findings
