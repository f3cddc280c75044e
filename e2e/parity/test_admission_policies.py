"""The policy that we ship adds a slot to the same containers on both, from the same file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.api.resources import resource_of
from clusters.api.waiting import eventually
from e2e import spec
from e2e.parity.parity_objects import MEMORY, container, pod, pods
from e2e.parity.parity_requests import compare, get, post
from e2e.parity.sides import Both, Side

POLICY = Path(__file__).parents[2] / "clusters" / "deploy" / "components" / "slots" / "gpu-slot-policy.yaml"
SLOT = spec.RESOURCE_SLOT

# By their requests; the policy must look at each container alone.
_PODS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "other resources": {"containers": [container(resources={"limits": {"cpu": "1", "nvidia.com/gpu": "1"}})]},
    "memory": {"containers": [container(resources={"limits": {MEMORY: "3"}})]},
    "memory and requests": {"containers": [container(resources={"limits": {MEMORY: "3"}, "requests": {MEMORY: "3"}})]},
    "memory and cpu": {
        "containers": [container(resources={"limits": {MEMORY: "8138", "cpu": "2"}, "requests": {"cpu": "1"}})]
    },
    "some containers": {
        "containers": [
            container("a", resources={"limits": {MEMORY: "3"}}),
            container("b"),
            container("c", resources={"limits": {MEMORY: "20001"}}),
            container("d", resources={}),
        ]
    },
    "names its slot": {"containers": [container(resources={"limits": {MEMORY: "3", SLOT: "1"}})]},
    "names two": {"containers": [container(resources={"limits": {MEMORY: "3", SLOT: "2"}}), container("b")]},
    "a slot without memory": {"containers": [container(resources={"limits": {SLOT: "1"}})]},
    "init and sidecar": {
        "initContainers": [
            container("i", resources={"limits": {MEMORY: "5"}}),
            container("s", restartPolicy="Always", resources={"limits": {MEMORY: "1"}}),
            container("plain"),
        ],
        "containers": [container(resources={"limits": {MEMORY: "3"}})],
    },
    "init alone": {"initContainers": [container("i", resources={"limits": {MEMORY: "5"}})]},
    "requests alone": {"containers": [container(resources={"requests": {MEMORY: "3"}})]},
    "no whole number": {"containers": [container(resources={"limits": {MEMORY: "1.5"}})]},
}


def manifests() -> list[dict[str, Any]]:
    """The policy and its binding, as shipped."""
    return list(yaml.safe_load_all(POLICY.read_text()))


@asynccontextmanager
async def installed(side: Side) -> AsyncIterator[None]:
    """The policy at work; afterwards it is gone, and no longer at work."""
    answers = [await side.call("POST", resource_of(one).path(), body=one) for one in manifests()]
    try:
        if answers[0].code == 404:
            pytest.skip(f"{side.name} is older than 1.36 and has no MutatingAdmissionPolicy")
        await eventually(lambda: gets_slot(side), bool, f"{side.name}: the policy acts")
        yield
    finally:
        for one in manifests():
            await side.call("DELETE", resource_of(one).path(name=one["metadata"]["name"]))
        await eventually(lambda: gets_slot(side), lambda acts: not acts, f"{side.name}: the policy acts no more")


async def gets_slot(side: Side) -> bool:
    """Does a pod get a slot now?"""
    answer = await side.call("POST", pods(side), body=pod("probe", _PODS["memory"]), params={"dryRun": "All"})
    return answer.code == 201 and SLOT in answer.body["spec"]["containers"][0]["resources"]["limits"]


async def test_the_policy_as_shipped_adds_the_same_to_the_same_pods(bare: Both) -> None:
    """Each container that asks for card memory and names no slot gets one; the policy is kept alike, with the same defaults."""
    asks = [post("pods", pod(f"p{number}", fields), None) for number, fields in enumerate(_PODS.values())]
    reads = [get(resource_of(one).path(name=one["metadata"]["name"])) for one in manifests()]
    answers = await compare(bare, *asks, *reads, around=installed)
    (untouched,) = await compare(bare, post("pods", pod("after", _PODS["memory"])))
    slots = {
        what: [each["resources"].get("limits", {}).get(SLOT) for each in parts(body)]
        for what, body in zip(_PODS, answers, strict=False)
        if body["kind"] == "Pod"
    }
    assert slots["some containers"] == ["1", None, "1", None]
    assert slots["init and sidecar"] == ["1", "1", None, "1"]
    assert slots["names two"] == ["2", None]
    assert SLOT not in str(untouched)


def parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Init containers, then the others."""
    return [*body["spec"].get("initContainers", []), *body["spec"]["containers"]]
