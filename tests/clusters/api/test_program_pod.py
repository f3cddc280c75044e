"""Promises of clusters.api.program_pod, against the embedded API server."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api import program_pod
from clusters.api.api_client import ApiClient
from clusters.api.resources import PODS

ACCOUNT = "kube-system/gpushare-device-plugin"


@pytest.fixture
async def api(api: ApiClient) -> ApiClient:
    """With the ServiceAccount."""
    metadata = {"name": "gpushare-device-plugin", "namespace": "kube-system"}
    await api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    return api


def daemon_pod(name: str, node: str, account: str = "gpushare-device-plugin") -> dict[str, Any]:
    """A pod as a DaemonSet makes it."""
    spec = {"serviceAccountName": account, "nodeName": node, "containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "kube-system"}, "spec": spec}


async def test_a_pod_of_the_account_on_the_node_is_found(api: ApiClient) -> None:
    """A pod of another node or another account is not one."""
    await api.create(daemon_pod("elsewhere", "n2"))
    await api.create(daemon_pod("of-another", "n1", "default"))
    assert await program_pod.find(api, ACCOUNT, "n1") == ""
    await api.create(daemon_pod("mine", "n1"))
    assert await program_pod.find(api, ACCOUNT, "n1") == "mine"
    assert await program_pod.ensure(api, ACCOUNT, "n1") == "mine"


async def test_a_pod_that_is_missing_is_created_once(api: ApiClient) -> None:
    """The pod is named like one of a DaemonSet, asks for nothing, and is created only once."""
    name = await program_pod.ensure(api, ACCOUNT, "n1")
    assert name.startswith("gpushare-device-plugin-ds-")
    assert await program_pod.ensure(api, ACCOUNT, "n1") == name
    (created,) = await api.list(PODS, "kube-system")
    assert created["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "0", "memory": "0"}}


async def test_a_pod_that_ends_is_replaced(api: ApiClient) -> None:
    """A pod that ends is replaced, because the token bound to it would end with it."""
    first = await program_pod.ensure(api, ACCOUNT, "n1")
    await api.delete(PODS, first, "kube-system", grace_seconds=30)
    second = await program_pod.ensure(api, ACCOUNT, "n1")
    await api.patch(PODS, second, {"status": {"phase": "Failed"}}, "kube-system", subresource="status")
    third = await program_pod.ensure(api, ACCOUNT, "n1")
    assert len({first, second, third}) == 3
