"""What a DELETE makes of an object: gone at once, or marked and waiting for its kubelet or its finalizers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from clusters.embedded.apiserver.objects import Object, is_deleting
from clusters.embedded.apiserver.refusals import bad_request, conflict, modified
from clusters.embedded.apiserver.routes import has_generation
from clusters.resources import NAMESPACES, PODS, Resource

_POLICIES: Final = ("Background", "Foreground", "Orphan")
# Finalizers that the garbage collector takes off again.
FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_DEFAULT_GRACE_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """What the client asked for; None: nothing."""

    grace_seconds: int | None = None
    propagation: str | None = None
    uid: str | None = None
    version: str | None = None
    dry_run: bool = False


def options_of(body: Any, params: dict[str, str]) -> DeleteOptions:
    """The options of a request: its body, else its query. Raises RefusalError (400)."""
    found = body if isinstance(body, dict) else {}
    grace = found.get("gracePeriodSeconds", params.get("gracePeriodSeconds"))
    propagation = found.get("propagationPolicy", params.get("propagationPolicy"))
    if propagation is None and found.get("orphanDependents") is not None:
        propagation = "Orphan" if found["orphanDependents"] else "Background"
    preconditions = found.get("preconditions") or {}
    if propagation not in (None, *_POLICIES):
        raise bad_request(f"propagationPolicy {propagation!r} is none of: {', '.join(_POLICIES)}")
    if not isinstance(preconditions, dict):
        raise bad_request("preconditions must be an object with uid and resourceVersion")
    try:
        grace_seconds = None if grace is None else int(grace)
    except (TypeError, ValueError) as error:
        raise bad_request(f"gracePeriodSeconds {grace!r} is not a whole number of seconds") from error
    if grace_seconds is not None and grace_seconds < 0:
        # As the real server reads it: a negative time is a second.
        grace_seconds = 1
    dry_run = bool(found.get("dryRun") or params.get("dryRun"))
    return DeleteOptions(
        grace_seconds, propagation, preconditions.get("uid"), preconditions.get("resourceVersion"), dry_run
    )


def check_preconditions(resource: Resource, item: Object, options: DeleteOptions) -> None:
    """Refuse (409) to delete another object than the one that the client means."""
    metadata = item["metadata"]
    if options.uid and options.uid != metadata["uid"]:
        why = f"Precondition failed: UID in precondition: {options.uid}, UID in object meta: {metadata['uid']}"
        raise conflict(resource, metadata["name"], why)
    if options.version and options.version != metadata["resourceVersion"]:
        raise modified(resource, metadata["name"])


def marked(resource: Resource, item: Object, options: DeleteOptions, now: datetime) -> Object:
    """The object after the DELETE. It is gone when ``is_finished`` says so of it, else it waits in this state."""
    grace = _grace_seconds(resource, item, options)
    metadata = dict(item["metadata"])
    finalizers = [word for word in metadata.get("finalizers", []) if word not in (FOREGROUND, ORPHAN)]
    finalizers += _finalizer(metadata, options)
    metadata["finalizers"] = finalizers
    if not finalizers:
        del metadata["finalizers"]
    if not is_deleting(item) or grace < metadata.get("deletionGracePeriodSeconds", 0):
        metadata["deletionTimestamp"] = rfc3339(now + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
    if has_generation(resource) and not is_deleting(item):
        metadata["generation"] = metadata.get("generation", 0) + 1
    marked_item = {**item, "metadata": metadata}
    if resource == NAMESPACES:
        marked_item["status"] = {**item.get("status", {}), "phase": "Terminating"}
    return marked_item


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


def _finalizer(metadata: Object, options: DeleteOptions) -> list[str]:
    if options.propagation is None:
        return [word for word in metadata.get("finalizers", []) if word in (FOREGROUND, ORPHAN)]
    return {"Foreground": [FOREGROUND], "Orphan": [ORPHAN]}.get(options.propagation, [])
