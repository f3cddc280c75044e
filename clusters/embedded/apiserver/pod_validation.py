"""The validity of a pod's spec, and of its changes. Pure; every error in one answer, with the path of its field."""

from __future__ import annotations

from typing import Any, Final

from clusters.amounts import is_extended_resource
from clusters.embedded.apiserver import field_rules
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.api_quantities import parse
from clusters.embedded.apiserver.field_rules import not_allowed, required, unsupported, wrong
from clusters.embedded.apiserver.refusals import FieldError

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS: Final = ("Equal", "Exists")
_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE: Final = "hugepages-"
_NOT_EXTENDED: Final = "doesn't follow extended resource name standard"


def pod_spec(spec: Object, path: str) -> list[FieldError]:
    """The spec of a pod or of a template at ``path``. Defaults must be filled in."""
    errors = _volumes(spec.get("volumes", []), f"{path}.volumes")
    if not spec.get("containers"):
        errors.append(required(f"{path}.containers"))
    names: set[str] = set()
    volumes = {volume.get("name") for volume in spec.get("volumes", [])}
    for part in ("containers", "initContainers"):
        for at, container in enumerate(spec.get(part, [])):
            errors += _container(container, f"{path}.{part}[{at}]", names, volumes)
    if spec["restartPolicy"] not in _RESTART_POLICIES:
        errors.append(unsupported(f"{path}.restartPolicy", spec["restartPolicy"], _RESTART_POLICIES))
    return errors + _placing(spec, path)


def _image(container: Object, path: str) -> list[FieldError]:
    """The image of a container."""
    text = container.get("image", "")
    if not text:
        return [required(f"{path}.image")]
    if text != text.strip():
        return [wrong(f"{path}.image", text, "must not have leading or trailing whitespace")]
    return []


def _placing(spec: Object, path: str) -> list[FieldError]:
    """Where the pod may be, and for how long."""
    errors = field_rules.labels(f"{path}.nodeSelector", spec.get("nodeSelector", {}))
    if spec.get("nodeName"):
        errors += field_rules.dns_subdomain(f"{path}.nodeName", spec["nodeName"])
    for at, toleration in enumerate(spec.get("tolerations", [])):
        errors += _toleration(toleration, f"{path}.tolerations[{at}]")
    return errors


def _toleration(toleration: Object, path: str) -> list[FieldError]:
    operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
    errors = [unsupported(f"{path}.operator", operator, _OPERATORS)] if operator not in ("", *_OPERATORS) else []
    return errors + ([unsupported(f"{path}.effect", effect, _EFFECTS)] if effect not in ("", *_EFFECTS) else [])


def _container(container: Object, path: str, names: set[str], volumes: set[Any]) -> list[FieldError]:
    name = container.get("name", "")
    errors = field_rules.dns_label(f"{path}.name", name) if name else [required(f"{path}.name")]
    if name and name in names:
        errors.append(_twice(f"{path}.name", name))
    names.add(name)
    errors += _image(container, path)
    if container["imagePullPolicy"] not in _PULL_POLICIES:
        errors.append(unsupported(f"{path}.imagePullPolicy", container["imagePullPolicy"], _PULL_POLICIES))
    errors += _ports(container.get("ports", []), f"{path}.ports")
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


def _ports(ports: list[Object], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for at, port in enumerate(ports):
        number = port.get("containerPort", 0)
        if not number:
            errors.append(required(f"{path}[{at}].containerPort"))
        elif not 0 < number < 65536:
            errors.append(wrong(f"{path}[{at}].containerPort", number, "must be between 1 and 65535, inclusive"))
    return errors


def _volumes(volumes: list[Object], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names = [volume.get("name", "") for volume in volumes]
    for at, (name, volume) in enumerate(zip(names, volumes, strict=True)):
        more = sorted(set(volume) - {"name"})[1:]
        errors += [not_allowed(f"{path}[{at}].{key}", "may not specify more than 1 volume type") for key in more]
        where = f"{path}[{at}].name"
        errors += field_rules.dns_label(where, name) if name else [required(where)]
        if name and name in names[:at]:
            errors.append(_twice(where, name))
    return errors


def _twice(field: str, value: str) -> FieldError:
    return FieldError(field, "FieldValueDuplicate", f'Duplicate value: "{value}"')


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
