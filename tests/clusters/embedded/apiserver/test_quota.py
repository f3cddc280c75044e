"""Promises of clusters.embedded.apiserver.quota: what pods of a namespace use together."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.resources import PODS, RESOURCE_QUOTAS
from clusters.embedded.apiserver import quota
from tests.clusters.embedded.apiserver.samples import new_writes, refused

MEMORY = "requests.aliyun.com/gpu-mem"


def container(name: str, requests: dict[str, str], **more: Any) -> dict[str, Any]:
    """A container that requests this amount."""
    return {"name": name, "image": "i:1", "resources": {"requests": requests, "limits": requests}, **more}


def pod(name: str = "p", *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod of these containers."""
    return {"metadata": {"name": name}, "spec": {"containers": list(containers), **spec}}


def gpu(amount: int, **more: Any) -> dict[str, Any]:
    """A container that wants GPU memory."""
    return container(f"c{amount}", {"aliyun.com/gpu-mem": str(amount)}, **more)


@pytest.mark.parametrize(
    ("pods", "used"),
    [
        ([], "0"),
        ([pod("a", gpu(1)), pod("b", gpu(2))], "3"),
        ([pod("a", gpu(1), gpu(2))], "3"),
        ([pod("a", gpu(1), initContainers=[gpu(5), gpu(4)])], "5"),
        ([pod("a", gpu(3), initContainers=[gpu(2, restartPolicy="Always"), gpu(4)])], "6"),
        ([pod("a", gpu(3), overhead={"aliyun.com/gpu-mem": "2"})], "5"),
        ([{**pod("a", gpu(3)), "status": {"phase": "Succeeded"}}, pod("b", gpu(1))], "1"),
    ],
    ids=range(7),
)
def test_pods_are_counted_as_the_scheduler_counts(pods: list[dict[str, Any]], used: str) -> None:
    """Containers add up, init containers run alone, sidecars beside; a pod that has ended uses nothing."""
    assert quota.written(quota.usage_of(pods, [MEMORY]))[MEMORY] == used


def test_names_of_cpu_and_memory() -> None:
    """A quota's names for cpu and memory work with and without "requests."."""
    one = [pod("a", container("c", {"cpu": "1500m", "memory": "1Gi"}))]
    names = ["pods", "cpu", "requests.cpu", "memory"]
    assert quota.written(quota.usage_of(one, names)) == {
        "pods": "1",
        "cpu": "1500m",
        "requests.cpu": "1500m",
        "memory": "1073741824",
    }


def test_a_pod_that_does_not_fit_is_refused() -> None:
    """The refusal names the amounts that the pod asks for, those in use and the quota's limits."""
    writes = new_writes()
    hard = {MEMORY: "4", "requests.cpu": "1"}
    writes.create(RESOURCE_QUOTAS, "default", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    fits = container("c", {"aliyun.com/gpu-mem": "3", "cpu": "1"})
    writes.create(PODS, "default", pod("a", fits))
    assert refused(403, lambda: writes.create(PODS, "default", pod("b", fits))).message == (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.aliyun.com/gpu-mem=3,requests.cpu=1, used: '
        "requests.aliyun.com/gpu-mem=3,requests.cpu=1, limited: requests.aliyun.com/gpu-mem=4,requests.cpu=1"
    )
    silent = refused(403, lambda: writes.create(PODS, "default", pod("c", gpu(1)))).message
    assert silent == 'pods "c" is forbidden: failed quota: q: must specify requests.cpu for: c1'
    writes.create(PODS, "kube-system", pod("b", fits))


def test_what_is_not_counted_is_refused() -> None:
    """A quota that would limit nothing must not look as if it did."""
    hard = {"services": "1", "limits.cpu": "1", "requests.example.com/x": "1", "pods": "1"}
    assert [error.field for error in quota.faults({"spec": {"hard": hard}})] == [
        "spec.hard[services]",
        "spec.hard[limits.cpu]",
    ]
