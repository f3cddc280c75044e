"""The effect of a DELETE on an object: removed immediately, or marked until its kubelet or its finalizers are done. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from clusters.api.resources import NAMESPACES, PODS, Resource
from clusters.embedded.apiserver.api_objects import Object, is_deleting
from clusters.embedded.apiserver.refusals import bad_request, conflict, not_imitated
from clusters.embedded.apiserver.requests import check_dry_run

_DEFAULT_GRACE_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options that the client sent; None: not set."""

    grace_seconds: int | None = None
    uid: str | None = None
    version: str | None = None
    dry_run: bool = False


def options_of(body: Any, params: dict[str, str]) -> DeleteOptions:
    """The options of a request: its body, or its query if there is no body. Raises RefusalError (400, 422, 501).

    Dependents always go in the background. An owner that is deleted in the foreground goes before them, not after.
    """
    found: Object = body if isinstance(body, dict) else dict(params)
    grace, preconditions = found.get("gracePeriodSeconds"), found.get("preconditions") or {}
    if found.get("propagationPolicy") == "Orphan" or found.get("orphanDependents"):
        raise not_imitated("a deletion that leaves dependents")
    try:
        grace_seconds = None if grace is None else int(grace)
    except (TypeError, ValueError) as error:
        raise bad_request(f'strconv.ParseInt: parsing "{grace}": invalid syntax') from error
    stages = found.get("dryRun") or []
    check_dry_run("DeleteOptions", *([stages] if isinstance(stages, str) else stages))
    return DeleteOptions(grace_seconds, preconditions.get("uid"), preconditions.get("resourceVersion"), bool(stages))


def check_preconditions(resource: Resource, item: Object, options: DeleteOptions) -> None:
    """Refuse (409) to delete another object than the one that the client means."""
    metadata = item["metadata"]
    for what, wanted, there in (
        ("UID", options.uid, metadata["uid"]),
        ("ResourceVersion", options.version, metadata["resourceVersion"]),
    ):
        if wanted and wanted != there:
            why = f"the {what} in the precondition ({wanted}) does not match the {what} in record ({there})"
            raise conflict(resource, metadata["name"], why)


@dataclass(frozen=True, slots=True)
class Fate:
    """The effect of a DELETE: the state that is written first, if any, and whether the object is removed then."""

    written: Object | None
    gone: bool


def fate_of(resource: Resource, item: Object, options: DeleteOptions, now: datetime) -> Fate:
    """Pods end gracefully: even one that goes immediately is marked first, so that a watch shows it marked, then gone.

    Of other kinds only what finalizers hold is marked. Where a time to end is running nothing changes but a shorter time.
    """
    metadata = dict(item["metadata"])
    running = metadata.get("deletionGracePeriodSeconds", 0) if is_deleting(item) else 0
    if running and (options.grace_seconds is None or options.grace_seconds >= running):
        return Fate(None, gone=False)
    finalizers = metadata.get("finalizers", [])
    graceful = resource == PODS and (bool(running) or not is_deleting(item))
    grace = _grace_seconds(resource, item, options) if graceful else 0
    if graceful or finalizers or resource == NAMESPACES:
        _mark(metadata, grace, now)
    written = {**item, "metadata": metadata}
    if resource == NAMESPACES:
        metadata.pop("deletionGracePeriodSeconds", None)
        written["status"] = {**item.get("status", {}), "phase": "Terminating"}
        return Fate(written, is_finished(written))
    return Fate(written if graceful or finalizers else None, gone=not finalizers and grace == 0)


def _mark(metadata: Object, grace: int, now: datetime) -> None:
    if "deletionTimestamp" not in metadata and metadata.get("generation"):
        metadata["generation"] += 1
    if "deletionTimestamp" not in metadata or grace < metadata.get("deletionGracePeriodSeconds", 0):
        metadata["deletionTimestamp"] = rfc3339(now + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace


def is_finished(item: Object) -> bool:
    """Whether nothing keeps an object any more that is being deleted."""
    metadata = item["metadata"]
    if not is_deleting(item) or metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
        return False
    return item.get("kind") != NAMESPACES.kind or not item.get("spec", {}).get("finalizers")


def rfc3339(at: datetime) -> str:
    """A time as the API writes it, in whole seconds; ``at`` is in UTC."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _grace_seconds(resource: Resource, item: Object, options: DeleteOptions) -> int:
    """Only pods that a kubelet runs need time to end."""
    if resource != PODS or not item["spec"].get("nodeName"):
        return 0
    if (item.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return 0
    if options.grace_seconds is not None:
        return options.grace_seconds
    return int(item["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS))
