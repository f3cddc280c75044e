"""Promises of e2e.onsite.gaps, and of cases that meet what leaves a gap, as others on the cluster do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from clusters.api.api_client import MERGE_PATCH, ApiError
from clusters.api.resources import PODS
from clusters.api.waiting import NotReachedError
from e2e.builders import gpu_pod, plain_container
from e2e.observer import Observer
from e2e.onsite.foreign_cluster import ForeignCluster
from e2e.onsite.gaps import image_trouble, unless_refused
from e2e.onsite.tenancy import NAMESPACE
from e2e.onsite.test_onsite import hold

_NO_PYTHON: Final = 'runc create failed: exec: "python3": executable file not found in $PATH: unknown'
_FINALIZER: Final = "tests.gpushare/stuck"
_AMONG_OTHERS: Final = pytest.mark.stand_in_only("the mechanism is the same on real kubelets, which take longer")
_NO_CARD: Final = "nvidia-container-cli: device error: GPU-1: unknown device"


@pytest.mark.parametrize(
    ("code", "message", "is_gap"),
    [
        (403, "exceeded quota: site", True),
        (400, 'admission webhook "validate.kyverno.svc-fail" denied the request: no', True),
        (422, "ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no", True),
        (500, 'failed calling webhook "validate.kyverno.svc-fail"', True),
        (422, "spec.nodeName: Forbidden", False),
    ],
)
def test_a_refusal_is_a_gap_and_another_error_is_none(code: int, message: str, is_gap: bool) -> None:
    """Quotas, policies and rights refuse a pod whatever sharing does; a pod that is not valid is a fault."""
    with pytest.raises(pytest.skip.Exception if is_gap else ApiError, match=message), unless_refused():
        raise ApiError(code, "", message)


def status(kind: str, reason: str, message: str) -> dict[str, Any]:
    """A pod's status with one container in this state."""
    state = {kind: {"reason": reason, "message": message, **({"exitCode": 128} if kind == "terminated" else {})}}
    return {"phase": "Pending", "containerStatuses": [{"name": "c0", "state": state}]}


@pytest.mark.parametrize(
    ("kind", "reason", "message", "is_trouble"),
    [
        ("waiting", "ErrImagePull", "401 Unauthorized", True),
        ("waiting", "CreateContainerError", _NO_PYTHON, True),
        ("terminated", "StartError", _NO_PYTHON, True),
        ("terminated", "StartError", _NO_CARD, False),
        ("waiting", "RunContainerError", _NO_CARD, False),
        ("terminated", "Error", f"the probe printed: {_NO_PYTHON}", False),
    ],
)
def test_only_the_image_is_to_blame(kind: str, reason: str, message: str, is_trouble: bool) -> None:
    """A pull that fails and a program that is missing are the image's; another error at the start may be one of sharing."""
    spec = {"nodeName": "n", "containers": [{"name": "c0", "image": "python:3"}]}
    expected = f"python:3 on n: {reason}: {message}" if is_trouble else ""

    assert image_trouble({"spec": spec, "status": status(kind, reason, message)}) == expected


@pytest.mark.usefixtures("clean")
@pytest.mark.stand_in_only("a real kubelet writes the status of its pod")
async def test_an_image_that_cannot_be_used_is_a_gap(site: ForeignCluster) -> None:
    """The wait for such a pod ends immediately, and the case is not judged."""
    # No scheduler takes it, so no kubelet writes its status.
    pod = {"schedulerName": "none", "containers": [plain_container("c0")]}
    await site.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pulls"}, "spec": pod})
    await site.api.patch(
        PODS,
        (await site.pod("pulls"))["metadata"]["name"],
        {"status": status("waiting", "ErrImagePull", "401 Unauthorized")},
        NAMESPACE,
        subresource="status",
    )

    with pytest.raises(
        pytest.skip.Exception, match=r"^not judged: .* ErrImagePull: 401 Unauthorized; name one with --probe"
    ):
        await site.ended("pulls")


@contextlib.contextmanager
def hasty(site: ForeignCluster) -> Iterator[None]:
    """Inside, it waits two seconds for a pod: for what never comes, and for nothing that does."""
    patient = site.permissions
    site.permissions = replace(patient, seconds=2.0)
    try:
        yield
    finally:
        site.permissions = patient


@_AMONG_OTHERS
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


@_AMONG_OTHERS
async def test_a_pod_that_others_delete_leaves_a_gap(site: ForeignCluster) -> None:
    """The reason names whether the pod is being deleted or is gone; cases of other nodes go on while it stays."""
    with contextlib.ExitStack() as stack, contextlib.suppress(NotReachedError):
        async with site.clean():
            await hold(site, await site.needs("a2"), "held", 1, seconds=600, mib=0)
            name = (await site.runs("held"))["metadata"]["name"]
            await keep(site, name, [_FINALIZER])
            await site.api.delete(PODS, name, NAMESPACE)
            with pytest.raises(pytest.skip.Exception, match="not judged: pod held was deleted by others"):
                await site.ended("held")
            stack.enter_context(hasty(site))
    try:
        async with site.clean():
            with pytest.raises(pytest.skip.Exception, match=f"pod {name} of an earlier case is still on a2"):
                await site.needs("a2")
            with pytest.raises(pytest.skip.Exception, match="not judged: pod held was removed by others"):
                await site.pod("held")
            await hold(site, await site.needs("a1"), "held", 1, seconds=0, mib=0)
            await site.ended("held")
    finally:
        await keep(site, name, None)


async def keep(site: ForeignCluster, name: str, finalizers: list[str] | None) -> None:
    """A pod with a finalizer does not go."""
    await site.api.patch(PODS, name, {"metadata": {"finalizers": finalizers}}, NAMESPACE, content_type=MERGE_PATCH)
