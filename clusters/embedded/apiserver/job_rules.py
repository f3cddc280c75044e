"""The defaults of a Job, and the Jobs that the API server refuses. Pure.

A Job's selector and the labels of its pods come from its uid, so that no two Jobs share pods. Completion by index, a failure policy
and a success policy are refused, because the controller here does not know them.
"""

from __future__ import annotations

from typing import Final

from clusters.api.resources import Resource
from clusters.embedded.apiserver import pod_defaults, pod_validation
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.field_rules import not_allowed, required, unsupported, wrong
from clusters.embedded.apiserver.refusals import FieldError

UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
NAME_LABEL: Final = "batch.kubernetes.io/job-name"
_OLD_LABELS: Final = {"controller-uid": UID_LABEL, "job-name": NAME_LABEL}
_DEFAULTS: Final[Object] = {
    "backoffLimit": 6,
    "completionMode": "NonIndexed",
    "suspend": False,
    "podReplacementPolicy": "TerminatingOrFailed",
    "manualSelector": False,
}
_COUNTS: Final = ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
_POLICIES: Final = ("OnFailure", "Never")
_UNKNOWN: Final = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes", "managedBy")
_FROZEN: Final = ("completions", "selector", "template", "completionMode")


def set_defaults(_: Resource, item: Object) -> None:
    """Fill in the defaults, at creation and at each change."""
    spec = item.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    for key, value in _DEFAULTS.items():
        spec.setdefault(key, value)
    template = spec.setdefault("template", {})
    metadata = template.setdefault("metadata", {})
    pod_defaults.default_template(template.setdefault("spec", {}))
    names = {UID_LABEL: item["metadata"]["uid"], NAME_LABEL: item["metadata"]["name"]}
    if not spec["manualSelector"]:
        labels = names | {old: names[new] for old, new in _OLD_LABELS.items()}
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
        spec.setdefault("selector", {"matchLabels": {UID_LABEL: names[UID_LABEL]}})
    if metadata.get("labels") and not item["metadata"].get("labels"):
        item["metadata"]["labels"] = dict(metadata["labels"])


def faults(spec: Object) -> list[FieldError]:
    """The faults in the spec of a Job."""
    errors = [
        wrong(f"spec.{key}", spec[key], "must be greater than or equal to 0") for key in _COUNTS if spec.get(key, 0) < 0
    ]
    if "selector" not in spec:
        errors.append(required("spec.selector"))
    if spec["completionMode"] != "NonIndexed":
        errors.append(unsupported("spec.completionMode", spec["completionMode"], ("NonIndexed",)))
    errors += [not_allowed(f"spec.{key}", "this simulated cluster does not know it") for key in _UNKNOWN if key in spec]
    errors += pod_validation.pod_spec(spec["template"]["spec"], "spec.template.spec")
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy == "Always":
        errors.append(required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    elif policy not in _POLICIES:
        errors.append(unsupported("spec.template.spec.restartPolicy", policy, _POLICIES))
    return errors


def changes(old: Object, new: Object) -> list[FieldError]:
    """Fields that must stay as they were."""
    return [
        wrong(f"spec.{key}", new["spec"].get(key), "field is immutable")
        for key in _FROZEN
        if old["spec"].get(key) != new["spec"].get(key)
    ]
