"""The chart's workers on simulated cards."""

import pytest

from clusters import MANIFESTS


@pytest.mark.gpu_nodes("t4x2", "none")
def test_workers_share_a_card_and_leave_an_unhealthy_one(gpu_cluster):
    """Workers share a card; once it is unhealthy, new ones get another."""
    gpu_cluster.apply(MANIFESTS)
    first, second = gpu_cluster.wait_running(selector="app=worker", count=2)
    card = gpu_cluster.card(first)
    assert gpu_cluster.card(second).uuid == card.uuid
    assert gpu_cluster.environment(first)["ALIYUN_COM_GPU_MEM_CONTAINER"] == "3"
    gpu_cluster.make_unhealthy(first["spec"]["nodeName"], card.index)
    gpu_cluster.delete_pod(first)
    gpu_cluster.delete_pod(second)
    pods = gpu_cluster.wait_running(selector="app=worker", count=2)
    assert card.uuid not in [gpu_cluster.card(pod).uuid for pod in pods]
