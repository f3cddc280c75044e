"""Jobs, as far as users of kubectl rely on them: what is filled in, what is refused, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.parity.parity_objects import container, got, made, patched, place, pods
from e2e.parity.parity_requests import compare, merge, post
from e2e.parity.sides import Both, Side
from e2e.parity.test_api_workloads import listed, reached


def a_job(**spec: Any) -> dict[str, Any]:
    """A Job of one container that never restarts; ``spec`` is laid over its spec."""
    template = {"spec": {"restartPolicy": "Never", "containers": [container()]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template, **spec}}


def path_of(side: Side, name: str = "", subresource: str = "") -> str:
    """The Jobs of the case."""
    return place(side, "jobs", name, subresource, root="/apis/batch/v1")


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"completions": 3},
        {"parallelism": 2},
        {"completions": 3, "parallelism": 2, "backoffLimit": 0},
        {
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"restartPolicy": "OnFailure", "containers": [container()]},
            }
        },
    ],
    ids=["plain", "completions", "parallelism", "both", "labels"],
)
async def test_what_is_filled_into_a_job(bare: Both, spec: dict[str, Any]) -> None:
    """A created Job is equal on both sides, with the selector and labels that come from its uid."""

    await compare(bare, post("jobs", a_job(**spec)))


_WRONG: dict[str, dict[str, Any]] = {
    "restart policy": {"template": {"spec": {"containers": [container()]}}},
    "parallelism": {"parallelism": -1},
    "no containers": {"template": {"spec": {"restartPolicy": "Never", "containers": []}}},
}


@pytest.mark.parametrize("name", _WRONG)
async def test_a_job_that_makes_no_sense(bare: Both, name: str) -> None:
    """A senseless Job is refused with the path of each wrong field."""
    await compare(bare, post("jobs", a_job(**_WRONG[name]), None))


@pytest.mark.parametrize(
    ("phase", "condition", "spec"),
    [
        ("Succeeded", "Complete", {}),
        ("Failed", "Failed", {"backoffLimit": 0}),
    ],
    ids=["succeeds", "fails"],
)
async def test_how_a_job_ends(both: Both, phase: str, condition: str, spec: dict[str, Any]) -> None:
    """A Job ends with its pod and an equal status on both sides, and its deletion deletes the pod."""

    async def observe(side: Side) -> Any:
        await made(side, path_of(side), a_job(**spec))
        (one,) = await reached(lambda: listed(side, pods(side)), lambda found: len(found) == 1, "a pod")
        await patched(side, pods(side, one["metadata"]["name"], "status"), {"status": {"phase": phase}})

        def has_ended(found: Any) -> bool:
            return any(each["type"] == condition for each in found["status"].get("conditions", []))

        ended = (await reached(lambda: got(side, path_of(side, "j")), has_ended, "the Job ends"))["status"]
        await side.call("DELETE", path_of(side, "j"), body={"propagationPolicy": "Background"})
        await reached(lambda: listed(side, pods(side)), lambda found: not found, "no pod")
        return [ended, [each["controller"] for each in one["metadata"]["ownerReferences"]]]

    await both.same(observe)


async def test_what_can_change_in_a_job(bare: Both) -> None:
    """A Job's parallelism can change, and its completions and template cannot."""

    await compare(
        bare,
        post("jobs", a_job()),
        merge("jobs/j", {"spec": {"parallelism": 0}}),
        merge("jobs/j", {"spec": {"completions": 2}}, 422),
        merge("jobs/j", {"spec": {"template": {"spec": {"hostname": "h"}}}}, 422),
    )
