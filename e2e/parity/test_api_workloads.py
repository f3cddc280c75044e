"""Workloads as the API server takes them: what is filled in, what is refused, what can change; and garbage.

The pods that controllers make of them are compared as users of kubectl see them (``kubectl_commands.yaml``).
"""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.waiting import eventually
from e2e.parity.parity_objects import config_map, container, got, made, maps, patched, place, pods, short
from e2e.parity.parity_requests import Cases, compare, each, get, merge, post, put
from e2e.parity.sides import Both, Side

_PLURALS = {
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
}


def template(**spec: Any) -> dict[str, Any]:
    """A template of pods."""
    return {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [container()], **spec}}


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    """A workload of pods that no node runs."""
    more = {"serviceName": "s"} if kind == "StatefulSet" else {}
    fields = {"selector": {"matchLabels": {"app": "w"}}, "template": template(), **more, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": fields}


def a_job(**spec: Any) -> dict[str, Any]:
    """A Job of one container that never restarts; ``spec`` is laid over its spec."""
    fields = {"template": {"spec": {"restartPolicy": "Never", "containers": [container()]}}, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "w"}, "spec": fields}


_EXTENDED = container(resources={"requests": {"aliyun.com/gpu-mem": "1"}})
_CASES: Cases = {kind: [post(plural, workload(kind))] for kind, plural in _PLURALS.items()}
# The fields that are filled in, and those that are refused, by the spec.
_JOBS: dict[str, dict[str, Any]] = {
    "plain": {},
    "completions": {"completions": 3},
    "parallelism": {"parallelism": 2},
    "labels": {"template": template(restartPolicy="OnFailure")},
}
_SENSELESS: dict[str, dict[str, Any]] = {
    "no selector": {"selector": None},
    "other selector": {"selector": {"matchLabels": {"other": "x"}}},
    "restart policy": {"template": template(restartPolicy="Never")},
    "extended resource": {"template": template(containers=[_EXTENDED])},
}
_SENSELESS_JOBS: dict[str, dict[str, Any]] = {
    "restart policy": {"template": template()},
    "parallelism": {"parallelism": -1},
    "no containers": {"template": template(restartPolicy="Never", containers=[])},
}
_CASES |= {f"a Job: {name}": [post("jobs", a_job(**spec))] for name, spec in _JOBS.items()}
_CASES |= {
    f"a senseless Deployment: {name}": [post("deployments", workload("Deployment", **spec), 422)]
    for name, spec in _SENSELESS.items()
}
_CASES |= {f"a senseless Job: {name}": [post("jobs", a_job(**spec), 422)] for name, spec in _SENSELESS_JOBS.items()}
_CASES["a Job's parallelism can change, its completions and template cannot"] = [
    post("jobs", a_job()),
    merge("jobs/w", {"spec": {"parallelism": 0}}),
    merge("jobs/w", {"spec": {"completions": 2}}, 422),
    merge("jobs/w", {"spec": {"template": {"spec": {"hostname": "h"}}}}, 422),
]
_CASES |= {
    f"the scale of a {kind} has its own path": [
        post(_PLURALS[kind], workload(kind, replicas=2)),
        get(f"{_PLURALS[kind]}/w/scale", shows={"spec": {"replicas": 2}}),
        merge(f"{_PLURALS[kind]}/w/scale", {"spec": {"replicas": 5}}, shows={"spec": {"replicas": 5}}),
        put(f"{_PLURALS[kind]}/w/scale", {"${object:1}": {}}, 409),
        get(f"{_PLURALS[kind]}/w", shows={"spec.replicas": 5}),
    ]
    for kind in ("Deployment", "ReplicaSet", "StatefulSet")
}


@each(_CASES)
async def test_what_becomes_of_a_workload(bare: Both, asks: list[Any]) -> None:
    """A workload is filled in, scaled and changed alike, and a senseless one refused with the path of each wrong field."""
    await compare(bare, *asks)


@pytest.mark.parametrize("kind", _PLURALS)
async def test_a_selector_does_not_change(bare: Both, kind: str) -> None:
    """A change of a workload's selector is 422, and one of its template is counted by the generation."""

    async def observe(side: Side) -> Any:
        path = place(side, _PLURALS[kind], root="/apis/apps/v1")
        await made(side, path, workload(kind))
        labels = {"app": "w", "more": "x"}
        patch = {"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}}
        refused = await patched(side, f"{path}/w", patch)
        causes = [[each["field"], each["reason"]] for each in refused.body.get("details", {}).get("causes", [])]
        change = {"spec": {"template": {"metadata": {"annotations": {"a": "1"}}}}}
        return [refused.code, causes, short(await patched(side, f"{path}/w", change))]

    code, _, changed = await bare.same(observe)
    assert (code, changed[0], changed[1]["metadata"]["generation"]) == (422, 200, 2)


async def test_how_a_job_fails(both: Both) -> None:
    """A Job fails with its last pod, with an equal status on both sides."""

    async def observe(side: Side) -> Any:
        path = place(side, "jobs", root="/apis/batch/v1")
        await made(side, path, a_job(backoffLimit=0))
        found = await eventually(lambda: got(side, pods(side)), lambda found: len(found["items"]) == 1, "a pod")
        await patched(
            side, pods(side, found["items"][0]["metadata"]["name"], "status"), {"status": {"phase": "Failed"}}
        )

        def has_failed(found: Any) -> bool:
            return any(each["type"] == "Failed" for each in found["status"].get("conditions", []))

        return (await eventually(lambda: got(side, f"{path}/w"), has_failed, "the Job fails", seconds=30))["status"]

    await both.same(observe)


async def test_an_object_without_its_owner_is_deleted(both: Both) -> None:
    """An object is deleted if no object with its owner's uid exists, even if one has the name."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("owner"))
        uid = "00000000-0000-4000-8000-000000000000"
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        await made(side, maps(side), config_map("child", ownerReferences=[reference]))
        gone = await eventually(
            lambda: side.call("GET", maps(side, "child")), lambda found: found.code == 404, "child gone", seconds=30
        )
        return [gone.code, (await side.call("GET", maps(side, "owner"))).code]

    assert await both.same(observe) == [404, 200]
