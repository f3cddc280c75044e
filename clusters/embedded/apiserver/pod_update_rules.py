"""The changes that the spec of an existing pod allows. Pure."""

from __future__ import annotations

from typing import Any

from clusters.embedded.apiserver import pod_validation
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.field_rules import not_allowed, wrong
from clusters.embedded.apiserver.refusals import FieldError

_MUTABLE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check(old: Object, new: Object) -> list[FieldError]:
    """An existing pod and its new version."""
    errors = check_spec(old["spec"], new["spec"])
    quality = (new.get("status") or {}).get("qosClass")
    if quality and quality != (old.get("status") or {}).get("qosClass"):
        errors.append(wrong("status.qosClass", quality, "field is immutable"))
    nominated = (new.get("status") or {}).get("nominatedNodeName", "")
    if new["spec"].get("nodeName") and nominated not in ("", (old.get("status") or {}).get("nominatedNodeName", "")):
        text = "may not be set on pods that are already bound to a node"
        errors.append(not_allowed("status.nominatedNodeName", text))
    return errors


def check_spec(old: Object, new: Object) -> list[FieldError]:
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
        for error in pod_validation.image(container, f"spec.{part}[{at}]")
    ]
    if any(each not in new.get("tolerations", []) for each in old.get("tolerations", [])):
        errors.append(
            not_allowed("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
        )
    gates = [each["name"] for each in old.get("schedulingGates", [])]
    errors += [
        not_allowed(
            f"spec.schedulingGates[{at}].name",
            f"only deletion is allowed, but found new scheduling gate '{each['name']}'",
        )
        for at, each in enumerate(new.get("schedulingGates", []))
        if each["name"] not in gates
    ]
    if _frozen(old, gated=bool(gates)) != _frozen(new, gated=bool(gates)):
        errors.append(not_allowed("spec", _MUTABLE_TEXT))
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
