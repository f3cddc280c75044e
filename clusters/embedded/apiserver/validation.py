"""The validity of an object of any kind, with the errors that a user of the API sees. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from clusters.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    ROLES,
    Resource,
)
from clusters.embedded.apiserver import events, field_rules, quota
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.api_selectors import matches_selector
from clusters.embedded.apiserver.field_rules import not_allowed, required, unsupported, wrong
from clusters.embedded.apiserver.pod_validation import amount, pod_spec
from clusters.embedded.apiserver.refusals import FieldError, group_of, invalid

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# Bytes of all annotations of an object together.
_MOST_ANNOTATIONS: Final = 256 * 1024
# Numbers of a Job, and what the controller here does not know: completion by index, and policies of failure and success.
_COUNTS: Final = ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
_UNKNOWN: Final = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes", "managedBy")


def validate(resource: Resource, item: Object) -> None:
    """Refuse (422) a new object that makes no sense; defaults must be in. Names every field that is wrong."""
    errors = faults(resource, item)
    if resource == EVENTS:
        errors += events.faults(item)
    if errors:
        raise invalid(resource, item["metadata"].get("name", ""), errors)


def faults(resource: Resource, item: Object, subresource: str | None = None) -> list[FieldError]:
    """The faults of an object, new or changed; a write of the status gets no errors about the rest."""
    errors = _metadata(item["metadata"], _name_rule(resource))
    if resource in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
        errors += _binding(resource, item.get("roleRef", {}))
    elif resource == RESOURCE_QUOTAS:
        errors += quota.faults(item)
    elif resource == NODES:
        errors += _node(item)
    elif resource.api_version == "apps/v1":
        errors += _workload(item["spec"])
    elif resource == PODS and subresource is None:
        errors += pod_spec(item["spec"], "spec")
    elif resource == JOBS and subresource is None:
        errors += _job(item["spec"])
    return errors


def _name_rule(resource: Resource) -> Callable[[str], list[str]]:
    """The faults of a name of this kind."""
    if group_of(resource) == group_of(CLUSTER_ROLES) or resource == EVENTS:
        return field_rules.segment_texts
    return field_rules.label_texts if resource == NAMESPACES else field_rules.subdomain_texts


def _metadata(metadata: Object, rule: Callable[[str], list[str]]) -> list[FieldError]:
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    # A dash at the end of a prefix is followed by letters.
    beginning = prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
    errors = [wrong("metadata.generateName", prefix, text) for text in rule(beginning)] if prefix else []
    if name:
        errors += [wrong("metadata.name", name, text) for text in rule(name)]
    else:
        errors.append(required("metadata.name", "name or generateName is required"))
    errors += field_rules.labels("metadata.labels", metadata.get("labels", {}))
    annotations = metadata.get("annotations", {})
    for key in annotations:
        # Annotations allow capitals in the prefix.
        errors += [wrong("metadata.annotations", key, text) for text in field_rules.qualified_name(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MOST_ANNOTATIONS:
        text = f"Too long: may not be more than {_MOST_ANNOTATIONS} bytes"
        errors.append(FieldError("metadata.annotations", "FieldValueTooLong", text))
    return errors


def _binding(resource: Resource, reference: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    if reference.get("apiGroup") != group_of(ROLES):
        errors.append(unsupported("roleRef.apiGroup", reference.get("apiGroup", ""), (group_of(ROLES),)))
    kinds = (ROLES.kind, CLUSTER_ROLES.kind) if resource == ROLE_BINDINGS else (CLUSTER_ROLES.kind,)
    if reference.get("kind", "") not in kinds:
        errors.append(unsupported("roleRef.kind", reference.get("kind", ""), kinds))
    return errors if reference.get("name") else [*errors, required("roleRef.name")]


def _node(item: Object) -> list[FieldError]:
    errors = [
        error
        for part in ("capacity", "allocatable")
        for name, text in item.get("status", {}).get(part, {}).items()
        for error in amount(name, text, f"status.{part}.{name}")
    ]
    taints = item.get("spec", {}).get("taints", [])
    for at, taint in enumerate(taints):
        errors += _taint(taint, taints[:at], f"metadata.taints[{at}]")
    return errors


def _taint(taint: Object, before: list[Object], path: str) -> list[FieldError]:
    key, effect = taint.get("key", ""), taint.get("effect", "")
    errors = [wrong(f"{path}.key", key, text) for text in field_rules.qualified_name(key)]
    if not effect:
        errors.append(required(f"{path}.effect"))
    elif effect not in _EFFECTS:
        errors.append(unsupported(f"{path}.effect", effect, _EFFECTS))
    if any((each.get("key"), each.get("effect")) == (key, effect) for each in before):
        errors.append(FieldError(path, "FieldValueDuplicate", "Duplicate value: taints are unique by key and effect"))
    return errors


def _workload(spec: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.get("replicas", 0) < 0:
        errors.append(wrong("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
    selector = spec.get("selector", {})
    is_empty = "selector" in spec and not selector.get("matchLabels") and not selector.get("matchExpressions")
    if is_empty:
        errors.append(wrong("spec.selector", {}, "an empty selector is invalid"))
    elif "selector" not in spec:
        errors.append(required("spec.selector"))
    labels = spec["template"]["metadata"].get("labels", {})
    errors += field_rules.labels("spec.template.labels", labels)
    if not is_empty and (not selector or not matches_selector(selector, labels)):
        errors.append(wrong("spec.template.metadata.labels", labels, "`selector` does not match template `labels`"))
    return errors + _template(spec, ("Always",))


def _job(spec: Object) -> list[FieldError]:
    errors = [
        wrong(f"spec.{key}", spec[key], "must be greater than or equal to 0") for key in _COUNTS if spec.get(key, 0) < 0
    ]
    if "selector" not in spec:
        errors.append(required("spec.selector"))
    if spec["completionMode"] != "NonIndexed":
        errors.append(unsupported("spec.completionMode", spec["completionMode"], ("NonIndexed",)))
    errors += [not_allowed(f"spec.{key}", "this simulated cluster does not know it") for key in _UNKNOWN if key in spec]
    return errors + _template(spec, ("OnFailure", "Never"))


def _template(spec: Object, policies: tuple[str, ...]) -> list[FieldError]:
    errors, policy = pod_spec(spec["template"]["spec"], "spec.template.spec"), spec["template"]["spec"]["restartPolicy"]
    if policy == "Always" and policy not in policies:
        errors.append(required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    elif policy not in policies:
        errors.append(unsupported("spec.template.spec.restartPolicy", policy, policies))
    return errors
