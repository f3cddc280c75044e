"""All kinds of all groups in one document, which clients that know of it ask for. Pure."""

from __future__ import annotations

from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.discovery import groups, resource_list
from clusters.embedded.apiserver.representation import clauses

_GROUP: Final = "apidiscovery.k8s.io"
_KIND: Final = "APIGroupDiscoveryList"
_VERSIONS: Final = ("v2", "v2beta1")


def wanted_version(accept: str) -> str:
    """The version of the document that a client wants before any other; empty if it wants another document."""
    for clause in clauses(accept):
        if clause.type != "application/json" or "as" not in clause.parameters:
            return ""
        found = clause.parameters
        if (found["as"], found.get("g")) == (_KIND, _GROUP) and found.get("v") in _VERSIONS:
            return found["v"]
    return ""


def aggregated(path: str, version: str) -> Object | None:
    """The document below ``/api`` or ``/apis``; None for another path."""
    if path == "/api":
        items = [_item("", "v1")]
    elif path == "/apis":
        items = [_item(group, f"{group}/v1") for group in groups()]
    else:
        return None
    return {"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "metadata": {}, "items": items}


def media_type(version: str) -> str:
    """The headers of the answer."""
    return f"application/json;g={_GROUP};v={version};as={_KIND}"


def _item(group: str, api_version: str) -> Object:
    entries = resource_list(api_version)["resources"]
    resources = [_resource(entry, entries, group) for entry in entries if "/" not in entry["name"]]
    versions = [{"version": "v1", "resources": resources, "freshness": "Current"}]
    return {"metadata": {"name": group} if group else {}, "versions": versions}


def _resource(entry: Object, entries: list[Object], group: str) -> Object:
    name = entry["name"]
    resource: Object = {
        "resource": name,
        "responseKind": _kind(entry, group),
        "scope": "Namespaced" if entry["namespaced"] else "Cluster",
        "singularResource": entry["singularName"],
        "verbs": entry["verbs"],
    }
    resource |= {key: entry[key] for key in ("shortNames", "categories") if key in entry}
    parts: list[Any] = [
        {
            "subresource": each["name"].removeprefix(f"{name}/"),
            "responseKind": _kind(each, group),
            "verbs": each["verbs"],
        }
        for each in entries
        if each["name"].startswith(f"{name}/")
    ]
    return {**resource, **({"subresources": parts} if parts else {})}


def _kind(entry: Object, group: str) -> Object:
    return {"group": entry.get("group", group), "version": entry.get("version", "v1"), "kind": entry["kind"]}
