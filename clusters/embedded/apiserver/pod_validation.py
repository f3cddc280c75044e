"""Whether a pod's spec makes sense. Pure; every error at once, with the path of its field."""

from __future__ import annotations

from typing import Final

from clusters.embedded.apiserver import field_rules
from clusters.embedded.apiserver.field_rules import not_allowed, required, unsupported, wrong
from clusters.embedded.apiserver.objects import Object
from clusters.embedded.apiserver.quantities import parse
from clusters.embedded.apiserver.refusals import FieldError

_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")


def pod_spec(spec: Object, path: str) -> list[FieldError]:
    """The spec of a pod or of a template; ``path`` is where it stands. Defaults must be in."""
    errors: list[FieldError] = []
    if not spec.get("containers"):
        errors.append(required(f"{path}.containers"))
    names: set[str] = set()
    for part in ("initContainers", "containers"):
        for at, container in enumerate(spec.get(part, [])):
            errors += _container(container, f"{path}.{part}[{at}]", names)
    if spec["restartPolicy"] not in _RESTART_POLICIES:
        errors.append(unsupported(f"{path}.restartPolicy", spec["restartPolicy"], _RESTART_POLICIES))
    errors += field_rules.labels(f"{path}.nodeSelector", spec.get("nodeSelector", {}))
    if spec.get("nodeName"):
        errors += field_rules.dns_subdomain(f"{path}.nodeName", spec["nodeName"])
    errors += _volumes(spec, path)
    return errors


def new_pod(pod: Object) -> list[FieldError]:
    """What holds for a pod that is being created only."""
    spec = pod["spec"]
    if spec.get("schedulingGates") and spec.get("nodeName"):
        return [not_allowed("spec.nodeName", "cannot be set until all schedulingGates have been cleared")]
    return []


def extended(name: str) -> bool:
    """Whether a resource is one of a vendor: counted in whole numbers, and never over-committed."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def amounts(amounts_of: Object, path: str, form: str = "{path}[{name}]") -> list[FieldError]:
    """A list of resources: names, signs, and whole numbers where only these make sense; ``form``: how a field is told."""
    errors: list[FieldError] = []
    for name, text in amounts_of.items():
        field = form.format(path=path, name=name)
        errors += [wrong(field, name, each) for each in field_rules.qualified_name(name)]
        value = parse(text)
        if value < 0:
            errors.append(wrong(field, text, "must be greater than or equal to 0"))
        elif extended(name) and value != value.to_integral_value():
            errors.append(wrong(field, text, "must be an integer"))
    return errors


def _container(container: Object, path: str, names: set[str]) -> list[FieldError]:
    name = container.get("name", "")
    errors = field_rules.dns_label(f"{path}.name", name) if name else [required(f"{path}.name")]
    if name and name in names:
        errors.append(FieldError(f"{path}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"'))
    names.add(name)
    if not container.get("image", "").strip():
        errors.append(required(f"{path}.image"))
    if container["imagePullPolicy"] not in _PULL_POLICIES:
        errors.append(unsupported(f"{path}.imagePullPolicy", container["imagePullPolicy"], _PULL_POLICIES))
    for at, variable in enumerate(container.get("env", [])):
        if not variable.get("name"):
            errors.append(required(f"{path}.env[{at}].name"))
    for at, port in enumerate(container.get("ports", [])):
        errors += _port(f"{path}.ports[{at}].containerPort", port.get("containerPort", 0))
    return errors + _resources(container["resources"], f"{path}.resources")


def _port(field: str, number: int) -> list[FieldError]:
    if not number:
        return [required(field)]
    return [] if 0 < number < 65536 else [wrong(field, number, "must be between 1 and 65535, inclusive")]


def _resources(resources: Object, path: str) -> list[FieldError]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    errors = amounts(limits, f"{path}.limits") + amounts(requests, f"{path}.requests")
    for part, listed in (("limits", limits), ("requests", requests)):
        errors += [
            wrong(f"{path}.{part}[{name}]", name, "must be a standard resource for containers")
            for name in listed
            if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-")
        ]
    for name, text in requests.items():
        errors += _request(name, text, limits.get(name), path)
    return errors


def _request(name: str, text: str, limit: str | None, path: str) -> list[FieldError]:
    strict = extended(name) or name.startswith("hugepages-")
    if limit is None:
        return [required(f"{path}.limits", "Limit must be set for non overcommitable resources")] if strict else []
    if strict and parse(text) != parse(limit):
        return [wrong(f"{path}.requests", text, f"must be equal to {name} limit of {limit}")]
    if parse(text) > parse(limit):
        return [wrong(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limit}")]
    return []


def _volumes(spec: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for at, volume in enumerate(spec.get("volumes", [])):
        name = volume.get("name", "")
        where = f"{path}.volumes[{at}].name"
        errors += field_rules.dns_label(where, name) if name else [required(where)]
    return errors
