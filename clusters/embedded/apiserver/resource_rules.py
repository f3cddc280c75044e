"""Whether amounts of resources make sense, of a container or of a node. Pure."""

from __future__ import annotations

from typing import Final

from clusters.amounts import is_extended_resource
from clusters.embedded.apiserver import field_rules
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.api_quantities import parse
from clusters.embedded.apiserver.field_rules import required, wrong
from clusters.embedded.apiserver.refusals import FieldError

_OF_CONTAINERS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE: Final = "hugepages-"
_NOT_EXTENDED: Final = "doesn't follow extended resource name standard"


def native(name: str) -> bool:
    """Whether a resource is one of Kubernetes itself."""
    return "/" not in name or "kubernetes.io/" in name


def amounts(amounts_of: Object, path: str) -> list[FieldError]:
    """The amounts of a node: signs, and whole numbers for the resources that need them; names may be any."""
    return [error for name, text in amounts_of.items() for error in _amount(name, text, f"{path}.{name}")]


def of_container(resources: Object, path: str) -> list[FieldError]:
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
    errors += _amount(name, text, field)
    return errors


def _name_texts(name: str) -> list[str]:
    if "/" in name:
        return [] if native(name) or is_extended_resource(name) else [_NOT_EXTENDED]
    if name.startswith(_HUGE):
        return []
    return [] if name in _OF_CONTAINERS else ["must be cpu, memory or ephemeral-storage, or have a domain"]


def _amount(name: str, text: str, field: str) -> list[FieldError]:
    value = parse(text)
    errors = [wrong(field, text, "must be greater than or equal to 0")] if value < 0 else []
    if is_extended_resource(name) and value != value.to_integral_value():
        errors.append(wrong(field, text, "must be an integer"))
    return errors


def _request(name: str, text: str, limit: str | None, path: str) -> list[FieldError]:
    strict = not native(name) or name.startswith(_HUGE)
    if limit is None:
        return [required(f"{path}.limits", "Limit must be set for non overcommitable resources")] if strict else []
    if strict and parse(text) != parse(limit):
        return [wrong(f"{path}.requests", text, f"must be equal to {name} limit of {limit}")]
    if parse(text) > parse(limit):
        return [wrong(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limit}")]
    return []
