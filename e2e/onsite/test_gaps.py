"""Promises of e2e.onsite.gaps, and of cases that meet what leaves a gap."""

from __future__ import annotations

from typing import Any, Final

import pytest

from clusters.api.api_client import ApiError
from clusters.api.resources import PODS
from e2e.builders import plain_container
from e2e.onsite.foreign_cluster import ForeignCluster
from e2e.onsite.gaps import image_trouble, unless_refused
from e2e.onsite.test_onsite import hold
from e2e.site.validation_namespace import NAMESPACE

_NO_PYTHON: Final = 'runc create failed: exec: "python3": executable file not found in $PATH: unknown'
_NO_CARD: Final = "nvidia-container-cli: device error: GPU-1: unknown device"


@pytest.mark.parametrize(
    ("code", "message", "is_gap"),
    [
        (403, "exceeded quota: site", True),
        (400, 'admission webhook "validate.kyverno.svc-fail" denied the request: no', True),
        (422, "ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no", True),
        (500, 'failed calling webhook "validate.kyverno.svc-fail"', True),
        (422, "spec.nodeName: Forbidden", False),
        (500, "etcd", False),
    ],
)
def test_a_refusal_is_a_gap_and_another_error_is_none(code: int, message: str, is_gap: bool) -> None:
    """Quotas, policies and rights refuse a pod whatever sharing does; a pod that is not valid is a fault."""
    with pytest.raises(pytest.skip.Exception if is_gap else ApiError, match=message), unless_refused():
        raise ApiError(code, "", message)


@pytest.mark.stand_in_only("a real API server needs a while to count for a new quota")
@pytest.mark.usefixtures("clean")
async def test_a_pod_beyond_a_quota_leaves_a_gap(site: ForeignCluster, node: str) -> None:
    """The reason of the case has the API server's message."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "site"}, "spec": {"hard": {"pods": "0"}}}
    room = await site.needs(node, 1)
    await site.api.create(quota, NAMESPACE)
    try:
        with pytest.raises(
            pytest.skip.Exception, match=r"^not judged: the cluster refuses the pod: .*exceeded quota: site"
        ):
            await hold(site, room, "held", 1, seconds=0, mib=0)
    finally:
        await site.api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/resourcequotas/site")


def status(kind: str, reason: str, message: str) -> dict[str, Any]:
    """A pod's status with one container in this state."""
    state = {kind: {"reason": reason, "message": message, **({"exitCode": 128} if kind == "terminated" else {})}}
    return {"phase": "Pending", "containerStatuses": [{"name": "c0", "state": state}]}


@pytest.mark.parametrize(
    ("kind", "reason", "message", "is_trouble"),
    [
        ("waiting", "ErrImagePull", "401 Unauthorized", True),
        ("waiting", "ImagePullBackOff", "Back-off", True),
        ("waiting", "InvalidImageName", "", True),
        ("waiting", "ErrImageNeverPull", "", True),
        ("waiting", "CreateContainerError", _NO_PYTHON, True),
        ("terminated", "StartError", _NO_PYTHON, True),
        ("terminated", "StartError", _NO_CARD, False),
        ("waiting", "RunContainerError", _NO_CARD, False),
        ("waiting", "ContainerCreating", "", False),
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
