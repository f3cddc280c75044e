"""Promises of clusters.embedded.controllers.controllers, against the embedded API server over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clusters.api_client import ApiClient
from clusters.embedded.controllers.controllers import Controllers
from clusters.embedded.server import EmbeddedApi
from clusters.resources import DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS
from clusters.waiting import eventually


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiClient]:
    """A client of an embedded API server with the controllers beside it; nobody runs the pods."""
    server = EmbeddedApi()
    url = await server.start()
    (tmp_path / "kubeconfig").write_text(server.kubeconfig(url))
    async with ApiClient.from_kubeconfig(tmp_path / "kubeconfig") as client:
        controllers = Controllers(client)
        await controllers.start()
        yield client
        await controllers.stop()
    await server.stop()


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
    """As another pod: its uid is new."""
    await api.create(workload("StatefulSet", 2))
    await eventually(lambda: names(api), lambda found: found == ["w-0", "w-1"], "both pods")
    before = (await api.get(PODS, "w-0", "default"))["metadata"]["uid"]
    await api.delete(PODS, "w-0", "default")

    async def uid() -> str:
        pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await api.list(PODS)}
        return str(pods.get("w-0", before))

    await eventually(uid, lambda found: found != before, "another w-0")


async def test_a_failed_pod_is_replaced(api: ApiClient) -> None:
    """What an admission error needs."""
    await api.create(workload("StatefulSet", 1))
    await eventually(lambda: names(api), lambda found: found == ["w-0"], "the pod")
    before = (await api.get(PODS, "w-0", "default"))["metadata"]["uid"]
    await api.patch(PODS, "w-0", {"status": {"phase": "Failed"}}, "default", subresource="status")

    async def replaced() -> bool:
        pods = await api.list(PODS)
        return [pod["metadata"]["uid"] != before for pod in pods] == [True]

    await eventually(replaced, bool, "another pod")


async def test_the_status_counts(api: ApiClient) -> None:
    """What kubectl shows."""
    await api.create(workload("StatefulSet", 2))
    await eventually(
        lambda: api.get(STATEFUL_SETS, "w", "default"),
        lambda found: found["status"].get("replicas") == 2,
        "two replicas",
    )
