"""Promises of clusters.embedded.controllers.desired."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded.controllers.actions import Create, Delete, Patch
from clusters.embedded.controllers.desired import (
    REVISION,
    daemon_set,
    deployment,
    replica_set,
    stateful_set,
    template_hash,
)

NUMBERS = itertools.count(1)
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def owner(kind: str, **spec: Any) -> dict[str, Any]:
    """A workload."""
    metadata = {"name": "w", "namespace": "d", "uid": f"uid-{kind}", "generation": 3}
    body = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body, "status": {}}


def pod(name: str, of: dict[str, Any], phase: str = "Running", **more: Any) -> dict[str, Any]:
    """A pod of a workload."""
    reference = {"uid": of["metadata"]["uid"], "kind": of["kind"], "name": "w", "controller": True}
    metadata = {
        "name": name,
        "namespace": "d",
        "uid": f"uid-{name}",
        "resourceVersion": str(next(NUMBERS)),
        "ownerReferences": [reference],
    }
    if more.get("leaving"):
        metadata["deletionTimestamp"] = "now"
    ready = "True" if phase == "Running" and more.get("ready", True) else "False"
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": metadata, "spec": more.get("spec", {}), "status": status}


def created(actions: list[Any]) -> list[dict[str, Any]]:
    """The pods that should be made."""
    return [action.manifest for action in actions if isinstance(action, Create)]


def deleted(actions: list[Any]) -> list[str]:
    """Names of what should go."""
    return [action.item["metadata"]["name"] for action in actions if isinstance(action, Delete)]


def status_of(actions: list[Any]) -> dict[str, Any]:
    """The status that should be written."""
    (found,) = (
        action.patch["status"] for action in actions if isinstance(action, Patch) and action.subresource == "status"
    )
    return dict(found)


@given(
    st.integers(0, 5), st.lists(st.sampled_from(["Running", "Pending", "Failed", "Succeeded", "leaving"]), max_size=6)
)
def test_a_replica_set_keeps_its_number_of_living_pods(wanted: int, phases: list[str]) -> None:
    """Ended and leaving pods do not count; never both more and fewer."""
    rs = owner("ReplicaSet", replicas=wanted)
    pods = [
        pod(f"p{i}", rs, "Running" if phase == "leaving" else phase, leaving=phase == "leaving")
        for i, phase in enumerate(phases)
    ]
    actions = replica_set(rs, pods)
    alive = sum(phase in ("Running", "Pending") for phase in phases)

    assert len(created(actions)) == max(wanted - alive, 0)
    assert len(deleted(actions)) == max(alive - wanted, 0)


def test_a_replica_set_drops_what_does_not_run_first() -> None:
    """Deleting a waiting pod ends no work."""
    rs = owner("ReplicaSet", replicas=1)

    assert deleted(replica_set(rs, [pod("runs", rs), pod("waits", rs, "Pending")])) == ["waits"]


def test_pods_of_others_do_not_count() -> None:
    """A pod with the same labels but another owner does not count."""
    rs, other = owner("ReplicaSet", replicas=1), owner("StatefulSet")

    assert len(created(replica_set(rs, [pod("theirs", other)]))) == 1


def test_a_status_is_written_only_where_it_differs() -> None:
    """A status that is right already is not written, because each write would cause another."""
    rs = owner("ReplicaSet", replicas=1)
    rs["status"] = status_of(replica_set(rs, [pod("a", rs)]))

    assert replica_set(rs, [pod("a", rs)]) == []


def test_a_deployment_makes_one_replica_set_per_template() -> None:
    """Named by the template's hash, which its pods carry."""
    (made,) = created(deployment(owner("Deployment", replicas=3), []))
    digest = template_hash(TEMPLATE)

    assert (made["metadata"]["name"], made["spec"]["replicas"]) == (f"w-{digest}", 3)
    assert made["spec"]["selector"]["matchLabels"] == {"app": "x", "pod-template-hash": digest}
    assert made["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] == digest


def sets_of(deploy: dict[str, Any], *replicas_and_ready: tuple[str, int, int]) -> list[dict[str, Any]]:
    """ReplicaSets of a deployment: name, wanted, ready."""
    made = []
    for name, replicas, ready in replicas_and_ready:
        one = pod(name, deploy)
        made.append({**one, "spec": {"replicas": replicas}, "status": {"replicas": replicas, "readyReplicas": ready}})
    return made


@pytest.mark.parametrize(("ready", "left"), [(0, 3), (1, 2), (3, 0)])
def test_an_old_replica_set_shrinks_as_the_new_one_gets_ready(ready: int, left: int) -> None:
    """The old ReplicaSet keeps the pods that the new one still lacks, so that never fewer are ready than wanted."""
    deploy = owner("Deployment", replicas=3)
    sets = sets_of(deploy, (f"w-{template_hash(TEMPLATE)}", 3, ready), ("w-old", 3, 3))
    specs = [one for one in deployment(deploy, sets) if isinstance(one, Patch) and not one.subresource]
    patches = {one.item["metadata"]["name"]: one.patch for one in specs}

    assert patches.get("w-old", {"spec": {"replicas": 3}}) == {"spec": {"replicas": left}}


def test_a_stateful_set_goes_in_order() -> None:
    """The next pod only when the one before is ready."""
    sts = owner("StatefulSet", replicas=3, serviceName="s")

    assert [made["metadata"]["name"] for made in created(stateful_set(sts, []))] == ["w-0"]
    assert created(stateful_set(sts, [pod("w-0", sts, "Pending")])) == []
    (made,) = created(stateful_set(sts, [pod("w-0", sts)]))
    assert (made["metadata"]["name"], made["spec"]["hostname"], made["spec"]["subdomain"]) == ("w-1", "w-1", "s")


def test_a_parallel_stateful_set_makes_all_at_once() -> None:
    """A StatefulSet with podManagementPolicy Parallel makes all missing pods at once."""
    sts = owner("StatefulSet", replicas=3, podManagementPolicy="Parallel")

    assert [made["metadata"]["name"] for made in created(stateful_set(sts, [pod("w-1", sts)]))] == ["w-0", "w-2"]


def test_a_name_is_not_given_again_before_its_pod_is_gone() -> None:
    """Two pods of one name cannot be; an ended one is taken away first."""
    sts = owner("StatefulSet", replicas=1)

    assert created(stateful_set(sts, [pod("w-0", sts, leaving=True)])) == []
    assert deleted(stateful_set(sts, [pod("w-0", sts, "Failed")])) == ["w-0"]


def test_a_stateful_set_shrinks_from_its_end() -> None:
    """One after the other, unless parallel."""
    sts = owner("StatefulSet", replicas=1)
    pods = [pod(f"w-{number}", sts) for number in range(3)]

    assert deleted(stateful_set(sts, pods)) == ["w-2"]
    assert deleted(stateful_set(owner("StatefulSet", replicas=1, podManagementPolicy="Parallel"), pods)) == [
        "w-2",
        "w-1",
    ]


def nodes(*names: str) -> list[dict[str, Any]]:
    """Nodes; those named gpu-… carry the label."""
    return [
        {"metadata": {"name": name, "labels": {"gpushare": "true"} if name.startswith("gpu") else {}}} for name in names
    ]


def test_a_daemon_set_has_one_pod_on_each_node_that_it_takes() -> None:
    """By its node selector, sent there through the scheduler; leftovers go."""
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"gpushare": "true"}}}  # type: ignore[dict-item]
    ds = owner("DaemonSet", template=template)
    first = daemon_set(ds, [], nodes("gpu-a", "gpu-b", "cpu"))
    made = created(first)
    targets = [
        one["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] for one in made
    ]

    assert [one["nodeSelectorTerms"][0]["matchFields"][0]["values"] for one in targets] == [["gpu-a"], ["gpu-b"]]
    there = [pod(f"p{i}", ds, spec=one["spec"]) for i, one in enumerate(made)]
    assert created(daemon_set(ds, there, nodes("gpu-a", "gpu-b"))) == []
    assert deleted(daemon_set(ds, there, nodes("gpu-a"))) == ["p1"]
    failed = [pod("p0", ds, "Failed", spec=made[0]["spec"])]
    again = daemon_set(ds, failed, nodes("gpu-a"))
    assert (deleted(again), len(created(again))) == (["p0"], 1)
    assert status_of(first)["desiredNumberScheduled"] == 2


def test_a_daemon_set_respects_taints_but_for_its_own() -> None:
    """A cordoned node gets its pod; a node with a stranger's taint gets none, and keeps the one that it has."""
    ds = owner("DaemonSet")
    cordoned, tainted = nodes("gpu-a", "gpu-b")
    cordoned["spec"] = {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}
    tainted["spec"] = {"taints": [{"key": "other", "effect": "NoSchedule"}]}
    (made,) = created(daemon_set(ds, [], [cordoned, tainted]))
    assert made["spec"]["affinity"]["nodeAffinity"]
    (there,) = [pod("p", ds, spec=one["spec"]) for one in created(daemon_set(ds, [], nodes("gpu-b")))]

    assert deleted(daemon_set(ds, [there], [cordoned, tainted])) == []


def revised(kind: str, **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A workload with a changed template, and two running pods of the template before."""
    old = owner(kind, replicas=2, updateStrategy={"type": "RollingUpdate", **more})
    made = (
        created(stateful_set({**old, "spec": {**old["spec"], "podManagementPolicy": "Parallel"}}, []))
        if kind == "StatefulSet"
        else created(daemon_set(old, [], nodes("gpu-a", "gpu-b")))
    )
    pods = [pod(f"w-{number}", old, spec=one["spec"]) for number, one in enumerate(made)]
    for one, body in zip(pods, made, strict=True):
        one["metadata"]["labels"] = body["metadata"]["labels"]
    template = {**TEMPLATE, "spec": {"containers": [{"name": "c", "image": "new"}]}}
    return {**old, "spec": {**old["spec"], "template": template}}, pods


def test_a_stateful_set_is_updated_from_its_end_one_at_a_time() -> None:
    """Down to the partition; nothing goes while another pod is not ready; OnDelete waits for a person."""
    sts, pods = revised("StatefulSet")
    assert deleted(stateful_set(sts, pods)) == ["w-1"]
    pods[0]["status"]["conditions"] = []
    assert deleted(stateful_set(sts, pods)) == []
    sts, pods = revised("StatefulSet", rollingUpdate={"partition": 2})
    assert deleted(stateful_set(sts, pods)) == []
    sts["spec"]["updateStrategy"] = {"type": "OnDelete"}
    assert deleted(stateful_set(sts, pods)) == []


def test_a_daemon_set_is_updated_one_node_at_a_time() -> None:
    """The first pod of the old template goes while the others run."""
    ds, pods = revised("DaemonSet")
    both = nodes("gpu-a", "gpu-b")
    assert deleted(daemon_set(ds, pods, both)) == ["w-0"]
    pods[1]["status"]["conditions"] = []

    assert deleted(daemon_set(ds, pods, both)) == []


def test_an_ordered_stateful_set_waits_for_the_pod_that_leaves() -> None:
    """The next one goes when the last is gone; ended pods beyond the end go too."""
    sts = owner("StatefulSet", replicas=0)
    assert deleted(stateful_set(sts, [pod("w-0", sts), pod("w-1", sts, leaving=True)])) == []

    assert deleted(stateful_set(sts, [pod("w-0", sts, "Failed")])) == ["w-0"]


def test_a_template_that_is_used_again_gets_the_next_number() -> None:
    """A template that is used again gets the next revision, as ``kubectl rollout history`` shows, and so does its Deployment."""
    deploy = owner("Deployment", replicas=1)
    used, other = sets_of(deploy, (f"w-{template_hash(TEMPLATE)}", 1, 1), ("w-old", 0, 0))
    for one, number in ((used, "1"), (other, "2")):
        one["metadata"]["annotations"] = {REVISION: number}
    numbers = {
        one.item["metadata"]["name"]: one.patch["metadata"]["annotations"][REVISION]
        for one in deployment(deploy, [used, other])
        if isinstance(one, Patch) and "metadata" in one.patch
    }
    assert numbers == {used["metadata"]["name"]: "3", deploy["metadata"]["name"]: "3"}


@pytest.mark.parametrize(("ready", "statuses"), [(4, ["True", "True"]), (2, ["False", "True"])])
def test_a_deployment_says_whether_enough_pods_are_there(ready: int, statuses: list[str]) -> None:
    """``kubectl wait --for=condition=Available`` ends."""
    deploy = owner("Deployment", replicas=4)
    sets = sets_of(deploy, (f"w-{template_hash(TEMPLATE)}", 4, ready))
    status = next(one.patch for one in deployment(deploy, sets) if isinstance(one, Patch) and one.subresource)
    assert [one["status"] for one in status["status"]["conditions"]] == statuses
