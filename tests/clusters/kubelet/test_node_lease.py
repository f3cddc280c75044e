from __future__ import annotations

import pytest

from clusters.api_client import ApiError
from clusters.kubelet.node_lease import NodeLease
from clusters.kubelet.timings import Timings
from tests.clusters.kubelet.kubelet_waiting import until

KEY = ("leases", "kube-node-lease", "n1")


@pytest.fixture
def lease(api) -> NodeLease:
    times = iter(range(1_700_000_000, 1_800_000_000))
    return NodeLease(api.client, "n1", Timings(heartbeat=0.0), lambda: float(next(times)))


async def test_a_lease_is_the_nodes_and_is_renewed(api, lease) -> None:
    """The node lifecycle controller takes a node for alive by it; it goes with its Node."""
    await api.put({"kind": "Node", "metadata": {"name": "n1", "uid": "uid-n1"}})
    await lease.renew()
    first = api.objects[KEY]
    await lease.renew()
    second = api.objects[KEY]

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

    assert KEY not in api.objects


async def test_a_lease_that_was_deleted_comes_back(kubelet, api) -> None:
    """So does one with an API server that was away."""
    await until(lambda: KEY in api.objects)


def test_a_node_is_alive_as_often_as_its_clock_says() -> None:
    """At ten times the speed both intervals are a tenth."""
    assert Timings().at_speed(10).heartbeat == 1.0
    assert Timings().at_speed(10).report == 30.0
