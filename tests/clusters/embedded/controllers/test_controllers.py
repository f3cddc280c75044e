"""Promises of clusters.embedded.controllers.controllers, against the embedded API server over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from clusters.api.api_client import ApiClient
from clusters.api.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
)
from clusters.api.waiting import eventually
from clusters.embedded.controllers.controllers import Controllers, empty


@pytest.fixture
async def api(api: ApiClient) -> AsyncIterator[ApiClient]:
    """With the controllers beside it; no kubelet runs the pods."""
    controllers = Controllers(api, now=lambda: datetime.now(UTC))
    await controllers.start()
    yield api
    await controllers.stop()


def workload(kind: str, replicas: int) -> dict[str, Any]:
    """As users write it."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    if kind == "StatefulSet":
        spec |= {"serviceName": "x", "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": spec}


async def names(api: ApiClient) -> list[str]:
    """The pods that there are."""
    return sorted(pod["metadata"]["name"] for pod in await api.list(PODS))


async def test_a_deployment_gets_its_pods_and_scales_both_ways(api: ApiClient) -> None:
    """Through a ReplicaSet; never one too many on the way."""
    await api.create(workload("Deployment", 3))
    await eventually(lambda: names(api), lambda found: len(found) == 3, "three pods")
    await api.patch(DEPLOYMENTS, "w", {"spec": {"replicas": 1}}, "default")
    await eventually(lambda: names(api), lambda found: len(found) == 1, "one pod")
    await api.patch(DEPLOYMENTS, "w", {"spec": {"replicas": 2}}, "default")
    await eventually(lambda: names(api), lambda found: len(found) == 2, "two pods")

    assert len(await api.list(REPLICA_SETS)) == 1


async def test_what_a_deleted_deployment_owned_goes_with_it(api: ApiClient) -> None:
    """ReplicaSet and pods."""
    await api.create(workload("Deployment", 2))
    await eventually(lambda: names(api), lambda found: len(found) == 2, "two pods")
    await api.delete(DEPLOYMENTS, "w", "default")
    await eventually(lambda: names(api), lambda found: not found, "no pods")
    await eventually(lambda: api.list(REPLICA_SETS), lambda found: not found, "no replica sets")


async def test_a_pod_of_a_stateful_set_comes_back_under_its_name(api: ApiClient) -> None:
    """A deleted pod of a StatefulSet comes back under its name as another pod with a new uid."""
    await api.create(workload("StatefulSet", 2))
    await eventually(lambda: names(api), lambda found: found == ["w-0", "w-1"], "both pods")
    before = (await api.get(PODS, "w-0", "default"))["metadata"]["uid"]
    await api.delete(PODS, "w-0", "default")

    async def uid() -> str:
        pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await api.list(PODS)}
        return str(pods.get("w-0", before))

    await eventually(uid, lambda found: found != before, "another w-0")


async def test_a_namespace_of_the_same_name_keeps_its_content(api: ApiClient) -> None:
    """A controller that still knows the old namespace, because its watch is late, deletes nothing of the new one."""

    async def is_gone() -> bool:
        return "again" not in [one["metadata"]["name"] for one in await api.list(NAMESPACES)]

    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "again"}}
    old = await api.create(manifest)
    await api.delete(NAMESPACES, "again")
    await eventually(is_gone, bool, "the namespace is gone")
    await api.create(manifest)
    await api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "content"}}, "again")
    await empty(api, old)

    assert "content" in [one["metadata"]["name"] for one in await api.list(CONFIG_MAPS, "again")]


async def test_a_namespace_takes_everything_in_it_with_it(api: ApiClient) -> None:
    """Pods of workloads too, which are not made again."""
    await api.ensure_namespace("x")
    await api.create(workload("Deployment", 2), "x")
    await eventually(lambda: names(api), lambda found: len(found) == 2, "two pods")
    await api.delete(NAMESPACES, "x")
    listed = eventually(
        lambda: api.list(NAMESPACES), lambda found: "x" not in [one["metadata"]["name"] for one in found], "no x"
    )
    await listed

    assert await names(api) == []


@pytest.mark.parametrize(("policy", "left"), [("Foreground", 0), ("Background", 0), ("Orphan", 2)])
async def test_a_propagation_policy_is_obeyed(api: ApiClient, policy: str, left: int) -> None:
    """The propagation policy, as ``kubectl delete --cascade`` sends it, decides whether the pods go or stay without an owner."""
    await api.create(workload("StatefulSet", 2))
    await eventually(lambda: names(api), lambda found: len(found) == 2, "two pods")
    await api.request("DELETE", STATEFUL_SETS.path("default", "w"), body={"propagationPolicy": policy})
    await eventually(lambda: api.list(STATEFUL_SETS), lambda found: not found, "no stateful set")
    await eventually(lambda: names(api), lambda found: len(found) == left, f"{left} pods")

    assert [pod["metadata"].get("ownerReferences") for pod in await api.list(PODS)] in ([], [None, None], [[], []])


async def test_dependents_of_unfollowed_kinds_stay(api: ApiClient) -> None:
    """A pod that names an owner of an unknown kind is not garbage; one with an owner that is gone is."""
    reference = {"apiVersion": "example.com/v1", "kind": "Robot", "name": "r", "uid": "u"}
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}
    for name, owner in (("kept", reference), ("gone", gone)):
        metadata = {"name": name, "ownerReferences": [owner]}
        await api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    async def left() -> list[str]:
        return [item["metadata"]["name"] for item in await api.list(CONFIG_MAPS)]

    await eventually(left, lambda found: found == ["kept"], "only the one of the robot")


async def test_senseless_workload_does_not_stop_the_others(api: ApiClient) -> None:
    """A pod with a strange name that names a StatefulSet as its owner."""
    owner = await api.create(workload("StatefulSet", 0))
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": owner["metadata"]["uid"]}
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await api.create({**body, "metadata": {"name": "strange", "ownerReferences": [{**reference, "controller": True}]}})
    await api.create(workload("Deployment", 1))

    await eventually(lambda: names(api), lambda found: len(found) == 2, "the pod of the deployment")


async def test_many_refusals_hold_up_no_other_pod(api: ApiClient) -> None:
    """Hundreds of pods that a quota refuses: another namespace still gets its account."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    await api.create(quota)

    async def used() -> dict[str, str]:
        return dict((await api.get(RESOURCE_QUOTAS, "none", "default")).get("status", {}).get("used") or {})

    await eventually(used, lambda found: found == {"pods": "0"}, "the quota is counted")
    await api.create(workload("Deployment", 500))
    await eventually(lambda: api.list(REPLICA_SETS), bool, "pods are asked for")
    await api.ensure_namespace("late")

    await eventually(lambda: api.list(SERVICE_ACCOUNTS, "late"), bool, "late has its account", seconds=300)
    assert await names(api) == []
