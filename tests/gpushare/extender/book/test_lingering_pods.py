"""Promises of gpushare.extender.book.lingering_pods, in the cache and against the audit."""

from __future__ import annotations

import msgspec
import pytest

from gpushare.extender.book.audit_round import Round
from gpushare.extender.book.cache import SchedulerCache
from gpushare.manifests import Node, Pod

MEMORY, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"


def node(boot: str, version: int, name: str = "n") -> Node:
    """A node of one card with 15 units, in this boot."""
    status = {"capacity": {MEMORY: "15", COUNT: "1"}, "nodeInfo": {"bootID": boot}}
    return msgspec.convert({"metadata": {"name": name, "resourceVersion": str(version)}, "status": status}, Node)


def pod(version: object, phase: str = "Failed", *, kind: str = "containerStatuses", running: bool = True) -> Pod:
    """A pod with the whole card; its status shows a container."""
    document = {
        "metadata": {
            "name": "shut", "namespace": "ns", "uid": "shut", "resourceVersion": str(version),
            "annotations": {"ALIYUN_COM_GPU_MEM_IDX": "0"},
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"limits": {MEMORY: 15}}}]},
        "status": {"phase": phase, kind: [{"name": "c", "state": {"running" if running else "terminated": {}}}]},
    }  # fmt: skip
    return msgspec.convert(document, Pod)


def used(cache: SchedulerCache) -> int:
    """Units booked on the one card."""
    return cache.snapshot().nodes["n"].devices[0].used


@pytest.fixture
def cache() -> SchedulerCache:
    """A cache with the node in boot A, and a pod that lingers there."""
    cache = SchedulerCache()
    cache.set_node(node("A", 1))
    cache.set_pod(pod(2))
    return cache


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize("kind", ["containerStatuses", "initContainerStatuses"])
def test_next_boot_ends_a_lingering_pod(phase: str, kind: str) -> None:
    """A pod whose phase has ended keeps its card until the node reports another boot."""
    cache = SchedulerCache()
    cache.set_node(node("A", 1))
    cache.set_pod(pod(2, phase, kind=kind))
    cache.set_node(node("A", 3))
    assert used(cache) == 15
    cache.set_node(node("B", 4))
    assert used(cache) == 0
    cache.set_pod(pod(5, phase, kind=kind))
    assert used(cache) == 0, "a later event does not bring it back"


def test_a_boot_does_not_end_a_running_pod() -> None:
    """A pod of phase Running is started again by its kubelet, so it keeps its card."""
    cache = SchedulerCache()
    cache.set_node(node("A", 1))
    cache.set_pod(pod(2, "Running"))
    cache.set_node(node("B", 3))
    assert used(cache) == 15
    cache.set_pod(pod(4))
    cache.set_node(node("B", 5))
    assert used(cache) == 15, "its phase ended in boot B"
    cache.set_node(node("C", 6))
    assert used(cache) == 0


@pytest.mark.parametrize(
    "events",
    [
        pytest.param((node("A", 1), pod(5), node("B", 4), node("B", 6)), id="node-was-first"),
        pytest.param((node("", 1), pod(2), node("B", 3)), id="former-boot-unknown"),
        pytest.param((pod(2), node("B", 3)), id="node-unknown"),
        pytest.param((node("A", 1), pod("x"), node("B", 3)), id="version-is-no-number"),
        pytest.param((node("A", 1), pod(2), node("", 3)), id="next-boot-unknown"),
        pytest.param((node("A", 1), pod(2), node("B", 3, "other"), node("A", 4)), id="another-node"),
    ],
)
def test_a_doubtful_boot_ends_nothing(events: tuple[Node | Pod, ...]) -> None:
    """The pod keeps its card if its phase may have ended in the boot that the node reports now."""
    cache = SchedulerCache()
    for event in events:
        if isinstance(event, Node):
            cache.set_node(event)
        else:
            cache.set_pod(event)
    assert used(cache) == 15


def test_a_pod_without_running_containers_is_forgotten(cache: SchedulerCache) -> None:
    """A status that is corrected ends the pod immediately, and a pod that is gone leaves nothing behind."""
    cache.set_pod(pod(3, running=False))
    assert used(cache) == 0
    cache.remove_pod(pod(4).metadata)
    assert not cache.was_ended(pod(4))


def test_the_audit_accepts_an_end_by_boot(cache: SchedulerCache) -> None:
    """The API still shows running containers, and the audit finds no drift."""
    cache.set_node(node("B", 3))
    audit = Round(cache, lambda *_: False, frozenset())
    audit.see_node(node("B", 3))
    audit.see_pod(pod(2))
    assert audit.end() == []
    assert cache.was_ended(pod(2))
    cache.remove_pod(pod(2).metadata)
    assert not cache.was_ended(pod(2))


def test_a_restored_history_keeps_the_end(cache: SchedulerCache) -> None:
    """After a restore of etcd the list shows the pod once more; its processes are as gone as before."""
    cache.set_node(node("B", 3))
    cache.begin_anew()
    cache.set_pod(pod(2))
    assert used(cache) == 0


def test_only_the_newest_ends_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of ended pods stays bounded."""
    monkeypatch.setattr("gpushare.extender.book.lingering_pods._REMEMBERED", 0)
    cache = SchedulerCache()
    cache.set_node(node("A", 1))
    cache.set_pod(pod(2))
    cache.set_node(node("B", 3))
    assert not cache.was_ended(pod(2))
