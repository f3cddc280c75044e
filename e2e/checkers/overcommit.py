"""No card is booked beyond its units: in the API, in the extender's book, by the containers' variables, by the pods it serves."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from e2e import spec
from e2e.checkers import UnknownError
from e2e.checkers.pod_requests import units_of

# Units of each card of each node, by the index that annotations use.
Sizes = Mapping[str, Mapping[int, int]]


def is_over(pod: Mapping[str, Any]) -> bool:
    """Has the pod ended?"""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def booked_in_api(pods: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], int]:
    """Units that annotations of pods, bound and not ended, put on each (node, card)."""
    booked: dict[tuple[str, int], int] = defaultdict(int)
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and not is_over(pod):
            for index, units in shares_of(pod).items():
                booked[node, index] += units
    return dict(booked)


def shares_of(pod: Mapping[str, Any]) -> dict[int, int]:
    """Units that a pod's annotations put on each card: all on one, or on several by the multi-card annotation."""
    annotations = pod["metadata"].get("annotations") or {}
    several = annotations.get(spec.POD_ALLOCATION)
    if several:
        shares: dict[int, int] = defaultdict(int)
        for cards in json.loads(several).values():
            for index, units in cards.items():
                shares[int(index)] += int(units)
        return dict(shares)
    index = annotations.get(spec.POD_INDEX)
    return {} if index is None else {int(index): units_of(pod)}


def check_api(pods: Sequence[Mapping[str, Any]], sizes: Sizes) -> list[str]:
    """Cards that annotations over-book. Raises UnknownError when no pod is bound to a card."""
    booked = booked_in_api(pods)
    if not booked:
        raise UnknownError("no pod is bound to a card: nothing to judge")
    return [
        f"card {index} of {node}: {units} booked in the API, it has {sizes[node].get(index, 0)}"
        for (node, index), units in sorted(booked.items())
        if units > sizes[node].get(index, 0)
    ]


def check_inspect(inspect: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], sizes: Sizes) -> list[str]:
    """Where the extender's book is beyond a card, differs from the card's true size, or from the API's annotations."""
    findings = []
    booked = booked_in_api(pods)
    for node in inspect["nodes"]:
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
            index = int(given[spec.ENV_INDEX])
            told[node, index] += int(given[spec.ENV_CONTAINER_UNITS])
            if given[spec.ENV_VISIBLE] not in (uuids[node].get(index), str(index)):
                findings.append(f"{pod} on {node}: card {index}, but it sees {given[spec.ENV_VISIBLE]}")
    findings += [
        f"card {index} of {node}: containers were told {units} units, it has {sizes[node].get(index, 0)}"
        for (node, index), units in sorted(told.items())
        if units > sizes[node].get(index, 0)
    ]
    return findings
