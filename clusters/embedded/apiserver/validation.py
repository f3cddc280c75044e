"""The validity of an object, with the errors that a user of the API sees. Pure."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Final

from clusters.api.resources import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    EVENTS_V1,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
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
from clusters.embedded.apiserver.field_rules import not_allowed, required, unsupported, wrong
from clusters.embedded.apiserver.refusals import FieldError, invalid

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# Bytes of all values of a ConfigMap together.
_MOST_DATA: Final = 1024 * 1024
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")


def validate(resource: Resource, item: Object) -> None:
    """Refuse (422) a new object that makes no sense; defaults must be in. Names every field that is wrong."""
    errors = metadata_rules.of_new(resource, item, name_rule(resource)) + faults(resource, item)
    if resource == PODS:
        errors += pod_validation.new_pod(item)
    elif resource in (EVENTS, EVENTS_V1):
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
        errors += _workload(resource, item["spec"])
    elif resource == JOBS:
        errors += job_rules.faults(item["spec"]) if subresource is None else []
    elif resource == LEASES:
        errors += _lease(item.get("spec", {}))
    elif resource == CONFIG_MAPS:
        errors += _config_map(item)
    return errors


def _config_map(item: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    data, binary = item.get("data", {}), item.get("binaryData", {})
    for part, values in (("data", data), ("binaryData", binary)):
        for key in sorted(values):
            errors += [wrong(f"{part}[{key}]", key, text) for text in _config_key(key)]
            if part == "data" and key in binary:
                errors.append(wrong(f"data[{key}]", key, "duplicate of key present in binaryData"))
    size = sum(len(each.encode()) for each in data.values()) + sum(len(b64decode(each)) for each in binary.values())
    if size > _MOST_DATA:
        errors.append(FieldError("[]", "FieldValueTooLong", f"Too long: may not be more than {_MOST_DATA} bytes"))
    return errors


def _config_key(key: str) -> list[str]:
    if len(key) > 253:
        return ["must be no more than 253 characters"]
    is_key = _CONFIG_KEY.fullmatch(key) and key != "." and not key.startswith("..")
    return [] if is_key else ["must consist of alphanumeric characters, '-', '_' or '.', and be no path"]


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


def _workload(resource: Resource, spec: Object) -> list[FieldError]:
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
    return errors + _strategy(resource, spec)


def _strategy(resource: Resource, spec: Object) -> list[FieldError]:
    if resource == DEPLOYMENTS:
        return _deployment_strategy(spec["strategy"])
    if resource == REPLICA_SETS:
        return []
    kind, known, errors = spec["updateStrategy"]["type"], ("RollingUpdate", "OnDelete"), []
    if kind not in known and resource == DAEMON_SETS:
        errors.append(unsupported("spec.updateStrategy", kind, known))
    elif kind not in known:
        errors.append(wrong("spec.updateStrategy", kind, "must be 'RollingUpdate' or 'OnDelete'"))
    policy = spec.get("podManagementPolicy", "Parallel")
    if policy not in ("OrderedReady", "Parallel"):
        errors.append(wrong("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    return errors


def _deployment_strategy(strategy: Object) -> list[FieldError]:
    kind, known = strategy["type"], ("Recreate", "RollingUpdate")
    if kind not in known:
        return [unsupported("spec.strategy", kind, known)]
    rolling = strategy.get("rollingUpdate", {})
    if kind == "Recreate" and rolling:
        return [not_allowed("spec.strategy.rollingUpdate", "may not be specified when the type is 'Recreate'")]
    if kind == "RollingUpdate" and rolling["maxSurge"] in (0, "0%") and rolling["maxUnavailable"] in (0, "0%"):
        field, value = "spec.strategy.rollingUpdate.maxUnavailable", rolling["maxUnavailable"]
        return [wrong(field, value, "may not be 0 when maxSurge is 0")]
    return []


def _lease(spec: Object) -> list[FieldError]:
    bounds = (("leaseDurationSeconds", 1), ("leaseTransitions", 0))
    return [
        wrong(f"spec.{key}", spec[key], f"must be {least} or more")
        for key, least in bounds
        if spec.get(key, least) < least
    ]
