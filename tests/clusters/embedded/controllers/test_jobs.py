"""The times of a Job: a comparison with the real controller cannot wait for them, or counts the ended pods otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from clusters.embedded.controllers.actions import Action, Delete, Patch
from clusters.embedded.controllers.jobs import depends_on_time, job

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
    """Names of what should go."""
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
