"""Whether a node is one that a pod accepts (selector, affinity) and one that accepts the pod (taints)."""

from __future__ import annotations

from clusters.api.api_client import Object

UNSCHEDULABLE_TAINT: Object = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def accepts_node(pod: Object, node: Object) -> bool:
    """Whether the node has the labels of ``nodeSelector`` and satisfies one term of the required node affinity."""
    labels = node["metadata"].get("labels") or {}
    wanted = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(term_matches(term, node) for term in required.get("nodeSelectorTerms") or [])


def term_matches(term: Object, node: Object) -> bool:
    """Whether all requirements of a term hold; a term without any matches nothing."""
    expressions = term.get("matchExpressions") or []
    by_field = term.get("matchFields") or []
    labels = node["metadata"].get("labels") or {}
    name = {"metadata.name": node["metadata"]["name"]}
    return bool(expressions or by_field) and (
        all(requirement_holds(each, labels) for each in expressions)
        and all(requirement_holds(each, name) for each in by_field)
    )


def requirement_holds(requirement: Object, labels: dict[str, str]) -> bool:
    """One requirement of a node selector term. Raises ValueError for an operator that Kubernetes does not have."""
    value = labels.get(requirement["key"])
    values = requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return is_number(value) and is_number(values[0]) and int(str(value)) > int(values[0])
        case "Lt":
            return is_number(value) and is_number(values[0]) and int(str(value)) < int(values[0])
    raise ValueError(f"node affinity operator {requirement['operator']!r} is not known")


def is_number(text: str | None) -> bool:
    """Whether Gt and Lt can compare it."""
    return text is not None and text.removeprefix("-").isdecimal()


def untolerated_taint(pod: Object, node: Object) -> Object | None:
    """The first taint that keeps the pod away. ``PreferNoSchedule`` never does."""
    for taint in (node.get("spec") or {}).get("taints") or []:
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not tolerates(pod, taint):
            return dict(taint)
    return None


def tolerates(pod: Object, taint: Object) -> bool:
    """Whether any toleration of the pod covers the taint."""
    return any(toleration_covers(toleration, taint) for toleration in pod["spec"].get("tolerations") or [])


def toleration_covers(toleration: Object, taint: Object) -> bool:
    """An empty effect or key stands for every one; without an operator the values must be equal."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return (toleration.get("value") or "") == (taint.get("value") or "")
