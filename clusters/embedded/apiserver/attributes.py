"""A request as authorizers look at it: a verb on a resource or on a path. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from clusters.embedded.apiserver.api_routes import NAMESPACE_SUBRESOURCES

_VERBS: Final = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ONE_OBJECT: Final = "metadata.name="


@dataclass(frozen=True, slots=True)
class Attributes:
    """The request's verb and object; ``path`` if it is about no resource, else the rest. Empty namespace: the whole cluster."""

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def is_resource(self) -> bool:
        """Whether it is about a resource."""
        return not self.path

    @property
    def full_resource(self) -> str:
        """``pods``, or ``pods/log``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def is_on(params: Mapping[str, str], flag: str) -> bool:
    """Whether a flag of a query is on: it is there, and does not say no."""
    return flag in params and params[flag].lower() not in ("0", "false")


def attributes_of(method: str, path: str, params: Mapping[str, str]) -> Attributes:
    """The wish of a request with this path as it was sent (percent signs not resolved)."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) >= 3:
        return _of_resource(method, "", parts[2:], params)
    if parts[0] == "apis" and len(parts) >= 4:
        return _of_resource(method, parts[1], parts[3:], params)
    return Attributes(method.lower(), path=unquote(path) or "/")


def _of_resource(method: str, group: str, parts: list[str], params: Mapping[str, str]) -> Attributes:
    namespace = ""
    if parts[0] == "namespaces" and len(parts) >= 2:
        namespace = parts[1]
        if len(parts) >= 3 and parts[2] not in NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource, name, subresource = (*parts, "", "", "")[:3]
    verb = _VERBS.get(method, "")
    if not name and verb in ("get", "delete"):
        name = _selected_name(params)
        verb = "deletecollection" if verb == "delete" else _reading(params)
    return Attributes(verb, group=group, resource=resource, subresource=subresource, namespace=namespace, name=name)


def _reading(params: Mapping[str, str]) -> str:
    return "watch" if is_on(params, "watch") else "list"


def _selected_name(params: Mapping[str, str]) -> str:
    """A client that lists one object by its name needs that object's rights."""
    for part in params.get("fieldSelector", "").split(","):
        if part.startswith(_ONE_OBJECT):
            return part.removeprefix(_ONE_OBJECT).removeprefix("=")
    return ""
