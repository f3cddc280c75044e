"""Promises of clusters.embedded.controllers.jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded.controllers.actions import Create, Delete, Patch
from clusters.embedded.controllers.jobs import depends_on_time, job
from tests.clusters.embedded.controllers.test_desired import created, deleted, pod, status_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def owner(restart: str = "Never", status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A Job with its defaults, of one completion unless ``completions`` is None."""
    template = {"metadata": {"labels": {"of": "j"}}, "spec": {"restartPolicy": restart, "containers": [{"name": "c"}]}}
    body = {"completions": 1, "parallelism": 1, "backoffLimit": 6, "suspend": False, "template": template, **spec}
    body = {key: value for key, value in body.items() if value is not None}
    metadata = {"name": "w", "namespace": "d", "uid": "uid-Job", "generation": 1}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body, "status": status or {}}


def of(one: dict[str, Any], *phases: str, ended: int = 60, restarts: int = 0) -> list[dict[str, Any]]:
    """Pods of a Job; those that failed ended this number of seconds ago."""
    finished = (NOW - timedelta(seconds=ended)).strftime("%Y-%m-%dT%H:%M:%SZ")
    pods = []
    for number, phase in enumerate(phases):
        made = pod(f"p{number}", one, phase)
        state = {"terminated": {"finishedAt": finished}} if phase == "Failed" else {"running": {}}
        made["status"]["containerStatuses"] = [{"name": "c", "restartCount": restarts, "state": state}]
        pods.append(made)
    return pods


def met(actions: list[Any]) -> dict[str, str]:
    """The conditions that become true, with their reasons."""
    return {one["type"]: one["reason"] for one in status_of(actions)["conditions"] if one["status"] == "True"}


@pytest.mark.parametrize(
    ("spec", "phases", "new"),
    [
        ({}, [], 1),
        ({"completions": 5, "parallelism": 2}, ["Running"], 1),
        ({"completions": 5, "parallelism": 2}, ["Succeeded"] * 4, 1),
        ({"completions": 2, "parallelism": 5}, [], 2),
        ({"parallelism": 0}, [], 0),
        ({"completions": None, "parallelism": 3}, ["Running"], 2),
        ({"completions": None, "parallelism": 3}, ["Running", "Succeeded"], 0),
        ({}, ["Failed"], 1),
    ],
)
def test_so_many_pods_run_as_are_still_needed(spec: dict[str, Any], phases: list[str], new: int) -> None:
    """At most the parallelism, and no more than completions are missing; a work queue gets none after the first success."""
    one = owner(**spec)
    actions = job(one, of(one, *phases), NOW)

    assert len(created(actions)) == new
    for manifest in created(actions):
        assert manifest["metadata"]["generateName"] == "w-"
        assert manifest["metadata"]["labels"] == {"of": "j"}


def test_superfluous_pods_go() -> None:
    """After the parallelism was lowered, pods that are not ready first."""
    one = owner(completions=9, parallelism=1)
    pods = [pod("ready", one), pod("waits", one, "Pending")]

    assert deleted(job(one, pods, NOW)) == ["waits"]


@pytest.mark.parametrize(("spec", "phases"), [({}, ["Succeeded"]), ({"completions": None}, ["Succeeded", "Failed"])])
def test_enough_successes_complete_a_job(spec: dict[str, Any], phases: list[str]) -> None:
    """A completed job has the conditions, counts and end time that the real controller writes."""
    one = owner(**spec)
    actions = job(one, of(one, *phases), NOW)

    assert met(actions) == dict.fromkeys(("SuccessCriteriaMet", "Complete"), "CompletionsReached")
    assert status_of(actions)["completionTime"] == "2026-01-01T12:00:00Z"
    assert status_of(actions)["succeeded"] == 1


def test_a_success_stays_counted_when_its_pod_goes() -> None:
    """A pod that is deleted after its end is not run again."""
    one = owner(completions=2, status={"succeeded": 1, "startTime": "2026-01-01T11:00:00Z"})

    assert len(created(job(one, [], NOW))) == 1
    assert len(created(job(owner(completions=3, status={"succeeded": 1}, parallelism=9), [], NOW))) == 2


