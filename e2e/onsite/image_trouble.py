"""Why a pod's image cannot be used on its node, which shows nothing about sharing. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from e2e.site.picture import Object

_PULLING: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
    }
)
# A container that does not start may well be a fault of sharing, but not if its program is not in the image.
_STARTING: Final = frozenset({"CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun"})
_PROGRAM: Final = "python3"
_MISSING: Final = ("not found", "no such file")


def image_trouble(pod: Object) -> str:
    """The first trouble, as ``python:3 on n1: ErrImagePull: ...``; "" if there is none."""
    images = {one["name"]: one["image"] for one in pod["spec"]["containers"]}
    for container in pod.get("status", {}).get("containerStatuses") or ():
        for reason, message in _states(container):
            if _is_about_image(reason, message):
                where = pod["spec"].get("nodeName", "a node")
                return f"{images[container['name']]} on {where}: {reason}: {message}"
    return ""


def _states(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for state in (container.get("state") or {}).values():
        yield state.get("reason") or "", state.get("message") or ""


def _is_about_image(reason: str, message: str) -> bool:
    lower = message.lower()
    is_missing = _PROGRAM in lower and any(word in lower for word in _MISSING)
    return reason in _PULLING or (reason in _STARTING and is_missing)
