"""What a write may change. Pure.

Through the main resource the status stays, through ``/status`` everything but the status and (as the real API server
does it) labels and annotations; what the server itself keeps stays in either case.
"""

from __future__ import annotations

from typing import Final

from clusters.embedded.apiserver import pod_update_rules, rbac_rules
from clusters.embedded.apiserver.field_rules import not_allowed, wrong
from clusters.embedded.apiserver.objects import Object, is_deleting, namespace_of
from clusters.embedded.apiserver.refusals import FieldError, bad_request, conflict, invalid, modified
from clusters.embedded.apiserver.routes import has_generation
from clusters.resources import EVENTS_V1, LEASES, NAMESPACES, PODS, Resource

# Metadata that only the server writes.
_KEPT: Final = (
    "uid",
    "namespace",
    "creationTimestamp",
    "generation",
    "generateName",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_FROZEN: Final = {
    "deployments": ("selector",),
    "replicasets": ("selector",),
    "daemonsets": ("selector",),
    "statefulsets": ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates"),
}


def check_put(resource: Resource, old: Object, new: Object) -> None:
    """Preconditions of a PUT: 409 for another version or uid than the one that is there."""
    name, metadata = old["metadata"]["name"], new["metadata"]
    uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
    if uid and uid != old["metadata"]["uid"]:
        there = old["metadata"]["uid"]
        raise conflict(resource, name, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {there}")
    if version and version != old["metadata"]["resourceVersion"]:
        raise modified(resource, name)
    if not version and resource == LEASES:
        error = wrong("metadata.resourceVersion", "0x0", "must be specified for an update")
        raise invalid(resource, name, [FieldError(error.field, error.reason, error.message.replace('"', ""))])


def check_patch(resource: Resource, old: Object, new: Object) -> None:
    """Preconditions that a patch carries: 409 for another version, 422 for another uid, name or namespace."""
    name, metadata = old["metadata"]["name"], new["metadata"]
    if metadata.get("resourceVersion") not in (None, "", old["metadata"]["resourceVersion"]):
        raise modified(resource, name)
    for field in ("uid", "name", "namespace"):
        value = metadata.get(field)
        if value is not None and value != old["metadata"].get(field):
            raise invalid(resource, name, [wrong(f"metadata.{field}", str(value), "field is immutable")])
    kinds = (new.get("kind", resource.kind), new.get("apiVersion", resource.api_version))
    if kinds != (resource.kind, resource.api_version):
        raise bad_request(
            f"the patch makes a {kinds[0]} of version {kinds[1]} of it; kind and apiVersion cannot change"
        )


def keep_system_fields(old: Object, new: Object) -> None:
    """Put back what only the server writes. Changes ``new``."""
    for key in _KEPT:
        if key in old["metadata"]:
            new["metadata"][key] = old["metadata"][key]
        else:
            new["metadata"].pop(key, None)
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]


def keep_other_half(resource: Resource, old: Object, new: Object, subresource: str | None) -> None:
    """Keep the status, or everything else, as the path of the request says. Changes ``new``."""
    if subresource == "status":
        _restore(old, new, [key for key in {*old, *new} if key not in ("metadata", "status", "kind", "apiVersion")])
        _restore(old["metadata"], new["metadata"], ["ownerReferences", "finalizers"])
        if resource.plural == "deployments":
            _restore(old["metadata"], new["metadata"], ["labels"])
    elif resource.has_status:
        _restore(old, new, ["status"])
    if resource == NAMESPACES and subresource != "finalize":
        _restore(old, new, ["spec"])


def check_update(resource: Resource, old: Object, new: Object) -> None:
    """Refuse (422) changes of fields that cannot change."""
    errors: list[FieldError] = []
    if resource == PODS:
        errors += pod_update_rules.check_spec(old["spec"], new["spec"])
    errors += rbac_rules.check_update(resource, old, new)
    for field in _FROZEN.get(resource.plural, ()):
        if resource.api_version == "apps/v1" and old["spec"].get(field) != new["spec"].get(field):
            errors.append(wrong(f"spec.{field}", str(new["spec"].get(field)), "field is immutable"))
    if resource == EVENTS_V1:
        errors += [
            wrong(key, str(new.get(key)), "field is immutable")
            for key in sorted({*old, *new} - {"series", "metadata", "kind", "apiVersion"})
            if old.get(key) != new.get(key)
        ]
    if is_deleting(old):
        added = set(new["metadata"].get("finalizers", [])) - set(old["metadata"].get("finalizers", []))
        if added:
            text = (
                f"no new finalizers can be added if the object is being deleted, found new finalizers {sorted(added)}"
            )
            errors.append(not_allowed("metadata.finalizers", text))
    if errors:
        raise invalid(resource, old["metadata"]["name"], errors)


def count_generation(resource: Resource, old: Object, new: Object) -> None:
    """Count changes of the spec. Changes ``new``."""
    if has_generation(resource) and old.get("spec") != new.get("spec"):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def check_place(resource: Resource, item: Object, namespace: str, name: str | None) -> None:
    """Refuse (400) a body that names another object than the URL does."""
    kinds = (item.get("kind") or resource.kind, item.get("apiVersion") or resource.api_version)
    if kinds != (resource.kind, resource.api_version):
        raise bad_request(
            f"the API version in the data ({kinds[1]}, Kind={kinds[0]}) does not match the expected API version "
            f"({resource.api_version}, Kind={resource.kind})"
        )
    if namespace_of(item) not in ("", namespace):
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request "
            f"({namespace_of(item)} is not {namespace or 'empty'})"
        )
    found = item["metadata"].get("name", "")
    if name is not None and found not in ("", name):
        raise bad_request(f"the name of the object ({found}) does not match the name on the URL ({name})")


def _restore(old: Object, new: Object, keys: list[str]) -> None:
    for key in keys:
        if key in old:
            new[key] = old[key]
        else:
            new.pop(key, None)