@pytest.mark.parametrize(
    ("restart", "limit", "phases", "restarts", "fails"),
    [
        ("Never", 0, ["Failed"], 0, True),
        ("Never", 1, ["Failed", "Running"], 0, False),
        ("Never", 1, ["Failed", "Failed", "Running"], 0, True),
        ("OnFailure", 1, ["Running"], 1, False),
        ("OnFailure", 1, ["Running"], 2, True),
    ],
)
def test_too_many_failures_end_a_job(restart: str, limit: int, phases: list[str], restarts: int, fails: bool) -> None:
    """Failed pods count, and with OnFailure restarts of containers; the pods that still run go."""
    one = owner(restart, backoffLimit=limit)
    actions = job(one, of(one, *phases, restarts=restarts), NOW)
    reasons = {} if not fails else dict.fromkeys(("FailureTarget", "Failed"), "BackoffLimitExceeded")

    assert (met(actions) if fails else status_of(actions).get("conditions", {})) == reasons
    assert deleted(actions) == ([f"p{at}" for at, phase in enumerate(phases) if phase == "Running"] if fails else [])


def test_a_deadline_ends_a_job() -> None:
    """Seconds after its start, whatever its pods do."""
    one = owner(activeDeadlineSeconds=60, status={"startTime": "2026-01-01T11:59:00Z"})
    actions = job(one, of(one, "Running"), NOW)

    assert met(actions) == dict.fromkeys(("FailureTarget", "Failed"), "DeadlineExceeded")
    assert deleted(actions) == ["p0"]
    assert not [one for one in job(one, of(one, "Running"), NOW - timedelta(seconds=1)) if isinstance(one, Delete)]


def test_an_ended_job_stays_until_its_time_is_over() -> None:
    """An ended job starts no pods, and is deleted only after the time that its author set, if any."""
    complete = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T11:59:00Z"}
    one = owner(ttlSecondsAfterFinished=60, status={"conditions": [complete]})

    assert job(one, [], NOW - timedelta(seconds=1)) == []
    assert deleted(job(one, [], NOW)) == ["w"]
    assert job(owner(status={"conditions": [complete]}), [], NOW) == []


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (owner(), False),
        (owner(activeDeadlineSeconds=5), True),
        (owner(status={"conditions": [{"type": "Failed", "status": "True"}]}), False),
        (owner(ttlSecondsAfterFinished=5, status={"conditions": [{"type": "Complete", "status": "True"}]}), True),
    ],
)
def test_only_some_jobs_are_looked_at_without_a_change(one: dict[str, Any], expected: bool) -> None:
    """A job is checked without a change only if it has a deadline or an end of life to come."""
    assert depends_on_time(one) is expected


@given(
    st.integers(0, 4),
    st.integers(0, 4),
    st.lists(st.sampled_from(["Running", "Pending", "Failed", "Succeeded"]), max_size=6),
)
def test_doing_it_leaves_nothing_to_do(completions: int, parallelism: int, phases: list[str]) -> None:
    """A write is asked for once: with it done, and the status written, the same picture asks for nothing."""
    one = owner(completions=completions, parallelism=parallelism)
    pods = of(one, *phases, ended=10_000)
    for _ in range(4):
        actions = job(one, pods, NOW)
        if not actions:
            break
        gone = set(deleted(actions))
        pods = [each for each in pods if each["metadata"]["name"] not in gone]
        pods += [pod(f"n{len(pods)}-{at}", one, "Pending") for at, _ in enumerate(created(actions))]
        for action in actions:
            if isinstance(action, Patch):
                merged = {**one["status"], **action.patch["status"]}
                one["status"] = {key: value for key, value in merged.items() if value is not None}
    assert not [action for action in job(one, pods, NOW) if isinstance(action, (Create, Delete))]
    assert job(one, pods, NOW) == []


def test_a_suspended_job_is_an_error() -> None:
    """A suspended job raises an error, because its pods would have to go and come back."""
    with pytest.raises(ValueError, match="suspended"):
        job(owner(suspend=True), [], NOW)
