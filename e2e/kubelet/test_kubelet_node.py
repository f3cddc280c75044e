"""The Node object, its Lease, and logs: what the rest of a cluster sees of a kubelet."""

from __future__ import annotations

import asyncio

import pytest

from clusters.api.api_client import Object
from clusters.api.connection import Connection
from clusters.api.resources import LEASES, NODES, PODS
from clusters.api.waiting import eventually
from clusters.kubelet.machine import Timings
from clusters.provider import Cluster
from e2e.kubelet.node_under_test import NodeUnderTest
from e2e.kubelet.sample_plugin import healthy


def conditions(node: Object) -> dict[str, str]:
    return {one["type"]: one["status"] for one in node["status"].get("conditions") or ()}


@pytest.mark.parametrize("timings", [Timings().at_speed(50)], ids=["renewed five times a second"])
async def test_a_node_is_alive_and_ready(stage: NodeUnderTest) -> None:
    """A node has the conditions of a healthy kubelet, no taint, and a Lease of its own that is renewed."""
    pressures = dict.fromkeys(("MemoryPressure", "DiskPressure", "PIDPressure"), "False")

    def is_ready(node: Object) -> bool:
        # A device plugin may have added a condition of its own.
        has_these = {**pressures, "Ready": "True"}.items() <= conditions(node).items()
        return has_these and not node["spec"].get("taints")

    node = await eventually(lambda: stage.api.get(NODES, stage.node), is_ready, "the node is ready")
    lease = await eventually(
        lambda: stage.api.list(LEASES, "kube-node-lease", field_selector=f"metadata.name={stage.node}"), bool, "a lease"
    )
    spec = lease[0]["spec"]
    await eventually(
        lambda: stage.api.get(LEASES, stage.node, "kube-node-lease"),
        lambda found: str(found["spec"]["renewTime"]) > spec["renewTime"],
        "the lease is renewed",
    )
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == (stage.node, 40)
    (owner,) = lease[0]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Node", node["metadata"]["uid"])


@pytest.mark.stand_in_only("a Node created bare has not the labels by which a worker's own pods are placed")
async def test_a_re_created_node_is_taken_over(stage: NodeUnderTest) -> None:
    """A kubelet takes over a Node made again with its plugin's resources, and without an operator's."""
    await stage.serve(3)
    await stage.declare()
    await stage.api.delete(NODES, stage.node)
    await eventually(
        lambda: stage.api.list(NODES, field_selector=f"metadata.name={stage.node}"), lambda found: not found, "no node"
    )
    await stage.api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": stage.node}})

    await eventually(
        lambda: stage.api.get(NODES, stage.node), lambda node: conditions(node).get("Ready") == "True", "ready again"
    )
    await stage.counts(3, 3)
    assert stage.by_hand not in (await stage.api.get(NODES, stage.node))["status"]["capacity"]


@pytest.mark.promise("DP-022", "G3-14")
async def test_kubelet_without_checkpoint_gives_no_devices(stage: NodeUnderTest) -> None:
    """A kubelet without its checkpoint keeps the amounts and admits pods without devices until the plugin is back."""
    plugin = await stage.serve(3)
    await stage.declare()
    await stage.restart(lose_checkpoint=True)

    await stage.run("early", stage.container(devices=1))
    assert await stage.held() == {("early", "main"): set()}
    assert "IDS=" not in await stage.log("early")
    await stage.counts(3, 3)
    status = (await stage.api.get(NODES, stage.node))["status"]
    assert status["capacity"][stage.by_hand] == status["allocatable"][stage.by_hand] == "1"
    plugin.announce(healthy(4))
    await stage.plug(plugin)
    await stage.counts(4, 4)
    await stage.run("late", stage.container(devices=1))
    assert len(await stage.told_ids("late")) == 1


async def test_logs_as_kubectl_asks_for_them(stage: NodeUnderTest) -> None:
    """``logs`` with --tail, --since, --timestamps, --limit-bytes and --previous, through the API server."""
    script = "echo one; echo two; sleep 0.2; echo three; exit 1"
    await stage.create("p", stage.container(command=["sh", "-c", script]))
    await stage.restarts("p", 1)

    async def previous(**query: str) -> str:
        """The last run's log. While the next run ends, a real kubelet may already have removed the one that it names."""
        return await eventually(
            lambda: stage.log("p", previous="true", **query),
            lambda text: not text.startswith(("unable to retrieve", "failed to try resolving symlinks")),
            "the log of the previous run is there",
        )

    assert await previous() == "one\ntwo\nthree\n"
    assert await previous(tailLines="1") == "three\n"
    assert await previous(limitBytes="5") == "one\nt"
    assert await previous(sinceSeconds="3600") == "one\ntwo\nthree\n"
    assert await previous(sinceTime="2100-01-01T00:00:00Z") == ""
    times = [line.split(" ", 1)[0] for line in (await previous(timestamps="true")).splitlines()]
    assert times == sorted(times)
    assert all(len(time) == len("2026-01-01T00:00:00.000000000Z") and time.endswith("Z") for time in times)


async def test_a_log_is_followed_until_the_container_ends(stage: NodeUnderTest) -> None:
    """``logs -f``: lines come when they are written, and the answer ends with the container."""
    script = "echo begun; sleep 2; echo later; sleep 2; echo last"
    await stage.run("p", stage.container(command=["sh", "-c", script]), restartPolicy="Never")
    path = PODS.path(stage.namespace, "p", "log")
    async with stage.api.http.stream("GET", path, params={"follow": "true"}) as answer:
        lines = answer.lines()
        seen = [await anext(lines), await anext(lines)]
        assert (await stage.pod("p"))["status"]["phase"] == "Running"
        seen += [line async for line in lines]

    assert seen == [b"begun", b"later", b"last"]


@pytest.mark.stand_in_only("a real container has processes")
@pytest.mark.parametrize("verb", ["exec", "attach", "portforward"])
async def test_what_needs_a_process_is_refused(stage: NodeUnderTest, cluster: Cluster, verb: str) -> None:
    """A simulated container has none: the answer is a Status, and kubectl prints its message."""
    await stage.run("p", stage.container())
    upgrade = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}
    params = {"command": "ls", "stdout": "true"} if verb != "portforward" else {}
    # An API server closes the connection afterwards without notice: no other request should find it in a pool.
    async with asyncio.timeout(30), Connection.from_kubeconfig(cluster.kubeconfig) as http:
        answer = await http.request("POST", PODS.path(stage.namespace, "p", verb), params=params, headers=upgrade)

    assert answer.status_code == 501
    status = answer.json()
    assert (status["kind"], status["reason"]) == ("Status", "NotImplemented")
    assert "no process runs" in status["message"]
