"""Promises of clusters.embedded.apiserver.pod_update_rules, through the writing verbs."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.resources import PODS
from tests.clusters.embedded.apiserver.samples import Object, new_writes, pod, refused

TOLERATION = {"key": "a", "operator": "Exists"}


def change(before: Object, **spec: Any) -> Any:
    """The result of a write that changes these fields of a pod's spec."""
    writes = new_writes()
    writes.create(PODS, "default", before)
    return writes.patch(PODS, "default", "p", lambda item: {**item, "spec": {**item["spec"], **spec}}).item


@pytest.mark.parametrize(
    ("before", "spec"),
    [
        (pod(), {"nodeName": "n"}),
        (pod(), {"nodeSelector": {"a": "b"}}),
        (pod(), {"schedulerName": "other"}),
        (pod(limits={"cpu": 1}), {"containers": pod(limits={"cpu": 2})["spec"]["containers"]}),
        (pod(), {"containers": [*pod()["spec"]["containers"], {"name": "more", "image": "i"}]}),
        (pod(tolerations=[TOLERATION]), {"tolerations": []}),
        (pod(), {"schedulingGates": [{"name": "g"}]}),
    ],
    ids=["node", "selector", "scheduler", "amount", "container", "toleration", "gate"],
)
def test_a_pods_spec_does_not_change(before: Object, spec: Object) -> None:
    """422, with a message."""
    assert "Forbidden" in refused(422, lambda: change(before, **spec)).message


def test_a_few_fields_do_change() -> None:
    """Images, the deadline, more tolerations; gates go, and while one is there the selector may change."""
    container = {**pod()["spec"]["containers"][0], "image": "new:2"}
    assert (
        change(pod(automountServiceAccountToken=False), containers=[container])["spec"]["containers"][0]["image"]
        == "new:2"
    )
    assert change(pod(), activeDeadlineSeconds=5)["spec"]["activeDeadlineSeconds"] == 5
    assert change(pod(), tolerations=[TOLERATION])["spec"]["tolerations"][0] == TOLERATION
    gated = pod(schedulingGates=[{"name": "g"}, {"name": "h"}])
    assert change(gated, schedulingGates=[{"name": "h"}], nodeSelector={"a": "b"})["spec"]["nodeSelector"] == {"a": "b"}
