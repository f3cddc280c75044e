"""Promises of gpushare.deviceplugin.core.node_pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from gpushare.bounds import TURNED_AWAY_PODS
from gpushare.deviceplugin.core.kept_pods import differences
from gpushare.deviceplugin.core.node_pods import NodePods
from gpushare.manifests import ObjectMeta, OwnerReference, Pod, PodOutline, PodSpec, PodStatus
from gpushare.model.allocation import Allocation
from tests.gpushare.deviceplugin.core.bound_pod import bound_pod

NODE = ObjectMeta("n", uid="uid-n")
OF_NODE = OwnerReference("Node", "n", "uid-n", controller=True)


def pod(
    uid: str, assumed: object = "", name: str = "", version: object = "", created: str | None = None, **more: str
) -> Pod:
    """A pod with an assume time, as of a version."""
    metadata = {"resourceVersion": str(version), "creationTimestamp": created}
    more["ALIYUN_COM_GPU_MEM_ASSUME_TIME"] = str(assumed)
    return bound_pod(uid, 2, None, name=name, metadata=metadata, **more)


def finished(uid: str, version: object, phase: str = "Failed") -> Pod:
    """A pod that has ended."""
    one = pod(uid, version=version)
    one.status = PodStatus(phase=phase)
    return one


def order(pods: NodePods) -> list[str]:
    """The names, in the order of admission; a version of a pod may have its own."""
    return [one.metadata.name for one in pods.in_admission_order()]


Shown = Callable[[NodePods], object]


def put(uid: str, assumed: object = "", **more: Any) -> Shown:
    """The watch shows a pod."""
    return lambda pods: pods.set(pod(uid, assumed, **more))


def ended(uid: str, version: object) -> Shown:
    """The watch shows a pod that has failed."""
    return lambda pods: pods.set(finished(uid, version))


def listed(*shown: Pod, version: str = "", since: int = 0) -> Shown:
    """A list of this version, which was asked for when that one was the newest."""
    return lambda pods: pods.replace(shown, version, since=since)


def gone(uid: str) -> Shown:
    """The watch shows the end of a pod."""
    return lambda pods: pods.remove(ObjectMeta(uid=uid))


HUGE, LAST = "9" * 5000, 2**64
AT_5, AT_9 = "2026-01-01T00:00:05Z", "2026-01-01T00:00:09Z"
# The pods that are shown, and the order of admission after it.
HISTORIES: dict[str, list[Shown | list[str]]] = {
    "an update does not move a pod, whatever its assume time, and a list adds new ones at the end": [
        put("b", 2), put("gone", 1), put("b", 0), ["b", "gone"], listed(pod("a", 1), pod("b", 9)), ["b", "a"],
    ],
    "by the versions of the bindings and not by assuming, whatever showed a pod first": [
        put("c", 1, version=30),
        listed(pod("a", 9, version=20), pod("b", 5, version=25), pod("c", 1, version=30), version="31"),
        ["a", "b", "c"],
    ],
    "a list shows a pod late, the watch then as it was bound": [
        listed(pod("a", version=29), pod("b", version=25), version="31"), ["b", "a"],
        put("a", version=20), ["a", "b"], put("a", version=40), ["a", "b"],
    ],
    "a time of thousands of digits, which int() refuses": [listed(pod("b", 20), pod("a", HUGE), version=HUGE), ["a", "b"]],
    "a list below the last version is of a restored state": [
        put("a", version=90), put("lost", version=95), put("ended", version=70), gone("ended"),
        listed(pod("a", version=7), pod("ended", version=6), version="8", since=95), ["a", "ended"],
        put("lost", version=9), ["a", "ended", "lost"], listed(version="1", since=9), [],
    ],
    "the first and the last version: an API server counts from 1 on, in 64 bits": [
        put("b", version=LAST - 1), put("a", version=LAST - 2), ["a", "b"], listed(version="1"), ["a", "b"],
    ],
    "an older version is not taken, whether a watch or a list shows it": [
        put("a", version=30, name="new"), put("a", version=20, name="old"), put("b", version=41),
        listed(pod("a", version=10, name="older"), version="40"), ["new", "b"],
    ],
    "what is gone stays gone": [
        put("a", version=1), gone("a"), listed(pod("a", version=1), version="1", since=1), [],
        put("b", version=2), listed(version="3"), put("b", version=2), [],
    ],
    "a list that was asked for before an event is no restore": [
        put("a", version=90), put("b", version=95), listed(pod("a", version=90), version="92", since=90), ["a", "b"],
        gone("b"), listed(pod("a", version=90), pod("b", version=95), since=95), ["a"],
    ],
    "after a restore lower versions count, and a pod that was seen to end exists again": [
        put("a", version=90), put("b", version=80), put("ended", version=70), put("lost", version=95), gone("ended"),
        NodePods.restart_history,
        put("b", version=8, name="restored"), put("ended", version=9), put("a", version=7), put("unversioned"),
        ["restored", "a", "lost", "unversioned", "ended"], gone("unversioned"),
        listed(*(pod(uid, version=version) for uid, version in (("a", 7), ("b", 8), ("ended", 9))), version="20"),
        ["restored", "a", "ended"],
    ],
    "what a kubelet finds at its start comes by age, in seconds, and before all that are bound later": [
        put("young", version=1, created=AT_9), put("b", version=2, created=AT_5), put("a", version=3, created=AT_5),
        put("timeless", version=4), NodePods.were_found,
        put("old", version=5, created="2025-01-01T00:00:00Z"), put("young", version=6, created=AT_9),
        ["timeless", "b", "a", "young", "old"], NodePods.were_found, ["timeless", "old", "b", "a", "young"],
    ],
    "the end of a pod at the first version is not final": [ended("c", 1), put("c", version=2), ["c"]],
    "a version that is no number is news whenever it comes, and an end at such a version stands": [
        put("a", version=5, name="first"), put("a", version="x", name="second"), ["second"],
        ended("a", 8), put("a", version=10), put("a", version="x", name="again"), ["again"],
        put("b", version=9), listed(pod("a", version="x"), version="x"), ["a"],
        ended("a", "x"), put("a", version=20), [],
    ],
}  # fmt: skip


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES.keys())
def test_pods_are_admitted_in_the_order_of_their_bindings(
    history: list[Shown | list[str]],
) -> None:
    """Whatever a watch and lists show, and in whatever order."""
    pods = NodePods()
    for step in history:
        if isinstance(step, list):
            assert order(pods) == step
        else:
            step(pods)


def test_ends_are_not_remembered_for_ever() -> None:
    """A thousand later ends of pods with cards push one out of memory."""
    pods = NodePods()
    for uid in "ab":
        pods.set(pod(uid, version=2))
        pods.remove(ObjectMeta(uid=uid))
    # Pods that were not kept push no remembered end out of memory, so that an author cannot make the plugin forget one.
    for number in range(1001):
        pods.remove(ObjectMeta(uid=str(number)))
    pods.replace([pod("b", version=2)], "2")
    assert order(pods) == []
    for number in range(1001):
        pods.set(pod(str(number)))
        pods.remove(ObjectMeta(uid=str(number)))
    pods.set(pod("a", version=2))
    assert order(pods) == ["a"]


def test_followers_get_the_changes() -> None:
    """A follower is called after each change, also that of an allocation by the kubelet's records, which counts then."""
    seen: list[int] = []
    pods = NodePods(lambda: seen.append(len(order(pods))))
    pods.set(pod("a"))
    pods.replace([pod("a"), pod("b")])
    pods.remove(ObjectMeta(uid="a"))
    pods.correct("b", Allocation(((1, 2),), 14))

    assert seen == [1, 2, 1, 1]
    kept = pods.by_uid("b")
    assert kept is not None
    assert kept.allocation is not None
    assert kept.allocation.shares == ((1, 2),)


