"""Every reader of whole objects, fed with objects as large as the API server takes them, and its work counted.

An object has been decoded before its reader sees it, so the work may grow as the object does, and no faster. Work that compares
other objects, or that each event of another object repeats, has a fixed budget. ``tests.counted`` defines how work is counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import pytest

from gpushare import wire
from gpushare.extender.core.accepted_state import booking_of
from gpushare.manifests import DisruptionBudget, Pod
from gpushare.model.eviction import (
    Evictable,
    by_namespace,
    evictable_of,
    is_entangled,
    kept_budget,
    other_requests,
    protected,
)
from gpushare.model.node import Booking, Device, lay_out
from gpushare.model.pod import cpu_request, gpu_containers, is_finished, kept_of, request_of
from tests.counted import steps_of

# The largest object that an API server takes.
OBJECT = 1536 * 1024


def container(at: int, **changes: object) -> dict[str, object]:
    """A container that asks for a unit of card memory."""
    return {"name": f"c{at}", "resources": {"limits": {wire.RESOURCE_MEMORY: "1", wire.RESOURCE_SLOT: "1"}}} | changes


def pod_document(spec: dict[str, object], **more: object) -> dict[str, object]:
    """A bound pod."""
    return {"metadata": {"name": "p", "namespace": "ns", "uid": "u"} | more, "spec": {"nodeName": "n"} | spec}


# Pods with this many of something.
MANY: dict[str, Callable[[int], dict[str, object]]] = {
    "containers": lambda count: pod_document({"containers": [container(at) for at in range(count)]}),
    "init containers": lambda count: pod_document(
        {"initContainers": [container(at, restartPolicy="Always") for at in range(count)]}
    ),
    "resources": lambda count: pod_document(
        {"containers": [container(at, resources={"requests": {f"x.io/{at}": "1", "cpu": "1"}}) for at in range(count)]}
    ),
    "resources of one container": lambda count: pod_document(
        {"containers": [container(0, resources={"requests": {f"x.io/{at}": "1" for at in range(count)}})]}
    ),
    "labels": lambda count: pod_document(
        {"containers": [container(0)]}, labels={f"label-{at}": "v" for at in range(count)}
    ),
}


def reads_object(item: Pod) -> Sequence[object]:
    """The work on a pod, by the extender and by the plugin."""
    kept = kept_of(item)
    readers = (
        request_of,
        booking_of,
        is_finished,
        cpu_request,
        other_requests,
        is_entangled,
        evictable_of,
        gpu_containers,
    )
    return [*(reader(item) for reader in readers), *(reader(kept) for reader in readers)]


@pytest.mark.parametrize("name", MANY)
def test_a_pod_is_read_with_work_that_grows_no_faster_than_it(name: str) -> None:
    """Twice as many containers are twice the work. Counting is slow, so this is a pod of a quarter of the largest, and its half."""
    largest = OBJECT // (4 * (len(json.dumps(MANY[name](1000))) // 1000))
    half, whole = (msgspec.convert(MANY[name](count), Pod) for count in (largest // 2, largest))

    assert steps_of(partial(reads_object, whole)) < 2.2 * steps_of(partial(reads_object, half)) + 1_000


BUDGETS: dict[str, Callable[[int], list[dict[str, object]]]] = {
    "values": lambda count: [{"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["v"] * count}]}],
    "expressions": lambda count: [{"matchExpressions": [{"key": "a", "operator": "Exists"}] * count}],
    "labels": lambda count: [{"matchLabels": {"a": "1"} | {f"l{at}": "1" for at in range(count)}}],
    "budgets": lambda count: [{"matchLabels": {"a": "1"}}] * (count // 10),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_a_preemption_compares_within_a_fixed_budget(name: str) -> None:
    """However many budgets a namespace has, and whatever they select by."""
    budgets = by_namespace(
        kept_budget(
            msgspec.convert({"metadata": {"namespace": "ns"}, "spec": {"selector": selector}}, DisruptionBudget)
        )
        for selector in BUDGETS[name](50_000)
    )
    pods = [("ns", str(at), Evictable(0, (("a", "1"),), (), False, False)) for at in range(10)]

    assert steps_of(lambda: list(protected(pods, budgets))) < 10 * 256 * 30


def test_a_node_is_laid_out_with_so_many_pods() -> None:
    """An author can name a node in any number of pods."""
    bookings = [Booking(str(at), "ns", str(at), 1, ((0, 1),)) for at in range(20_000)]

    assert steps_of(lambda: lay_out("n", (Device(0, 14),), bookings)) < 1024 * 30
