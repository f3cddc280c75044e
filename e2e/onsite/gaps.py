"""Skips that leave a gap: the case might have shown a fault, but could not run. They make the verdict incomplete.

An image that cannot be used on its node leaves one, as it shows nothing about sharing. A case about something that the site has
not, or that its administrator did not allow, is skipped with ``pytest.skip`` alone: it is not applicable, and leaves no gap.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final, NoReturn

import pytest

from clusters.api.api_client import ApiError, is_passing
from e2e.onsite.tenancy import TenancyError
from e2e.site.picture import Object

_MARK: Final = "not judged: "
_FORBIDDEN: Final = 403
# The API server does not know the account, or does not allow it something.
_NO_RIGHT: Final = (401, _FORBIDDEN)
# The refusals of webhooks and of policies have several codes, and these words.
_DENIALS: Final = ("denied the request", "denied request", "failed calling webhook")
_PULLING: Final = (
    *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"),
    *("ImageInspectError", "RegistryUnavailable"),
)
# A container that does not start may well be a fault of sharing, but not if its program is not in the image.
_STARTING: Final = frozenset({"CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun"})
_PROGRAM: Final = "python3"
_MISSING: Final = ("not found", "no such file")


def not_judged(why: str) -> NoReturn:
    """Skip the case, and leave a gap."""
    pytest.skip(f"{_MARK}{why}")


@contextlib.contextmanager
def unless_refused() -> Iterator[None]:
    """Leave a gap if the cluster refuses a pod for a quota, a policy or a right, which shows nothing about sharing."""
    try:
        yield
    except ApiError as error:
        if error.code == _FORBIDDEN or any(words in error.message for words in _DENIALS):
            not_judged(f"the cluster refuses the pod: {error.message}")
        raise


def leaves_gap(error: BaseException) -> bool:
    """Has the run lost its namespace, its rights or its API server? That shows nothing about sharing."""
    has_no_right = isinstance(error, ApiError) and error.code in _NO_RIGHT
    return isinstance(error, TenancyError) or has_no_right or (isinstance(error, Exception) and is_passing(error))


def why_not_judged(reason: str) -> str:
    """The argument of ``not_judged`` in the reason of its skip; "" for another skip."""
    return reason.removeprefix(_MARK) if reason.startswith(_MARK) else ""


def image_trouble(pod: Object) -> str:
    """The first trouble of its image, as ``python:3 on n1: ErrImagePull: ...``; "" if there is none."""
    images = {one["name"]: one["image"] for one in pod["spec"]["containers"]}
    for container in pod.get("status", {}).get("containerStatuses") or ():
        for state in (container.get("state") or {}).values():
            reason, message = state.get("reason") or "", state.get("message") or ""
            if _is_about_image(reason, message):
                where = pod["spec"].get("nodeName", "a node")
                return f"{images[container['name']]} on {where}: {reason}: {message}"
    return ""


def _is_about_image(reason: str, message: str) -> bool:
    lower = message.lower()
    is_missing = _PROGRAM in lower and any(word in lower for word in _MISSING)
    return reason in _PULLING or (reason in _STARTING and is_missing)
