"""Others on the cluster disturb a validation, as they may: no case fails for that."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from clusters.api.api_client import MERGE_PATCH
from clusters.api.resources import PODS
from clusters.api.waiting import NotReachedError
from e2e.builders import gpu_pod
from e2e.observer import Observer
from e2e.onsite.foreign_cluster import ForeignCluster
from e2e.onsite.test_onsite import hold
from e2e.site.validation_namespace import NAMESPACE

pytestmark = pytest.mark.stand_in_only("the mechanism is the same on real kubelets, which take longer")
_FINALIZER = "tests.gpushare/stuck"


@contextlib.contextmanager
def hasty(site: ForeignCluster) -> Iterator[None]:
    """Inside, it waits two seconds for a pod: for what never comes, and for nothing that does."""
    patient = site.permissions
    site.permissions = replace(patient, seconds=2.0)
    try:
        yield
    finally:
        site.permissions = patient


@pytest.mark.usefixtures("clean")
async def test_a_pod_that_others_delete_leaves_a_gap(site: ForeignCluster, node: str) -> None:
    """The reason names whether the pod is being deleted or is gone."""
    room = await site.needs(node)
    await hold(site, room, "held", 1, seconds=600, mib=0)
    name = (await site.runs("held"))["metadata"]["name"]
    await site.api.patch(PODS, name, {"metadata": {"finalizers": [_FINALIZER]}}, NAMESPACE, content_type=MERGE_PATCH)
    await site.api.delete(PODS, name, NAMESPACE)
    with pytest.raises(pytest.skip.Exception, match="not judged: pod held was deleted by others"):
        await site.ended("held")
    await site.api.patch(PODS, name, {"metadata": {"finalizers": None}}, NAMESPACE, content_type=MERGE_PATCH)
    await site.delete("held")

    with pytest.raises(pytest.skip.Exception, match="not judged: pod held was removed by others"):
        await site.pod("held")


@pytest.mark.usefixtures("clean")
async def test_room_that_others_take_leaves_a_gap(site: ForeignCluster, node: str, observer: Observer) -> None:
    """A pod waits for room that was there when the case began; with room it would be a fault that it waits."""
    room = await site.needs(node)
    for card in room.cards:
        await observer.run(gpu_pod(f"taker-{card.index}", card.units, node=node))
    await hold(site, room, "late", 1, seconds=0, mib=0)

    took = f"not judged: others took the room on {node} for pod late"
    with hasty(site), pytest.raises(pytest.skip.Exception, match=took):
        await site.ended("late")


async def test_a_pod_that_does_not_go_disturbs_no_other_node(site: ForeignCluster) -> None:
    """The cases of its own node are not judged while it is there, and those of other nodes go on."""
    stuck = await leave_a_pod(site, "a2")
    try:
        async with site.clean():
            with pytest.raises(pytest.skip.Exception, match=f"pod {stuck} of an earlier case is still on a2"):
                await site.needs("a2")
            await hold(site, await site.needs("a1"), "held", 1, seconds=0, mib=0)
            await site.ended("held")
    finally:
        await site.api.patch(PODS, stuck, {"metadata": {"finalizers": None}}, NAMESPACE, content_type=MERGE_PATCH)


async def leave_a_pod(site: ForeignCluster, node: str) -> str:
    """The name of a pod that a case leaves, because it does not go."""
    keep, name = {"metadata": {"finalizers": [_FINALIZER]}}, ""
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(NotReachedError))
        async with site.clean():
            await hold(site, await site.needs(node), "held", 1, seconds=600, mib=0)
            name = str((await site.runs("held"))["metadata"]["name"])
            await site.api.patch(PODS, name, keep, NAMESPACE, content_type=MERGE_PATCH)
            stack.enter_context(hasty(site))
    return name
