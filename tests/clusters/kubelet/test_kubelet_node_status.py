"""The node status that the simulated kubelet writes."""

from __future__ import annotations

import asyncio
import copy
import time
from dataclasses import replace

import pytest

from clusters.api.api_client import ApiError
from clusters.kubelet.kubelet_devices import Count
from clusters.kubelet.kubelet_node_status import NodeLease, NodeStatus, difference, resources_of
from clusters.kubelet.machine import Machine
from clusters.kubelet.timings import Timings
from tests.servers import until

R = "example.com/slice"


def test_devices_are_the_kubelets_other_amounts_the_operators() -> None:
    """The kubelet overwrites its devices' amounts and keeps the rest."""
    capacity, allocatable = resources_of(Machine("n1"), {R: Count(9, 4)}, {R: "77", "aliyun.com/gpu-count": "2"})

    assert (capacity[R], allocatable[R]) == ("9", "4")
    assert (capacity["aliyun.com/gpu-count"], allocatable["aliyun.com/gpu-count"]) == ("2", "2")


def test_only_what_differs_is_written() -> None:
    """An equal amount in another notation is no difference, and an amount without a capacity is removed."""
    wanted = ({"memory": "1Gi", R: "2"}, {"memory": "1Gi", R: "1"})
    status = {"capacity": {"memory": "1024Mi", R: "2"}, "allocatable": {"memory": "1Gi", R: "2", "odd.com/x": "1"}}

    assert difference(status, wanted) == {"allocatable": {R: "1", "odd.com/x": None}}
    assert difference({"capacity": wanted[0], "allocatable": wanted[1]}, wanted) == {}


async def test_late_answer_does_not_count_for_a_re_created_node(api) -> None:
    """Writes to the old Node do not count for the new one, which must get all of its status."""
    counts = {R: Count(9, 9)}
    node = NodeStatus(api.client, Machine("n1"), lambda: counts, replace(Timings(), node_sync=0.0), time.time)
    await node.register(10250, is_new_machine=False)
    tasks = [asyncio.create_task(node.follow()), asyncio.create_task(node.run())]
    api.fault = lambda method, path: "late" if method == "PATCH" else None

    counts[R] = Count(9, 4)
    node.changed()
    await until(lambda: api.nodes[0]["status"]["allocatable"][R] == "4", "the old Node's status")
    await api.client.request("DELETE", "/api/v1/nodes/n1", body={})
    api.put({"kind": "Node", "metadata": {"name": "n1", "uid": "another"}, "status": {"capacity": {"odd.com/x": "1"}}})
    await until(lambda: "odd.com/x" in node.allocatable, "the kubelet sees the new Node")
    api.released.set()

    await until(lambda: api.nodes[0]["status"].get("allocatable", {}).get(R) == "4", "the new Node's status")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


LEASE = ("leases", "n1", "kube-node-lease")


@pytest.fixture
def lease(api) -> NodeLease:
    times = iter(range(1_700_000_000, 1_800_000_000))
    return NodeLease(api.client, "n1", Timings(heartbeat=0.0), lambda: float(next(times)))


async def test_a_lease_is_the_nodes_and_is_renewed(api, lease) -> None:
    """The node lifecycle controller takes a node for alive by it; it goes with its Node."""
    api.put({"kind": "Node", "metadata": {"name": "n1", "uid": "uid-n1"}})
    await lease.renew()
    first = copy.deepcopy(api.find(*LEASE))
    await lease.renew()
    second = api.find(*LEASE)

    assert first["spec"] == {
        "holderIdentity": "n1",
        "leaseDurationSeconds": 40,
        "renewTime": "2023-11-14T22:13:21.000000Z",
    }
    assert first["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-n1"}]
    assert second["spec"]["renewTime"] > first["spec"]["renewTime"]


async def test_without_a_node_there_is_no_lease(api, lease) -> None:
    """A lease without its owner is not created."""
    with pytest.raises(ApiError):
        await lease.renew()

    assert api.find(*LEASE) is None


async def test_a_missing_lease_is_written(kubelet, api) -> None:
    """A running kubelet writes the node's lease if it is missing."""
    await until(lambda: api.find(*LEASE))


def test_a_node_is_alive_as_often_as_its_clock_says() -> None:
    """At ten times the speed both intervals are a tenth."""
    assert Timings().at_speed(10).heartbeat == 1.0
    assert Timings().at_speed(10).report == 30.0