def copy_of(uid: str, called: str, owner: OwnerReference | None, *, asks: bool = True) -> Pod:
    """A pod that is marked as the copy of a static pod, with the uid ``called``."""
    found = pod(uid, **{"kubernetes.io/config.mirror": called, "kubernetes.io/config.hash": called})
    found.metadata.owner_references = [owner] if owner else None
    if not asks:
        found.spec.containers = []
    return found


@pytest.mark.parametrize("asks", [True, False], ids=["asks for cards", "asks for none"])
def test_a_static_pod_is_found_by_its_kubelets_uid(asks: bool) -> None:
    """The API's copy has another, and an annotation that shows it; a later pod that says the same is not taken for it."""
    pods = NodePods()
    static, other = (copy_of(uid, "file", OF_NODE, asks=asks) for uid in ("api", "an author's"))
    pods.set(static)
    pods.set(other)

    assert {uid: one.uid for uid, one in pods.by_kubelet_uid(NODE).items()} == {"file": "api"} | {
        one: one for one in ("api", "an author's")
    }
    found = [pods.called(uid, NODE) for uid in ("api", "file", "other", "")]
    assert [one.metadata.uid if one else None for one in found] == (["api", "api", None, None] if asks else [None] * 4)


@pytest.mark.parametrize(
    ("called", "owner"),
    [
        ("victim", None),
        ("victim", replace(OF_NODE, controller=None)),
        ("victim", replace(OF_NODE, uid="another's")),
        ("victim", replace(OF_NODE, name="another")),
        ("victim", replace(OF_NODE, kind="ReplicaSet")),
        ("victim", OF_NODE),
        ("victim without cards", OF_NODE),
        ("file", None),
    ],
)
@pytest.mark.parametrize("is_first", [True, False], ids=["before it", "after it"])
def test_a_mark_takes_no_other_pods_place(called: str, owner: OwnerReference | None, is_first: bool) -> None:
    """An author may write the annotation of a static pod, and an owner, on any pod: a pod with the uid itself stays that pod."""
    pods = NodePods()
    victims = [pod("victim"), copy_of("victim without cards", "", None, asks=False), copy_of("api", "file", OF_NODE)]
    forged = [copy_of("forged", called, owner)]
    for one in forged + victims if is_first else victims + forged:
        pods.set(one)

    names = {"victim": "victim", "victim without cards": "victim without cards", "file": "api"}
    assert {uid: pods.by_kubelet_uid(NODE)[uid].uid for uid in names} == names
    found = {uid: pods.called(uid, NODE) for uid in names}
    assert {uid: one and one.metadata.uid for uid, one in found.items()} == names | {"victim without cards": None}


