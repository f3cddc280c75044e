"""The validity of an object, with the errors that a user of the API sees. Pure."""

from __future__ import annotations

from typing import Final

from clusters.api.resources import (
    EVENTS,
    EVENTS_V1,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    Resource,
)
from clusters.embedded.apiserver import (
    events,
    field_rules,
    job_rules,
    metadata_rules,
    pod_validation,
    quota,
    rbac_rules,
    resource_rules,
)
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.api_selectors import matches_selector
from clusters.embedded.apiserver.field_rules import required, unsupported, wrong
from clusters.embedded.apiserver.refusals import FieldError, invalid

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate(resource: Resource, item: Object) -> None:
    """Refuse (422) a new object that makes no sense; defaults must be in. Names every field that is wrong."""
    errors = metadata_rules.of_object(item, name_rule(resource)) + faults(resource, item)
    if resource in (EVENTS, EVENTS_V1):
        errors += events.new_event(resource, item)
    if errors:
        raise invalid(resource, item["metadata"].get("name", ""), errors)


def faults(resource: Resource, item: Object, subresource: str | None = None) -> list[FieldError]:
    """The faults of an object, new or old; a write of the status gets no errors about the rest."""
    errors = rbac_rules.validate(resource, item) + (quota.faults(item) if resource == RESOURCE_QUOTAS else [])
    if resource == PODS:
        errors += pod_validation.pod_spec(item["spec"], "spec") if subresource is None else []
    elif resource == NODES:
        errors += _node(item)
    elif resource.api_version == "apps/v1":
        errors += _workload(item["spec"])
    elif resource == JOBS:
        errors += job_rules.faults(item["spec"]) if subresource is None else []
    return errors


def name_rule(resource: Resource) -> metadata_rules.NameRule:
    """The faults of a name of this kind."""
    if resource.api_version == rbac_rules.GROUP_VERSION or resource == EVENTS:
        return field_rules.segment_texts
    return field_rules.label_texts if resource == NAMESPACES else field_rules.subdomain_texts


def _node(item: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    status = item.get("status", {})
    for part in ("capacity", "allocatable"):
        errors += resource_rules.amounts(status.get(part, {}), f"status.{part}")
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
    errors += pod_validation.pod_spec(spec["template"]["spec"], "spec.template.spec")
    if spec["template"]["spec"]["restartPolicy"] != "Always":
        policy = spec["template"]["spec"]["restartPolicy"]
        errors.append(unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    return errors
