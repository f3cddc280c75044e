"""Promises of gpushare.model.waiting."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpushare.bounds import SCHEDULER_TEXT_KEPT
from gpushare.manifests import Pod
from gpushare.model.pod import kept_of
from gpushare.model.waiting import Wait, wait_of


def pod(
    amounts: dict[str, Any] | None = None,
    *,
    metadata: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """A pod that asks for 3 units unless ``amounts`` say other limits."""
    limits = {"aliyun.com/gpu-mem": "3"} if amounts is None else amounts
    containers = [{"name": "c", "resources": {"limits": limits}}, {"name": "d"}]
    created = {"creationTimestamp": "1970-01-01T00:01:40Z"}
    document = {"metadata": created | (metadata or {}), "spec": {"containers": containers, **spec}, "status": status}
    return msgspec.convert(document, Pod)


def report(reason: str | None, message: str | None = None, status: str = "False") -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": status, "reason": reason, "message": message}
    return {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}, condition]}


@pytest.mark.parametrize(
    ("item", "wait"),
    [
        (pod(), Wait(100.0, False, "default-scheduler", "", "")),
        (pod(metadata={"creationTimestamp": None}), Wait(None, False, "default-scheduler", "", "")),
        (pod(schedulerName="other"), Wait(100.0, False, "other", "", "")),
        (
            pod(status=report("Unschedulable", "0/1 nodes are available")),
            Wait(100.0, False, "default-scheduler", "Unschedulable", "0/1 nodes are available"),
        ),
        (
            pod(schedulingGates=[{"name": "a"}], status=report("SchedulingGated")),
            Wait(100.0, True, "default-scheduler", "SchedulingGated", ""),
        ),
        (pod(status=report(None)), Wait(100.0, False, "default-scheduler", "", "")),
    ],
    ids=["new", "without a time", "of another scheduler", "refused", "gated", "without words"],
)
def test_waiting_pod_is_described_as_the_api_shows_it(item: Pod, wait: Wait) -> None:
    """The kept pod waits as the whole one does."""
    assert wait_of(item) == wait_of(kept_of(item)) == wait


@pytest.mark.parametrize(
    "item",
    [
        pod(nodeName="n"),
        pod(nodeName="n", status=report("", status="True")),
        pod(metadata={"deletionTimestamp": "1970-01-01T00:02:00Z"}),
        pod(status={"phase": "Failed"}),
        pod(status={"phase": "Succeeded"}),
        pod({}),
        pod({"cpu": "1", "nvidia.com/gpu": "1"}),
        pod({"aliyun.com/gpu-mem": "0", "aliyun.com/gpu-slot": 0}),
        Pod(),
    ],
    ids=["bound", "scheduled", "deleted", "failed", "succeeded", "no amounts", "other amounts", "zero", "empty"],
)
def test_pod_without_need_of_a_card_does_not_wait(item: Pod) -> None:
    """A pod that is bound, ended or being deleted waits for nothing; neither does one that asks for no card."""
    assert wait_of(item) is wait_of(kept_of(item)) is None


@pytest.mark.parametrize(
    "amounts",
    [{"aliyun.com/gpu-slot": "1"}, {"aliyun.com/gpu-count": 1}, {"aliyun.com/gpu-mem": "1.5"}],
    ids=["slot", "count", "unreadable"],
)
def test_any_of_our_resources_makes_a_pod_wait(amounts: dict[str, Any]) -> None:
    """An amount that cannot be read counts, because no node gives it either."""
    assert wait_of(pod(amounts)) is not None


def test_init_container_makes_a_pod_wait() -> None:
    """Requests count too, without limits."""
    init = {"name": "i", "resources": {"requests": {"aliyun.com/gpu-mem": "1"}}}

    assert wait_of(pod({}, initContainers=[init])) is not None


def test_text_of_a_scheduler_is_kept_in_part() -> None:
    """A report or a name that is too long costs no more memory than its bound, and one gate of many is enough."""
    long = "x" * 100_000
    item = pod(schedulerName=long, schedulingGates=[{}] * 1000, status=report(long, long))
    kept = kept_of(item)

    assert wait_of(kept) == Wait(100.0, True, *("x" * SCHEDULER_TEXT_KEPT.most,) * 3)
    assert len(msgspec.json.encode(kept)) < 5 * SCHEDULER_TEXT_KEPT.most
