"""Promises of clusters.api.waiting."""

from __future__ import annotations

import asyncio

import pytest

from clusters.api.waiting import all_or_none, finished, glimpse


async def test_the_first_failure_ends_the_others_before_it_is_raised() -> None:
    """The other waits end before the failure is raised, so that none starts programs in a cluster that was taken down."""
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("slow")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("it")

    with pytest.raises(ValueError, match="it"):
        await all_or_none(slow(), fails())

    assert ended == ["slow"]


async def test_work_that_must_end_outlasts_a_cancellation() -> None:
    """Work goes on when its caller is cancelled, and the cancellation comes when it is done."""
    begun, gone_on = asyncio.Event(), asyncio.Event()
    ended: list[str] = []

    async def work() -> None:
        begun.set()
        await gone_on.wait()
        ended.append("work")

    caller = asyncio.create_task(finished(work()))
    await begun.wait()
    caller.cancel()
    await asyncio.sleep(0)
    gone_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller

    assert ended == ["work"]


POD = {
    "metadata": {"namespace": "ns", "name": "p", "managedFields": [{"x": "y" * 9000}], "deletionTimestamp": "now"},
    "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
    "status": {
        "phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed: no card",
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "PodFailed", "message": "it ended"},
            {"type": "PodScheduled", "status": "True", "message": "fine"},
        ],
        "containerStatuses": [
            {"name": "c", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}},
            {"name": "d", "state": {"running": {}}},
        ],
    },
}  # fmt: skip


def test_an_object_is_one_line_of_what_matters() -> None:
    """Phase, node, reason, message, states that are not running and conditions that do not hold; nothing else of it."""
    assert glimpse(POD) == (
        "ns/p: Failed, being deleted, on n, UnexpectedAdmissionError, Allocate failed: no card, "
        "container c terminated Error 3, Ready=False PodFailed it ended"
    )
    assert glimpse({"metadata": {"name": "bare"}}) == "bare: no status"
