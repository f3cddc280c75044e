"""The PriorityClass of a validation's pods, by which none of them is ever a reason to evict another pod.

If a pod does not fit, kube-scheduler evicts pods of lower priority for it. A look at the room before does not rule that out,
because other pods may come in between. Only ``preemptionPolicy: Never`` does, which a pod gets from a class alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

import yaml

from clusters.api.api_client import ApiClient, ApiError, Object
from clusters.api.connection import TransportError
from clusters.api.resources import PRIORITY_CLASSES
from clusters.api.waiting import finished
from e2e.onsite.tenancy import TenancyError
from e2e.site.picture import labels_of
from e2e.site.validation_namespace import KEEP, PRIORITY_CLASS, RUN_LABEL

Check = Callable[[], Awaitable[None]]
_RIGHTS: Final = Path(__file__).parent / "validate-rbac.yaml"
# The API server's answer to the creation of a thing that is there.
_THERE: Final = 409
_TODO: Final = "kubectl apply -f e2e/onsite/validate-rbac.yaml"


@contextlib.asynccontextmanager
async def low_priority(api: ApiClient, run: str, check: Check) -> AsyncIterator[None]:
    """The class is there inside, and gone behind unless an administrator has made it. Raises TenancyError.

    ``check`` raises it if another run may have the namespace.
    """
    try:
        await _ensure(api, run, check)
        yield
    finally:
        await finished(_remove(api, run))


async def _ensure(api: ApiClient, run: str, check: Check) -> None:
    """Make the class unless an administrator has made it; a run that was killed may have left one."""
    found = await _find(api)
    if found is not None and _is_made_by_a_run(found):
        await check()
        try:
            await api.delete_exactly(PRIORITY_CLASSES, found)
        except ApiError as error:
            raise TenancyError(
                f"PriorityClass {PRIORITY_CLASS} of a run that was killed cannot be deleted: {error.message}; "
                f"kubectl delete priorityclass {PRIORITY_CLASS}, then {_TODO}"
            ) from error
    elif found is not None:
        if found.get("preemptionPolicy") != "Never":
            raise TenancyError(f"PriorityClass {PRIORITY_CLASS} lets pods evict others; delete it, then {_TODO}")
        return
    manifest = manifest_of_class()
    manifest["metadata"]["labels"] = {RUN_LABEL: run}
    await check()
    try:
        await finished(api.create(manifest))
    except ApiError as error:
        if error.code == _THERE and _is_of(await _find(api), run):
            # The answer to an earlier attempt was lost.
            return
        why = f"PriorityClass {PRIORITY_CLASS} is missing and cannot be made: {error.message}"
        raise TenancyError(f"{why}; {_TODO}") from error


async def _remove(api: ApiClient, run: str) -> None:
    """Delete the class if this run has made it. Raises TenancyError with the command that does."""
    try:
        found = await _find(api)
        if found is not None and _is_of(found, run):
            await api.delete_exactly(PRIORITY_CLASSES, found)
    except (ApiError, TransportError) as error:
        command = f"kubectl delete priorityclasses --selector {RUN_LABEL}={run}"
        raise TenancyError(f"the PriorityClass of this run is left; remove it with: {command} ({error})") from error


def _is_of(found: Object | None, run: str) -> bool:
    return found is not None and labels_of(found).get(RUN_LABEL) == run


def _is_made_by_a_run(found: Object) -> bool:
    """If an administrator applies the file over a run's class, that adds the label of ``KEEP``."""
    return RUN_LABEL in labels_of(found) and KEEP not in labels_of(found)


def manifest_of_class() -> Object:
    """The class as an administrator makes it."""
    manifests = yaml.safe_load_all(_RIGHTS.read_text(encoding="utf-8"))
    return next(one for one in manifests if one["kind"] == PRIORITY_CLASSES.kind)


async def _find(api: ApiClient) -> Object | None:
    try:
        return await api.find(PRIORITY_CLASSES, PRIORITY_CLASS)
    except ApiError as error:
        raise TenancyError(f"PriorityClass {PRIORITY_CLASS} cannot be read: {error.message}; {_TODO}") from error
