"""Label and field selectors. Pure: a selector's text becomes a predicate of an object."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from clusters.api.resources import EVENTS, NAMESPACES, NODES, PODS, Resource
from clusters.embedded.apiserver.api_objects import Object, labels_of
from clusters.embedded.apiserver.field_rules import label_value_texts, qualified_name
from clusters.embedded.apiserver.refusals import bad_request

Labels = dict[str, str]
Predicate = Callable[[Object], bool]

# The first sign that can be an operator; what stands before it is the field.
_FIELD: Final = re.compile(r"([^=!]*)(==|!=|=)(.*)", re.DOTALL)
# One requirement of a label selector up to the comma behind it: ``!key``, ``key``, ``key=value``, ``key in (a,b)``.
_WORD: Final = r"[^\s=!(),<>]"
_LABELS: Final = re.compile(
    rf"\s*(?:(?P<absent>!)\s*)?(?P<key>{_WORD}+)"
    rf"(?:\s*(?P<exact>==|!=|=)\s*(?P<value>{_WORD}*)|\s+(?P<set>in|notin)\s*\((?P<values>[^=!()<>]*)\))?"
    r"\s*(?:,(?=\s*[^\s,])|$)"
)
_GENERIC: Final = frozenset({"metadata.name", "metadata.namespace"})
_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS: Final[dict[Resource, frozenset[str]]] = {
    PODS: frozenset({"spec.nodeName", "spec.schedulerName", "status.phase", "status.podIP"}),
    NODES: frozenset({"spec.unschedulable"}),
    NAMESPACES: frozenset({"status.phase"}),
    EVENTS: frozenset(f"involvedObject.{each}" for each in _REFERENCE) | {"reason", "type"},
}


def selects_all(_: Object) -> bool:
    """The selector of a request that has none."""
    return True


def label_selector(text: str) -> Predicate:
    """The predicate of a label selector (``a=b,c!=d,e in (f,g),!h``). Raises RefusalError (400)."""
    if not text.strip():
        return selects_all
    requirements, at = [], 0
    while at < len(text):
        match = _LABELS.match(text, at)
        if match is None:
            raise bad_request(f"unable to parse label selector {text!r}: no requirement at {text[at:]!r}")
        requirements.append(_label_requirement(match))
        at = match.end()
    return lambda item: all(requirement(labels_of(item)) for requirement in requirements)


def _label_requirement(match: re.Match[str]) -> Callable[[Labels], bool]:
    key, operator = match["key"], match["exact"] or match["set"]
    values = {each.strip() for each in (match["values"] or "").split(",")} if match["set"] else {match["value"] or ""}
    wrong = [*qualified_name(key), *(text for value in values for text in label_value_texts(value))]
    if wrong or (match["absent"] and operator):
        raise bad_request(f"unable to parse requirement {match[0].strip()!r}: {'; '.join(wrong)}")
    if operator is None:
        return lambda labels: (key not in labels) == bool(match["absent"])
    return lambda labels: (labels.get(key) in values) == (operator not in ("!=", "notin"))


def field_selector(text: str, resource: Resource) -> Predicate:
    """The predicate of a field selector (``spec.nodeName=n,status.phase!=Failed``). Raises RefusalError (400)."""
    if not text.strip():
        return selects_all
    requirements = [_field_requirement(part, resource) for part in text.split(",") if part]
    return lambda item: all(requirement(item) for requirement in requirements)


def both(first: Predicate, second: Predicate) -> Predicate:
    """The objects that both select; costs nothing if one selects all."""
    if first is selects_all:
        return second
    if second is selects_all:
        return first
    return lambda item: first(item) and second(item)


def matches_selector(selector: Object, labels: dict[str, str]) -> bool:
    """Whether labels match a ``metav1.LabelSelector`` object; one that is empty matches everything."""
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _matches_expression(each, labels) for each in selector.get("matchExpressions") or []
    )


def _matches_expression(expression: Object, labels: dict[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or []
    return {
        "In": labels.get(key) in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }.get(expression.get("operator", ""), False)


def _field_requirement(text: str, resource: Resource) -> Predicate:
    match = _FIELD.fullmatch(text)
    if match is None or "=" in match[3]:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    field, operator, value = match.groups()
    if field not in _GENERIC | _FIELDS.get(resource, frozenset()):
        raise bad_request(
            f"field label not supported: {field}"
            if resource in _FIELDS
            else f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )
    path = field.split(".")
    if operator == "!=":
        return lambda item: _field(item, path) != value
    return lambda item: _field(item, path) == value


def _field(item: Object, path: list[str]) -> str:
    value: object = item
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if value is None or value is False:
        return "false" if path[-1] == "unschedulable" else ""
    return "true" if value is True else str(value)
