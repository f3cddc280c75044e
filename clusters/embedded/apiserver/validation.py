"""The validity of an object, with the errors that a user of the API sees. Pure."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from ipaddress import ip_network
from typing import Final

from clusters.embedded.apiserver import (
    event_rules,
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
from clusters.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    EVENTS_V1,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    Resource,
)

_CIDR_TEXT: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# Bytes of all values of a ConfigMap together.
_MOST_DATA: Final = 1024 * 1024
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def validate(resource: Resource, item: Object) -> None:
    """Refuse (422) a new object that makes no sense; defaults must be in. Names every field that is wrong."""
    errors = metadata_rules.of_new(resource, item, name_rule(resource)) + faults(resource, item)
    if resource == PODS:
        errors += pod_validation.new_pod(item)
    elif resource in (EVENTS, EVENTS_V1):
        errors += event_rules.new_event(resource, item)
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
    if subresource == "status" and resource == DEPLOYMENTS:
        errors += _counters(item.get("status", {}))
    return errors


def _counters(status: Object) -> list[FieldError]:
    """The status of a Deployment: how many pods, and how many of these are what."""
    errors = [
        wrong(f"status.{key}", status[key], "must be greater than or equal to 0")
        for key in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
        if status.get(key, 0) < 0
    ]
    for part, whole in (("updated", ""), ("ready", ""), ("available", ""), ("available", "ready")):
        key, bound = f"{part}Replicas", f"{whole}Replicas" if whole else "replicas"
        if status.get(key, 0) > status.get(bound, 0):
            errors.append(
                wrong(
                    f"status.{key}",
                    status.get(key, 0),
                    f"cannot be greater than {'status.' if not whole else ''}{bound}",
                )
            )
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
    texts = ["must be no more than 253 characters"] if len(key) > 253 else []
    if not _CONFIG_KEY.fullmatch(key):
        return [*texts, _CONFIG_KEY_TEXT]
    if key in (".", ".."):
        return [*texts, f"must not be '{key}'"]
    return [*texts, "must not start with '..'"] if key.startswith("..") else texts


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
    for at, cidr in enumerate(item.get("spec", {}).get("podCIDRs", [])):
        if not _is_network(cidr):
            errors.append(wrong(f"spec.podCIDRs[{at}]", cidr, _CIDR_TEXT))
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
        shown = {"Key": key, "Value": taint.get("value", ""), "Effect": effect, "TimeAdded": taint.get("timeAdded")}
        text = f"{json.dumps(shown, separators=(',', ':'))}: taints must be unique by key and effect pair"
        errors.append(FieldError(path, "FieldValueDuplicate", f"Duplicate value: {text}"))
    return errors


def _is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _workload(resource: Resource, spec: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.get("replicas", 0) < 0:
        errors.append(wrong("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
    selector = spec.get("selector", {})
    is_empty = "selector" in spec and not selector.get("matchLabels") and not selector.get("matchExpressions")
    if is_empty:
        kind = {"statefulsets": "statefulset", "daemonsets": "daemonset"}.get(resource.plural, "deployment")
        errors.append(wrong("spec.selector", field_rules.Shown("{}"), f"empty selector is invalid for {kind}"))
    elif "selector" not in spec:
        errors.append(required("spec.selector"))
    labels = spec["template"]["metadata"].get("labels", {})
    errors += field_rules.labels("spec.template.labels", labels)
    if not is_empty and (not selector or not matches_selector(selector, labels)):
        shown = field_rules.Shown(json.dumps(labels or None, separators=(",", ":"), sort_keys=True))
        errors.append(wrong("spec.template.metadata.labels", shown, "`selector` does not match template `labels`"))
    errors += pod_validation.pod_spec(spec["template"]["spec"], "spec.template.spec")
    if spec["template"]["spec"]["restartPolicy"] != "Always":
        policy = spec["template"]["spec"]["restartPolicy"]
        errors.append(unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    return errors + _strategy(resource, spec)


def _strategy(resource: Resource, spec: Object) -> list[FieldError]:
    if resource.plural == "deployments":
        return _deployment_strategy(spec["strategy"])
    if resource.plural == "replicasets":
        return []
    errors = []
    kind = spec["updateStrategy"]["type"]
    shown = f'{{"Type":"{kind}","RollingUpdate":null}}'
    if kind not in ("RollingUpdate", "OnDelete") and resource.plural == "daemonsets":
        text = f'Unsupported value: {shown}: supported values: "RollingUpdate", "OnDelete"'
        errors.append(FieldError("spec.updateStrategy", "FieldValueNotSupported", text))
    elif kind not in ("RollingUpdate", "OnDelete"):
        text = "must be 'RollingUpdate' or 'OnDelete'"
        errors.append(wrong("spec.updateStrategy", field_rules.Shown(shown), text))
    policy = spec.get("podManagementPolicy", "Parallel")
    if policy not in ("OrderedReady", "Parallel"):
        errors.append(wrong("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    return errors


def _deployment_strategy(strategy: Object) -> list[FieldError]:
    kind, known = strategy["type"], ("Recreate", "RollingUpdate")
    if kind not in known:
        shown = f'{{"Type":"{kind}","RollingUpdate":null}}: supported values: "Recreate", "RollingUpdate"'
        return [FieldError("spec.strategy", "FieldValueNotSupported", f"Unsupported value: {shown}")]
    rolling = strategy.get("rollingUpdate", {})
    if kind == "Recreate" and rolling:
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [not_allowed("spec.strategy.rollingUpdate", text)]
    if kind == "RollingUpdate" and rolling["maxSurge"] in (0, "0%") and rolling["maxUnavailable"] in (0, "0%"):
        field, value = "spec.strategy.rollingUpdate.maxUnavailable", rolling["maxUnavailable"]
        return [wrong(field, value, "may not be 0 when `maxSurge` is 0")]
    return []


def _lease(spec: Object) -> list[FieldError]:
    errors = []
    if spec.get("leaseDurationSeconds", 1) <= 0:
        errors.append(wrong("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0"))
    if spec.get("leaseTransitions", 0) < 0:
        text = "must be greater than or equal to 0"
        errors.append(wrong("spec.leaseTransitions", spec["leaseTransitions"], text))
    return errors
