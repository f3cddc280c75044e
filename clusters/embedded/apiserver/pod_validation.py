"""The validity of a pod's spec, and of its changes. Pure; every error in one answer, with the path of its field."""

from __future__ import annotations

import re
from typing import Any, Final

from clusters.embedded.apiserver import field_rules, resource_rules
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.field_rules import not_allowed, required, unsupported, wrong
from clusters.embedded.apiserver.refusals import FieldError

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS: Final = ("Equal", "Exists")
_VARIABLE: Final = re.compile(r"[ -<>-~]+")
_LONGEST_DEADLINE: Final = 2**31 - 1


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


def new_pod(pod: Object) -> list[FieldError]:
    """The rules for new pods only."""
    spec = pod["spec"]
    if spec.get("schedulingGates") and spec.get("nodeName"):
        return [not_allowed("spec.nodeName", "cannot be set until all schedulingGates have been cleared")]
    return []


def image(container: Object, path: str) -> list[FieldError]:
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
    errors += _gates(spec.get("schedulingGates", []), f"{path}.schedulingGates")
    if spec.get("nodeName"):
        errors += field_rules.dns_subdomain(f"{path}.nodeName", spec["nodeName"])
    deadline = spec.get("activeDeadlineSeconds", 1)
    if not 1 <= deadline <= _LONGEST_DEADLINE:
        text = f"must be between 1 and {_LONGEST_DEADLINE}, inclusive"
        errors.append(wrong(f"{path}.activeDeadlineSeconds", deadline, text))
    for at, toleration in enumerate(spec.get("tolerations", [])):
        errors += _toleration(toleration, f"{path}.tolerations[{at}]")
    return errors


def _gates(gates: list[Object], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names = [gate.get("name", "") for gate in gates]
    for at, name in enumerate(names):
        errors += [wrong(f"{path}[{at}]", name, text) for text in field_rules.qualified_name(name)]
        if name in names[:at]:
            errors.append(_twice(f"{path}[{at}]", name))
    return errors


def _toleration(toleration: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, key, effect = (toleration.get(each, "") for each in ("operator", "key", "effect"))
    if key:
        errors += [wrong(f"{path}.key", key, text) for text in field_rules.qualified_name(key)]
    elif operator != "Exists":
        errors.append(wrong(f"{path}.operator", operator, "must be Exists when the key is empty"))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        errors.append(wrong(f"{path}.effect", effect, "must be NoExecute when tolerationSeconds is set"))
    if operator not in ("", *_OPERATORS):
        errors.append(unsupported(f"{path}.operator", operator, _OPERATORS))
    elif operator == "Exists" and toleration.get("value"):
        errors.append(wrong(f"{path}.operator", toleration["value"], "must be empty when the operator is Exists"))
    if effect and effect not in _EFFECTS:
        errors.append(unsupported(f"{path}.effect", effect, _EFFECTS))
    return errors


def _container(container: Object, path: str, names: set[str], volumes: set[Any]) -> list[FieldError]:
    name = container.get("name", "")
    errors = field_rules.dns_label(f"{path}.name", name) if name else [required(f"{path}.name")]
    if name and name in names:
        errors.append(_twice(f"{path}.name", name))
    names.add(name)
    errors += image(container, path)
    if container["imagePullPolicy"] not in _PULL_POLICIES:
        errors.append(unsupported(f"{path}.imagePullPolicy", container["imagePullPolicy"], _PULL_POLICIES))
    errors += _ports(container.get("ports", []), f"{path}.ports")
    for at, variable in enumerate(container.get("env", [])):
        errors += _variable(variable.get("name", ""), f"{path}.env[{at}].name")
    for at, mount in enumerate(container.get("volumeMounts", [])):
        if mount.get("name") not in volumes:
            found = f'Not found: "{mount.get("name", "")}"'
            errors.append(FieldError(f"{path}.volumeMounts[{at}].name", "FieldValueNotFound", found))
    return errors + resource_rules.of_container(container["resources"], f"{path}.resources")


def _variable(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    return [] if _VARIABLE.fullmatch(name) else [wrong(path, name, "must be printable ASCII without '='")]


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
    """The changes that an existing pod does not allow."""
    errors = _spec_changes(old["spec"], new["spec"])
    quality = (new.get("status") or {}).get("qosClass")
    if quality and quality != (old.get("status") or {}).get("qosClass"):
        errors.append(wrong("status.qosClass", quality, "field is immutable"))
    nominated = (new.get("status") or {}).get("nominatedNodeName", "")
    if new["spec"].get("nodeName") and nominated not in ("", (old.get("status") or {}).get("nominatedNodeName", "")):
        text = "may not be set on pods that are already bound to a node"
        errors.append(not_allowed("status.nominatedNodeName", text))
    return errors


def _spec_changes(old: Object, new: Object) -> list[FieldError]:
    """Images, the deadline, more tolerations, fewer scheduling gates; while there are gates, the node selector too."""
    if old == new:
        return []
    for part in ("containers", "initContainers"):
        if len(old.get(part, [])) != len(new.get(part, [])):
            return [not_allowed(f"spec.{part}", "pod updates may not add or remove containers")]
    errors = [
        error
        for part in ("containers", "initContainers")
        for at, container in enumerate(new.get(part, []))
        for error in image(container, f"spec.{part}[{at}]")
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