def test_pods_without_versions_are_ordered_by_assume_time() -> None:
    """A fresh start knows no bind order then; those without a time come first, by age and then by name."""
    pods = NodePods()
    young, old = (pod(uid, "odd", created=f"202{uid}-01-01T00:00:00Z") for uid in "65")
    bare = pod("x")
    bare.metadata.annotations = None
    pods.replace([pod("c", 30), young, pod("a", 10), old, pod("y", "odd"), bare, pod("b", 20)])

    assert order(pods) == ["x", "y", "5", "6", "a", "b", "c"]
    assert pods.newest == 0


def test_the_newest_of_one_name_is_found_and_removal_is_by_uid() -> None:
    """The late end of an old pod leaves the new one of its name."""
    pods = NodePods()
    for uid in ("old", "new"):
        pods.set(pod(uid, name="web-0", note="x"))
    for _ in range(2):
        found = pods.find("d", "web-0")
        assert found is not None
        assert (found.metadata.uid, pods.find("d", "other")) == ("new", None)
        assert "note" not in (found.metadata.annotations or {})
        pods.remove(ObjectMeta(name="web-0", namespace="d", uid="old"))
    assert [*pods.by_kubelet_uid(NODE)] == ["new"]


def test_a_pod_that_cannot_be_read_is_unknown_until_it_ends() -> None:
    """A pod that was never read is unknown until it is read, or gone; one that was read before stays as it was."""
    outline = PodOutline(pod("a").metadata, PodSpec(node_name="n"))
    for ends in (
        lambda pods: pods.remove(outline.metadata),
        lambda pods: pods.replace([], "9"),
        lambda pods: pods.set(pod("a", version=8)),
    ):
        pods = NodePods()
        pods.replace([outline], "7")
        assert not pods.are_known
        ends(pods)
        assert pods.are_known

    pods = NodePods()
    pods.set(pod("a"))
    pods.set(outline)
    assert (pods.are_known, order(pods)) == (True, ["a"])
    pods.remove(outline.metadata)
    pods.set(outline)
    assert pods.are_known


