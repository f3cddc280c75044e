"""Label and field selectors. Pure: a selector's text becomes a predicate of an object."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from clusters.embedded.apiserver import label_selectors
from clusters.embedded.apiserver.api_objects import Object, labels_of
from clusters.embedded.apiserver.refusals import bad_request
from clusters.resources import EVENTS, EVENTS_V1, NAMESPACES, NODES, PODS, Resource

Predicate = Callable[[Object], bool]

# The first sign that can be an operator; what stands before it is the field.
_FIELD: Final = re.compile(r"([^=!]*)(==|!=|=)(.*)", re.DOTALL)
# A comma without a backslash before it.
_COMMA: Final = re.compile(r"(?<!\\),")

_GENERIC: Final = frozenset({"metadata.name", "metadata.namespace"})
_FIELDS: Final[dict[Resource, frozenset[str]]] = {
    PODS: frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    NODES: frozenset({"spec.unschedulable"}),
    NAMESPACES: frozenset({"status.phase"}),
    EVENTS: frozenset(
        {
            f"involvedObject.{each}"
            for each in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        }
        | {"reason", "type", "source", "reportingComponent"}
    ),
    EVENTS_V1: frozenset(
        {
            f"regarding.{each}"
            for each in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        }
        | {"reason", "type", "reportingController"}
    ),
}
_FALSE_WHEN_ABSENT: Final = frozenset({"spec.unschedulable", "spec.hostNetwork"})


def selects_all(_: Object) -> bool:
    """The selector of a request that has none."""
    return True


def label_selector(text: str) -> Predicate:
    """The predicate of a label selector (``a=b,c!=d,e in (f,g),!h``). Raises RefusalError (400)."""
    if not text.strip():
        return selects_all
    requirements = label_selectors.parse(text)
    return lambda item: all(requirement(labels_of(item)) for requirement in requirements)


def field_selector(text: str, resource: Resource) -> Predicate:
    """The predicate of a field selector (``spec.nodeName=n,status.phase!=Failed``). Raises RefusalError (400)."""
    if not text.strip():
        return selects_all
    requirements = [_field_requirement(part, resource) for part in _COMMA.split(text) if part]
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
    if match is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    field, operator, value = match.group(1), match.group(2), _unescaped(match.group(3))
    if field not in _GENERIC | _FIELDS.get(resource, frozenset()):
        raise bad_request(
            f"field label not supported: {field}"
            if resource in _FIELDS
            else f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )
    path = field.split(".")
    if operator == "!=":
        return lambda item: _field(item, path, field) != value
    return lambda item: _field(item, path, field) == value


def _unescaped(value: str) -> str:
    """A value with its backslashes resolved. Raises RefusalError (400) for signs that need one."""
    strange = re.search(r"=", re.sub(r"\\.", "", value))
    if strange:
        raise bad_request(f"invalid field selector: unescaped character in value: {ord(strange[0])}")
    return re.sub(r"\\(.)", r"\1", value)


def _field(item: Object, path: list[str], field: str) -> str:
    value: object = item
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if value is None or value is False:
        return "false" if field in _FALSE_WHEN_ABSENT else ""
    if field == "source" and isinstance(value, dict):
        return str(value.get("component", ""))
    return "true" if value is True else str(value)
