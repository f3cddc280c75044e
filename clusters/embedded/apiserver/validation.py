"""The validity of an object of any kind, with the errors that a user of the API sees. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from clusters.amounts import is_extended_resource
from clusters.api.resources import CLUSTER_ROLES, EVENTS, JOBS, NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, Resource
from clusters.embedded.apiserver import api_admission, field_rules
from clusters.embedded.apiserver.api_objects import Object, namespace_of, parse
from clusters.embedded.apiserver.api_selectors import matches_selector
from clusters.embedded.apiserver.field_rules import not_allowed, required, unsupported, wrong
from clusters.embedded.apiserver.refusals import FieldError, group_of, invalid

_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE: Final = "hugepages-"
_NOT_EXTENDED: Final = "doesn't follow extended resource name standard"
# The namespaces of events about objects of the whole cluster.
_FOR_CLUSTER: Final = ("default", "kube-system")


def pod_spec(spec: Object, path: str) -> list[FieldError]:
    """The spec of a pod or of a template at ``path``. Defaults must be filled in."""
    errors = [] if spec.get("containers") else [required(f"{path}.containers")]
    names: set[str] = set()
    volumes = {volume.get("name") for volume in spec.get("volumes", [])}
    for part in ("containers", "initContainers"):
        for at, container in enumerate(spec.get(part, [])):
            errors += _container(container, f"{path}.{part}[{at}]", names, volumes)
    errors += field_rules.labels(f"{path}.nodeSelector", spec.get("nodeSelector", {}))
    return errors + (field_rules.dns_subdomain(f"{path}.nodeName", spec["nodeName"]) if spec.get("nodeName") else [])


def _image(container: Object, path: str) -> list[FieldError]:
    return [] if container.get("image") else [required(f"{path}.image")]


def _container(container: Object, path: str, names: set[str], volumes: set[Any]) -> list[FieldError]:
    name = container.get("name", "")
    errors = field_rules.dns_label(f"{path}.name", name) if name else [required(f"{path}.name")]
    if name and name in names:
        errors.append(FieldError(f"{path}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"'))
    names.add(name)
    errors += _image(container, path)
    for at, mount in enumerate(container.get("volumeMounts", [])):
        if mount.get("name") not in volumes:
            found = f'Not found: "{mount.get("name", "")}"'
            errors.append(FieldError(f"{path}.volumeMounts[{at}].name", "FieldValueNotFound", found))
    return errors + _resources(container["resources"], f"{path}.resources")


def _resources(resources: Object, path: str) -> list[FieldError]:
    """Limits and requests of a container."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    errors: list[FieldError] = []
    for name, text in limits.items():
        errors += _named_amount(name, text, f"{path}.limits[{name}]")
    for name, text in requests.items():
        errors += _named_amount(name, text, f"{path}.requests[{name}]")
        errors += _request(name, text, limits.get(name), path)
    return errors


def _named_amount(name: str, text: str, field: str) -> list[FieldError]:
    errors = [wrong(field, name, each) for each in [*field_rules.qualified_name(name), *_name_texts(name)]]
    return errors + amount(name, text, field)


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _name_texts(name: str) -> list[str]:
    if "/" in name:
        return [] if _is_native(name) or is_extended_resource(name) else [_NOT_EXTENDED]
    if name.startswith(_HUGE):
        return []
    return [] if name in _RESOURCES else ["must be cpu, memory or ephemeral-storage, or have a domain"]


def amount(name: str, text: str, field: str) -> list[FieldError]:
    """An amount of a container or a node: its sign, and a whole number for the resources that need it."""
    value = parse(text)
    errors = [wrong(field, text, "must be greater than or equal to 0")] if value < 0 else []
    if is_extended_resource(name) and value.denominator != 1:
        errors.append(wrong(field, text, "must be an integer"))
    return errors


def _request(name: str, text: str, limit: str | None, path: str) -> list[FieldError]:
    strict = not _is_native(name) or name.startswith(_HUGE)
    if limit is None:
        return [required(f"{path}.limits", "Limit must be set for non overcommitable resources")] if strict else []
    if strict and parse(text) != parse(limit):
        return [wrong(f"{path}.requests", text, f"must be equal to {name} limit of {limit}")]
    if parse(text) > parse(limit):
        return [wrong(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limit}")]
    return []


def changes(old: Object, new: Object) -> list[FieldError]:
    """The changes of a spec that an existing pod does not allow.

    Allowed are images, the deadline, more tolerations, fewer scheduling gates; while there are gates, the node selector too.
    """
    if old == new:
        return []
    for part in ("containers", "initContainers"):
        if len(old.get(part, [])) != len(new.get(part, [])):
            return [not_allowed(f"spec.{part}", "pod updates may not add or remove containers")]
    errors = [
        error
        for part in ("containers", "initContainers")
        for at, container in enumerate(new.get(part, []))
        for error in _image(container, f"spec.{part}[{at}]")
    ]
    if any(each not in new.get("tolerations", []) for each in old.get("tolerations", [])):
        errors.append(not_allowed("spec.tolerations", "an existing toleration cannot change"))
    gates = [each["name"] for each in old.get("schedulingGates", [])]
    errors += [
        not_allowed(f"spec.schedulingGates[{at}].name", "only deletion is allowed")
        for at, each in enumerate(new.get("schedulingGates", []))
        if each["name"] not in gates
    ]
    if _frozen(old, gated=bool(gates)) != _frozen(new, gated=bool(gates)):
        errors.append(
            not_allowed("spec", "only images, activeDeadlineSeconds, more tolerations and fewer scheduling gates")
        )
    return errors


def _frozen(spec: Object, *, gated: bool) -> Any:
    loose = {"activeDeadlineSeconds", "tolerations", "schedulingGates"} | (
        {"nodeSelector", "affinity"} if gated else set()
    )
    kept = {key: value for key, value in spec.items() if key not in loose}
    for part in ("containers", "initContainers"):
        if part in kept:
            kept[part] = [{key: value for key, value in each.items() if key != "image"} for each in kept[part]]
    return kept


# Bytes of all annotations of an object together.
_MOST_ANNOTATIONS: Final = 256 * 1024
# Numbers of a Job, and what the controller here does not know: completion by index, and policies of failure and success.
_COUNTS: Final = ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
_UNKNOWN: Final = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes", "managedBy")


def validate(resource: Resource, item: Object) -> None:
    """Refuse (422) a new object that makes no sense; defaults must be in. Names every field that is wrong."""
    errors = faults(resource, item)
    if resource == EVENTS:
        errors += _event(item)
    if errors:
        raise invalid(resource, item["metadata"].get("name", ""), errors)


def faults(resource: Resource, item: Object, subresource: str | None = None) -> list[FieldError]:
    """The faults of an object, new or changed; a write of the status gets no errors about the rest."""
    errors = _metadata(item["metadata"], _name_rule(resource))
    if resource == RESOURCE_QUOTAS:
        errors += api_admission.faults(item)
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


def _node(item: Object) -> list[FieldError]:
    return [
        error
        for part in ("capacity", "allocatable")
        for name, text in item.get("status", {}).get(part, {}).items()
        for error in amount(name, text, f"status.{part}.{name}")
    ]


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


def _event(item: Object) -> list[FieldError]:
    about = item.get("involvedObject")
    there, namespace = about.get("namespace", "") if isinstance(about, dict) else "", namespace_of(item)
    is_lost = there != namespace and not item.get("eventTime") if there else namespace not in _FOR_CLUSTER
    return [wrong("involvedObject.namespace", there, "does not match event.namespace")] if is_lost else []
