"""The PriorityClass of a validation's pods, by which none of them is ever a reason to evict another pod.

If a pod does not fit, kube-scheduler evicts pods of lower priority for it. A look at the room before does not rule that out,
because other pods may come in between. Only ``preemptionPolicy: Never`` does, which a pod gets from a class alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import yaml

from clusters.api.api_client import ApiClient, ApiError, Object
from clusters.api.resources import PRIORITY_CLASSES
from e2e.onsite.tenancy import TenancyError
from e2e.site.validation_namespace import PRIORITY_CLASS, RUN_LABEL

_RIGHTS: Final = Path(__file__).parent / "validate-rbac.yaml"
_TODO: Final = "kubectl apply -f e2e/onsite/validate-rbac.yaml"


@contextlib.asynccontextmanager
async def low_priority(api: ApiClient, run: str) -> AsyncIterator[None]:
    """The class is there inside, and gone behind unless an administrator has made it. Raises TenancyError."""
    made = await _ensure(api, run)
    try:
        yield
    finally:
        if made is not None:
            await _delete(api, made)


async def _ensure(api: ApiClient, run: str) -> Object | None:
    """The class if this run has made it, None if an administrator has."""
    found = await _find(api)
    if found is not None and RUN_LABEL in (found["metadata"].get("labels") or {}):
        # A run that was killed left it.
        await _delete(api, found)
    elif found is not None:
        if found.get("preemptionPolicy") != "Never":
            raise TenancyError(f"PriorityClass {PRIORITY_CLASS} lets pods evict others; delete it, then {_TODO}")
        return None
    manifest = manifest_of_class()
    manifest["metadata"]["labels"] = {RUN_LABEL: run}
    try:
        return await api.create(manifest)
    except ApiError as error:
        why = f"PriorityClass {PRIORITY_CLASS} is missing and cannot be made: {error.message}"
        raise TenancyError(f"{why}; {_TODO}") from error


def manifest_of_class() -> Object:
    """The class as an administrator makes it."""
    manifests = yaml.safe_load_all(_RIGHTS.read_text(encoding="utf-8"))
    return next(one for one in manifests if one["kind"] == PRIORITY_CLASSES.kind)


async def _find(api: ApiClient) -> Object | None:
    try:
        return await api.get(PRIORITY_CLASSES, PRIORITY_CLASS)
    except ApiError as error:
        if error.code == 404:
            return None
        raise TenancyError(f"PriorityClass {PRIORITY_CLASS} cannot be read: {error.message}; {_TODO}") from error


async def _delete(api: ApiClient, found: Object) -> None:
    """Delete exactly this class, and not one of the same name that another run has made since."""
    path = PRIORITY_CLASSES.path(name=found["metadata"]["name"])
    try:
        await api.request("DELETE", path, body={"preconditions": {"uid": found["metadata"]["uid"]}})
    except ApiError as error:
        if error.code not in (404, 409):
            raise
