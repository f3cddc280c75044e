"""Promises of gpushare.deviceplugin.node_pods."""

from __future__ import annotations

import msgspec

from gpushare.deviceplugin.node_pods import NodePods
from gpushare.manifests import ObjectMeta, Pod


def pod(uid: str, assumed: object = "", name: str | None = None) -> Pod:
    """A pod with an assume time."""
    annotations = {"ALIYUN_COM_GPU_MEM_ASSUME_TIME": str(assumed)}
    return msgspec.convert(
        {"metadata": {"uid": uid, "name": name or uid, "namespace": "d", "annotations": annotations}}, Pod
    )


def order(pods: NodePods) -> list[str]:
    """Uids, first bound first."""
    return [one.metadata.uid for one in pods.in_bind_order()]


def test_pods_keep_the_order_in_which_the_watch_showed_them() -> None:
    """An update does not move a pod, whatever its assume time."""
    pods = NodePods()
    for uid, assumed in (("b", 2), ("a", 1), ("b", 0)):
        pods.set(pod(uid, assumed))

    assert order(pods) == ["b", "a"]


def test_pods_seen_at_once_are_ordered_by_assume_time() -> None:
    """A fresh start knows no bind order; one without a time comes first."""
    pods = NodePods()
    pods.replace([pod("c", 30), pod("a", 10), pod("x", "odd"), pod("b", 20)])

    assert order(pods) == ["x", "a", "b", "c"]


def test_a_list_adds_the_new_at_the_end_and_drops_the_gone() -> None:
    """Who was known keeps his place."""
    pods = NodePods()
    pods.set(pod("b", 9))
    pods.set(pod("gone", 1))
    pods.replace([pod("a", 1), pod("b", 9)])

    assert order(pods) == ["b", "a"]


def test_removal_is_by_uid() -> None:
    """The late end of an old pod leaves the new one of its name."""
    pods = NodePods()
    pods.set(pod("old", name="web-0"))
    pods.set(pod("new", name="web-0"))
    pods.remove(ObjectMeta(name="web-0", namespace="d", uid="old"))

    found = pods.find("d", "web-0")
    assert found is not None
    assert (found.metadata.uid, pods.find("d", "other")) == ("new", None)


def test_of_two_pods_of_one_name_the_newest_is_found() -> None:
    """The old one's end was not seen yet."""
    pods = NodePods()
    pods.set(pod("old", name="web-0"))
    pods.set(pod("new", name="web-0"))

    found = pods.find("d", "web-0")
    assert found is not None
    assert found.metadata.uid == "new"
