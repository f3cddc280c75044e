"""Promises of the reading of manifests."""

from __future__ import annotations

from typing import Any

import pytest

from gpushare.errors import UsageError
from gpushare.kubectl_gpushare.core.manifest_pods import pods_of

NO_PODS = (
    "has no pods that a scheduler places; there are "
    "Pod, Deployment, ReplicaSet, ReplicationController, StatefulSet, Job, CronJob, List"
)
TEMPLATE = {"metadata": {"labels": {"a": "b"}, "annotations": None, "name": "x"}, "spec": {"containers": []}}


def made(kind: str, **spec: Any) -> dict[str, Any]:
    """An object of that kind."""
    return {"kind": kind, "metadata": {"name": "web", "namespace": "team"}, "spec": {"template": TEMPLATE, **spec}}


@pytest.mark.parametrize(
    ("document", "replicas"),
    [
        (made("Deployment", replicas=3), 3),
        (made("Deployment", replicas=0), 0),
        (made("StatefulSet"), 1),
        (made("ReplicaSet", replicas=2), 2),
        (made("Job", parallelism=4), 4),
        ({**made("CronJob"), "spec": {"jobTemplate": {"spec": {"template": TEMPLATE, "parallelism": 5}}}}, 5),
    ],
)
def test_the_pods_of_a_controller(document: dict[str, Any], replicas: int) -> None:
    """The template without its name, as often as the object says."""
    (found,) = pods_of([document])

    assert (found.title, found.namespace) == (f"{document['kind'].lower()}/web", "team")
    assert (found.replicas, found.pod["kind"], found.pod["spec"]) == (replicas, "Pod", {"containers": []})
    assert found.pod["metadata"] == {"labels": {"a": "b"}, "annotations": None}


def test_a_pod_and_a_list_and_nothing() -> None:
    """Each object of a list is one; an empty document is none."""
    pod = {"kind": "Pod", "metadata": {"generateName": "p-"}, "spec": {}}
    found = list(pods_of([None, {"kind": "List", "items": [pod, made("Deployment")]}, {"kind": "Pod"}]))

    assert [(one.title, one.namespace, one.replicas) for one in found] == [
        ("pod/p-", "", 1), ("deployment/web", "team", 1), ("pod/unnamed", "", 1),
    ]  # fmt: skip
    assert found[0].pod == {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("text", "a document of the manifest is no object of Kubernetes"),
        ({"kind": "Service", "metadata": {"name": "s"}}, f"service/s {NO_PODS}"),
        ({"metadata": {"name": "s"}}, f"/s {NO_PODS}"),
        (made("Deployment", replicas="3"), "deployment/web: replicas is no number of pods"),
        (made("Job", parallelism=-1), "job/web: parallelism is no number of pods"),
        ({"kind": "Pod", "spec": "x"}, "spec in the manifest is no map"),
    ],
)
def test_what_makes_no_pods_is_refused(document: Any, text: str) -> None:
    """The text names the object and the field."""
    with pytest.raises(UsageError) as refused:
        list(pods_of([document]))

    assert str(refused.value) == text
