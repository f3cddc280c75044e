"""Promises of e2e.onsite.image_trouble, and of a case in which a pod meets such a trouble."""

from __future__ import annotations

from typing import Any, Final

import pytest

from clusters.api.resources import PODS
from e2e.builders import plain_container
from e2e.onsite.image_trouble import image_trouble
from e2e.onsite.site import Site
from e2e.site.validation_namespace import NAMESPACE

_NO_PYTHON: Final = 'runc create failed: exec: "python3": executable file not found in $PATH: unknown'
_NO_CARD: Final = "nvidia-container-cli: device error: GPU-1: unknown device"


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
@pytest.mark.parametrize("wait", ["runs", "ended"])
@pytest.mark.stand_in_only("a real kubelet writes the status of its pod")
async def test_an_image_that_cannot_be_used_is_a_gap(site: Site, wait: str) -> None:
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
        await getattr(site, wait)("pulls")
