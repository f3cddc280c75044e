"""The changes that a write may make, and the effect of a DELETE. Pure.

Through the main resource the status stays, through ``/status`` everything but the status and (as the real API server
does it) labels and annotations; what the server itself keeps stays in either case.

A DELETE removes an object immediately, or marks it until its kubelet or its finalizers are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from clusters.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    ROLE_BINDINGS,
    STATEFUL_SETS,
    Resource,
)
from clusters.embedded.apiserver import validation
from clusters.embedded.apiserver.api_objects import Object, is_deleting, namespace_of
from clusters.embedded.apiserver.api_routes import has_generation
from clusters.embedded.apiserver.field_rules import not_allowed, wrong
from clusters.embedded.apiserver.refusals import (
    FieldError,
    RefusalError,
    bad_request,
    conflict,
    invalid,
    modified,
    not_imitated,
)
from clusters.embedded.apiserver.requests import check_dry_run

# Metadata that only the server writes.
_KEPT: Final = (
    "uid",
    "namespace",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
# The fields of each kind that cannot change.
_FROZEN: Final[dict[Resource, tuple[str, ...]]] = {
    **dict.fromkeys((DEPLOYMENTS, REPLICA_SETS, DAEMON_SETS), ("spec.selector",)),
    JOBS: ("spec.completions", "spec.selector", "spec.template", "spec.completionMode"),
    **dict.fromkeys((CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS), ("roleRef",)),
}
# The fields of a StatefulSet that can change.
_MUTABLE: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_TEMPLATES: Final = "deprecated.daemonset.template.generation"


def check_put(resource: Resource, old: Object, new: Object) -> None:
    """Preconditions of a PUT: 409 for another version or uid than the one that is there."""
    uid = new["metadata"].get("uid", "")
    if uid and uid != old["metadata"]["uid"]:
        raise other_object(resource, old["metadata"], "UID", uid, old["metadata"]["uid"])
    _check_version(resource, old["metadata"], new["metadata"].get("resourceVersion", ""))


def check_patch(resource: Resource, old: Object, new: Object) -> None:
    """Preconditions that a patch carries: 400 for another name or namespace, 409 for another version."""
    check_place(new, namespace_of(old), old["metadata"]["name"])
    _check_version(resource, old["metadata"], new["metadata"].get("resourceVersion", ""))


def _check_version(resource: Resource, there: Object, wanted: str) -> None:
    """A stale version is 409; a lease must name the version that a write is based on (422)."""
    if wanted and not wanted.isdigit():
        raise RefusalError(500, "", f'strconv.ParseUint: parsing "{wanted}": invalid syntax')
    if wanted not in ("", "0", there["resourceVersion"]):
        raise modified(resource, there["name"])
    if wanted in ("", "0") and resource == LEASES:
        raise invalid(
            resource, there["name"], [wrong("metadata.resourceVersion", 0, "must be specified for an update")]
        )


def other_object(resource: Resource, metadata: Object, what: str, wanted: str, there: str) -> RefusalError:
    """409: the object of this name is not the one that is meant."""
    why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {there}"
    return conflict(resource, metadata["name"], why)


def keep_system_fields(old: Object, new: Object) -> list[FieldError]:
    """Put back what only the server writes. Changes ``new``; a fault is the uid of another object than the one that is there."""
    uid = new["metadata"].get("uid") or old["metadata"]["uid"]
    for key in _KEPT:
        if key in old["metadata"]:
            new["metadata"][key] = old["metadata"][key]
        else:
            new["metadata"].pop(key, None)
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    return [wrong("metadata.uid", uid, "field is immutable")] if uid != old["metadata"]["uid"] else []


def keep_other_half(resource: Resource, old: Object, new: Object, subresource: str | None) -> None:
    """Keep the status, or everything else, by the path of the request. Changes ``new``."""
    if subresource == "status":
        _restore(old, new, [key for key in {*old, *new} if key not in ("metadata", "status", "kind", "apiVersion")])
        if resource == PODS:
            _restore(old["metadata"], new["metadata"], ["ownerReferences"])
            kept = {key: old["status"][key] for key in ("qosClass", "observedGeneration") if key in old["status"]}
            new["status"] = {**kept, **new.get("status", {})}
        if resource == DEPLOYMENTS:
            _restore(old["metadata"], new["metadata"], ["labels"])
    elif resource.has_status:
        _restore(old, new, ["status"])
    if resource == NAMESPACES and subresource != "finalize":
        _restore(old, new, ["spec"])


def check_update(resource: Resource, old: Object, new: Object, found: Sequence[FieldError] = ()) -> None:
    """Refuse (422) changes of fields that cannot change; ``found`` is what was wrong before."""
    errors = [*found]
    if resource == PODS:
        errors += validation.changes(old["spec"], new["spec"])
    for path in _FROZEN.get(resource, ()):
        if _at(old, path) != _at(new, path):
            errors.append(wrong(path, _at(new, path), "field is immutable"))
    if resource == STATEFUL_SETS and _frozen_part(old["spec"]) != _frozen_part(new["spec"]):
        errors.append(not_allowed("spec", f"of a StatefulSet only {', '.join(_MUTABLE)} can change"))
    if errors:
        raise invalid(resource, old["metadata"]["name"], errors)


def _at(item: Object, path: str) -> Any:
    parent, _, key = path.rpartition(".")
    return (item[parent] if parent else item).get(key)


def _frozen_part(spec: Object) -> Object:
    return {key: value for key, value in spec.items() if key not in _MUTABLE}


def count_generation(resource: Resource, old: Object, new: Object) -> None:
    """Count changes of the spec. Changes ``new``."""
    changed = old.get("spec") != new.get("spec")
    if resource == DEPLOYMENTS:  # whose annotations its ReplicaSets get
        changed |= old["metadata"].get("annotations") != new["metadata"].get("annotations")
    if has_generation(resource) and changed:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def count_templates(resource: Resource, old: Object | None, new: Object) -> None:
    """Count changes of a DaemonSet's template, in an annotation. Changes ``new``."""
    if resource != DAEMON_SETS:
        return
    count = 1
    if old is not None:
        before = (old["metadata"].get("annotations") or {}).get(_TEMPLATES, "1")
        count = int(before) + (old["spec"]["template"] != new["spec"]["template"])
    new["metadata"]["annotations"] = {**new["metadata"].get("annotations", {}), _TEMPLATES: str(count)}


def check_kind(resource: Resource, body: Object) -> None:
    """Refuse (400) a body of another kind than the URL is about."""
    kind, version = body.get("kind") or resource.kind, body.get("apiVersion") or resource.api_version
    if (version, kind) != (resource.api_version, resource.kind):
        raise bad_request(
            f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {resource.kind}: it is another kind'
        )


def check_place(item: Object, namespace: str, name: str | None) -> None:
    """Refuse (400) a body that names another object than the URL does."""
    if namespace_of(item) not in ("", namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    found = item["metadata"].get("name", "")
    if name is not None and not found:
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if name is not None and found != name:
        raise bad_request(f"the name of the object ({found}) does not match the name on the URL ({name})")


def _restore(old: Object, new: Object, keys: list[str]) -> None:
    for key in keys:
        if key in old:
            new[key] = old[key]
        else:
            new.pop(key, None)


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
