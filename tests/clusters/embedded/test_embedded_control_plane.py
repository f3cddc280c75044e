"""The embedded cluster: a senseless pod stops no other, a page lists the kinds that are served, and a Job has a deadline."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import clusters.embedded
from clusters.api.api_client import ApiClient
from clusters.api.resources import ALL, NODES, PODS
from clusters.api.waiting import eventually
from clusters.embedded.controllers.desired import Action, Delete, Patch
from clusters.embedded.controllers.jobs import depends_on_time, job
from clusters.embedded.embedded_control_plane import EmbeddedControlPlane
from clusters.embedded.scheduling.configuration import API_VERSION, KIND


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


async def test_a_senseless_pod_stops_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The pod after one with an unknown operator is bound, and the log names its wishes that are not imitated."""
    control_plane = EmbeddedControlPlane(tmp_path)
    await control_plane.start(controllers=False)
    term = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"pods": "9"}}}
    try:
        async with ApiClient.from_kubeconfig(control_plane.kubeconfig) as api:
            await api.create(node)
            await api.patch(NODES, "n", {"spec": {"taints": None}})
            await control_plane.start_scheduler({"apiVersion": API_VERSION, "kind": KIND})
            await api.create(pod("broken", affinity=affinity))
            await api.create(pod("good"))

            async def look() -> dict[str, str]:
                return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in await api.list(PODS)}

            await eventually(look, lambda found: found == {"broken": "", "good": "n"}, "the good pod alone is bound")
            broken = await eventually(
                lambda: api.get(PODS, "broken", "default"), lambda one: "conditions" in one["status"], "a reason"
            )
    finally:
        await control_plane.stop()
    assert "'Near'" in broken["status"]["conditions"][0]["message"]
    assert "fields=['hostPort']" in caplog.text


PAGE = Path(clusters.embedded.__file__).parent / "README.md"


def test_the_page_lists_exactly_the_kinds_that_are_served() -> None:
    """Each row names kinds and the API versions that have all of them."""
    rows = [line.split("|")[1:3] for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    listed = {
        (version.strip(), kind.strip())
        for kinds, versions in rows
        for kind in kinds.split(",")
        for version in versions.split(",")
    }

    assert listed == {(resource.api_version, resource.kind) for resource in ALL}


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ONE_MINUTE_AGO = "2026-01-01T11:59:00Z"
COMPLETE = {"type": "Complete", "status": "True", "lastTransitionTime": ONE_MINUTE_AGO}


def owner(status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A Job of one completion, with its defaults."""
    template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}
    body = {"completions": 1, "parallelism": 1, "backoffLimit": 6, "suspend": False, "template": template, **spec}
    metadata = {"name": "w", "namespace": "d", "uid": "job"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body, "status": status}


def deleted(actions: list[Action]) -> list[str]:
    return [action.item["metadata"]["name"] for action in actions if isinstance(action, Delete)]


def test_a_deadline_ends_a_job() -> None:
    """A Job fails at its deadline, counted from its start, whatever its pods do."""
    one = owner({"startTime": ONE_MINUTE_AGO}, activeDeadlineSeconds=60)
    metadata = {
        "name": "p",
        "uid": "p",
        "ownerReferences": [{"uid": "job", "controller": True}],
        "resourceVersion": "1",
    }
    pods = [{"metadata": metadata, "status": {"phase": "Running"}}]
    actions = job(one, pods, NOW)
    (status,) = (action.patch["status"] for action in actions if isinstance(action, Patch))

    assert {each["reason"] for each in status["conditions"]} == {"DeadlineExceeded"}
    assert (deleted(actions), deleted(job(one, pods, NOW - SECOND))) == (["p"], [])
    assert depends_on_time(one)


def test_an_ended_job_stays_until_its_time_is_over() -> None:
    """An ended Job is deleted only after the time that its author set, if any."""
    one = owner({"conditions": [COMPLETE]}, ttlSecondsAfterFinished=60)

    assert (job(one, [], NOW - SECOND), deleted(job(one, [], NOW))) == ([], ["w"])
    assert job(owner({"conditions": [COMPLETE]}), [], NOW) == []
    assert not depends_on_time(owner({"conditions": [COMPLETE]}))
