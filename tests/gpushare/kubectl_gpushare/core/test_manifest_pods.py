"""Promises of the reading of manifests."""

from __future__ import annotations

from typing import Any

import pytest

from gpushare.errors import UsageError
from gpushare.kubectl_gpushare.core.manifest_pods import Manifest, PodsOfObject

TEMPLATE = {"metadata": {"labels": {"a": "b"}, "annotations": None, "name": "x"}, "spec": {"containers": []}}
POD = {"spec": {"containers": [{"name": "c"}]}}
SUSPENDED = "it is suspended: it makes no pod until it is resumed"


def made(kind: str, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """An object of that kind."""
    metadata = {"name": "web", "namespace": "team"}
    return {"kind": kind, "metadata": metadata, "spec": {"template": TEMPLATE, **spec}, "status": status or {}}


def cron_job(job: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A CronJob that makes Jobs of this spec."""
    return made("CronJob") | {"spec": {"jobTemplate": {"spec": {"template": TEMPLATE, **job}}, **spec}}


def read(*documents: Any) -> Manifest:
    """The objects of these documents."""
    manifest = Manifest()
    manifest.take(documents)
    return manifest


def only(document: Any) -> PodsOfObject:
    """The one workload of a document."""
    (found,) = read(document).workloads
    return found


@pytest.mark.parametrize(
    ("document", "replicas"),
    [
        (made("Deployment", replicas=3), 3),
        (made("Deployment", replicas=0), 0),
        (made("StatefulSet", podManagementPolicy="OrderedReady"), 1),
        (made("ReplicaSet", replicas=2), 2),
        (made("ReplicationController", replicas=2), 2),
        (made("Deployment", {"replicas": 2}, paused=True, replicas=2), 2),
        (made("Job"), 1),
        (made("Job", parallelism=4), 4),
        (made("Job", parallelism=4, completions=4), 4),
        (made("Job", completions=9), 1),
        (cron_job({"parallelism": 5}), 5),
    ],
)
def test_the_pods_of_a_controller(document: dict[str, Any], replicas: int) -> None:
    """The template without its name, as often as the object says."""
    found = only(document)

    assert (found.title, found.namespace) == (f"{document['kind'].lower()}/web", "team")
    assert (found.replicas, found.pod["kind"], found.pod["spec"]) == (replicas, "Pod", {"containers": []})
    assert found.pod["metadata"] == {"labels": {"a": "b"}, "annotations": None}


@pytest.mark.parametrize(
    ("spec", "status", "pods", "note"),
    [
        ({"parallelism": 20, "completions": 3}, {}, 3, ""),
        ({"parallelism": 9, "completions": 2, "completionMode": "Indexed"}, {}, 2, ""),
        ({"parallelism": 2, "completions": 9}, {}, 2, "2 at once, of 9"),
        ({"parallelism": 3, "completions": 0}, {}, 0, ""),
        ({"parallelism": 9, "completions": 10}, {"succeeded": 8}, 2, "2 of its 10 completions are left"),
        ({"parallelism": 9, "completions": 10}, {"succeeded": 12}, 0, "0 of its 10 completions are left"),
        (
            {"parallelism": 9, "completions": 10, "completionMode": "Indexed", "backoffLimitPerIndex": 1},
            {"succeeded": 2, "completedIndexes": "0,1", "failedIndexes": "2,4-6,x,9-7"},
            4,
            "4 of its 10 completions are left",
        ),
        ({"parallelism": 9}, {"succeeded": 1, "active": 2}, 2, "a pod of it has succeeded, so it makes no more"),
        ({"parallelism": 9}, {"active": 2}, 9, ""),
        ({"parallelism": 0, "completions": 3}, {}, 0, "it is paused: its parallelism is 0"),
        ({"parallelism": 3, "suspend": True}, {}, 0, SUSPENDED),
        ({"parallelism": 3}, {"conditions": [{"type": "Failed", "status": "True"}]}, 0, "it has finished"),
        ({"parallelism": 3}, {"conditions": [{"type": "Suspended", "status": "False"}, "x"]}, 3, ""),
    ],
)
def test_a_job_has_no_more_pods_than_are_left(spec: Any, status: Any, pods: int, note: str) -> None:
    """The number is the Job controller's: completions limit it, and so does what is done already."""
    found = only(made("Job", status, **spec))

    assert (found.replicas, found.note) == (pods, note)


@pytest.mark.parametrize(
    ("document", "pods", "note"),
    [
        (cron_job({"parallelism": 9}, suspend=True), 0, "it is suspended: it starts no Job until it is resumed"),
        (cron_job({"parallelism": 9, "suspend": True}), 0, f"{SUSPENDED}; the pods of one run; runs may overlap"),
        (cron_job({"parallelism": 9, "completions": 2}), 2, "the pods of one run; runs may overlap"),
        (cron_job({}, concurrencyPolicy="Forbid"), 1, "the pods of one run"),
        (made("Deployment", paused=True), 0, "it is paused: it makes no pod until it is resumed"),
        (made("DaemonSet") | {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, 0, "it is being deleted"),
        ({"kind": "PodTemplate", "template": POD}, 0, "a PodTemplate makes no pod by itself"),
        ({"kind": "Pod", **POD, "status": {"phase": "Failed"}}, 0, "it has ended"),
        (
            {"kind": "Pod", "metadata": {"uid": "u"}, "spec": {"nodeName": "a"}, "status": {"phase": "Running"}},
            0,
            "it is bound to node a already",
        ),
        ({"kind": "Pod", "spec": {"nodeName": "a"}}, 1, ""),
        ({"kind": "Pod", "metadata": {"uid": "u"}, **POD, "status": {"phase": "Pending"}}, 1, ""),
    ],
)
def test_what_makes_no_pod_now_says_why(document: Any, pods: int, note: str) -> None:
    """The object may be suspended, paused, ended or bound, or be one run of many."""
    found = only(document)

    assert (found.replicas, found.note) == (pods, note)


@pytest.mark.parametrize("on_host", [False, True])
def test_a_daemon_bears_what_its_controller_lets_it_bear(on_host: bool) -> None:
    """A pod of a DaemonSet comes to a cordoned node too, and on the host's network to one that has no network."""
    own = {"key": "own"}
    found = only(made("DaemonSet", template={"spec": {"hostNetwork": on_host, "tolerations": [own]}}))
    keys = [one["key"].partition("/")[2] for one in found.pod["spec"]["tolerations"][1:]]

    assert (found.on_each_node, found.pod["spec"]["tolerations"][0]) == (True, own)
    assert "unschedulable" in keys
    assert ("network-unavailable" in keys) is on_host


def test_a_pod_and_lists_and_nothing() -> None:
    """Each object of a list is one, also if only the list names its kind; an empty document is none."""
    pod = {"kind": "Pod", "metadata": {"generateName": "p-"}, "spec": {}}
    pods = {"kind": "PodList", "items": [{"metadata": {"name": "q"}, "spec": {}}]}
    found = read(None, {"kind": "List", "items": [pod, made("Deployment"), pods]}, {"kind": "List", "items": None})

    assert [(one.title, one.namespace, one.replicas) for one in found.workloads] == [
        ("pod/p-", "", 1), ("deployment/web", "team", 1), ("pod/q", "", 1),
    ]  # fmt: skip
    assert found.workloads[0].pod == {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}}


def test_objects_without_pods_are_passed_over() -> None:
    """They are named, and so are those of which only a foreign controller knows how many pods they make."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    workers = {"replicas": 3, "template": POD}
    training = {"kind": "PyTorchJob", "metadata": {"name": "t"}, "spec": {"pytorchReplicaSpecs": {"Worker": workers}}}
    volcano = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"tasks": [workers]}}
    found = read(service, {"kind": "Widget", "spec": {"containers": ["a"]}}, training, volcano, made("Deployment"))

    assert [one.title for one in found.workloads] == ["deployment/web"]
    assert found.passed_over == ["service/s", "widget/unnamed"]
    assert [one.partition(":")[0] for one in found.unjudged] == ["pytorchjob/t", "job/unnamed"]


def test_what_another_object_makes_is_counted_once() -> None:
    """A Deployment's ReplicaSet and pods are left out beside it; the running Job of a CronJob is not."""

    def owned(kind: str, uid: str, *owners: Any) -> dict[str, Any]:
        return {"kind": kind, "metadata": {"name": uid, "uid": uid, "ownerReferences": list(owners)}}

    found = read(
        owned("Pod", "p", "odd", {"uid": "n"}, {"uid": "rs", "controller": True}),
        owned("ReplicaSet", "rs", {"uid": "d", "kind": "Deployment", "controller": True}),
        owned("Deployment", "d"),
        owned("Job", "j", {"uid": "c", "kind": "CronJob", "controller": True}),
        owned("CronJob", "c"),
        owned("Pod", "q", {"uid": "elsewhere", "controller": True}),
        {"kind": "Pod", "metadata": {"name": "new"}},
    )
    found.drop_owned()

    assert [one.title for one in found.workloads] == ["deployment/d", "job/j", "cronjob/c", "pod/q", "pod/new"]


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("text", "a document of the manifest is no object of Kubernetes: it has no kind"),
        ({"metadata": {"name": "s"}}, "a document of the manifest is no object of Kubernetes: it has no kind"),
        ({"kind": "List", "items": "x"}, "items in the manifest is no list"),
        (made("Deployment", replicas="3"), "deployment/web: replicas is no number of pods"),
        (made("Deployment", replicas=True), "deployment/web: replicas is no number of pods"),
        (made("Job", parallelism=-1), "job/web: parallelism is no number of pods"),
        (made("Job", completions=1.5), "job/web: completions is no number of pods"),
        ({"kind": "Pod", "spec": "x"}, "spec in the manifest is no map"),
    ],
)
def test_what_is_no_object_is_refused(document: Any, text: str) -> None:
    """The text names the object and the field."""
    with pytest.raises(UsageError) as refused:
        read(document)

    assert str(refused.value) == text
