from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from clusters.kubelet.kubelet_devices import Count
from clusters.kubelet.kubelet_node_status import NodeStatus, difference, resources_of
from clusters.kubelet.machine import Machine
from clusters.kubelet.timings import Timings
from tests.clusters.kubelet.kubelet_waiting import until

R = "example.com/slice"


def test_devices_are_the_kubelets_other_amounts_the_operators() -> None:
    """The kubelet overwrites its devices' amounts and keeps the rest."""
    capacity, allocatable = resources_of(Machine("n1"), {R: Count(9, 4)}, {R: "77", "aliyun.com/gpu-count": "2"})

    assert (capacity[R], allocatable[R]) == ("9", "4")
    assert (capacity["aliyun.com/gpu-count"], allocatable["aliyun.com/gpu-count"]) == ("2", "2")


def test_only_what_differs_is_written() -> None:
    """The same amount in another notation is no difference; what has no capacity is taken away."""
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
    api.answers_patches.clear()

    counts[R] = Count(9, 4)
    node.changed()
    await until(lambda: api.node()["status"]["allocatable"][R] == "4", "the old Node's status")
    await api.client.request("DELETE", "/api/v1/nodes/n1", body={})
    await api.put(
        {"kind": "Node", "metadata": {"name": "n1", "uid": "another"}, "status": {"capacity": {"odd.com/x": "1"}}}
    )
    await until(lambda: "odd.com/x" in node.allocatable, "the kubelet sees the new Node")
    api.answers_patches.set()

    await until(lambda: api.node()["status"].get("allocatable", {}).get(R) == "4", "the new Node's status")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