def test_a_pod_that_has_ended_is_kept_only_if_it_failed() -> None:
    """A pod that has ended is kept only if it failed, and its end stands unless a later version shows that it goes on."""
    pods = NodePods()
    pods.set(pod("a", version=5))
    pods.set(pod("b", version=6))
    pods.set(finished("a", 8))
    pods.set(finished("b", 9, "Succeeded"))
    pods.set(pod("a", version=7))
    pods.set(pod("a", version=8))
    (failed,) = pods.turned_away()
    assert (order(pods), failed.metadata.uid, failed.metadata.annotations) == ([], "a", None)
    assert (failed.spec, failed.status) == (finished("a", 8).spec, PodStatus(phase="Failed"))
    pods.set(pod("a", version=10))
    assert (order(pods), [*pods.by_kubelet_uid(NODE)]) == (["a"], ["a"])
    pods.remove(ObjectMeta(uid="a"))
    pods.set(finished("a", 12))
    assert (order(pods), pods.turned_away()) == ([], ())


def test_a_list_ends_what_it_does_not_show() -> None:
    """A list without ended pods proves nothing about those that were turned away; one of the same version shows all."""
    pods = NodePods()
    other = pod("other", version=3)
    other.spec.containers = []
    for one in (other, finished("failed", 4)):
        pods.set(one)
    pods.replace([], "9", without_ended=True)
    assert (pods.by_kubelet_uid(NODE), len(pods.turned_away())) == ({}, 1)
    pods.set(pod("a", version=9))
    pods.replace([], "9")
    assert (order(pods), pods.turned_away()) == ([], ())


def test_a_write_counts_though_the_watch_showed_more() -> None:
    """The plugin's own write counts although the watch already showed a later write of the author."""
    index = "ALIYUN_COM_GPU_MEM_IDX"
    pods = NodePods()
    pods.set(pod("a", 1, version=5, **{index: "0"}))
    pods.expect("a", {index: "1"})
    pods.set(pod("a", 1, version=9, **{index: "2"}))
    pods.wrote(pod("a", 1, version=8, **{index: "1"}))
    (known,) = pods.in_admission_order()
    assert ((known.metadata.annotations or {})[index], differences(known)[index]) == ("1", "1")
    pods.remove(ObjectMeta(uid="a"))
    pods.expect("a", {index: "3"})
    pods.wrote(pod("a", version=10))
    assert order(pods) == []


def test_write_on_a_pod_of_a_lost_history_conflicts() -> None:
    """An API server takes its version for one that no object has now, and not for a text that makes no sense."""
    pods = NodePods()
    pods.set(pod("a", version=30))
    pods.restart_history()
    (kept,) = pods.in_admission_order()
    assert pods.newest == 0

    # A cluster's first write is of version 2.
    assert int(kept.metadata.resource_version) == 1
    pods.set(pod("a", version=2, name="later"))
    assert [one.metadata.name for one in pods.in_admission_order()] == ["later"]


def test_the_newest_of_the_failed_pods_are_remembered() -> None:
    """However many fail."""
    pods = NodePods()
    for number in range(TURNED_AWAY_PODS.most + 1):
        pods.set(finished(str(number), number + 1))

    failed = [one.metadata.uid for one in pods.turned_away()]
    assert failed == [str(number) for number in range(1, TURNED_AWAY_PODS.most + 1)]
