"""Which object of which kind a URL path means. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from clusters.api.resources import (
    ALL,
    MUTATING_ADMISSION_POLICIES,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    Resource,
)

BY_PLURAL = {(resource.api_version, resource.plural): resource for resource in ALL}
SCALED = ("deployments", "replicasets", "statefulsets")
_WITH_GENERATION = frozenset({"apps/v1", "batch/v1", MUTATING_ADMISSION_POLICIES.api_version})
PROCESS_SUBRESOURCES = frozenset({"attach", "exec", "portforward"})
POD_SUBRESOURCES = frozenset({"binding", "eviction", "log"}) | PROCESS_SUBRESOURCES
NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class Route:
    """The meaning of a path; no name: the collection; no namespace: all of them, or a kind that has none."""

    resource: Resource
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None


def route_of(path: str) -> Route | None:
    """The route of a path as it stands in the request (percent signs not resolved); None if there is nothing."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if not all(parts):
        return None
    if parts[0] == "api" and len(parts) >= 3:
        return _below(parts[1], parts[2:])
    if parts[0] == "apis" and len(parts) >= 4:
        return _below(f"{parts[1]}/{parts[2]}", parts[3:])
    return None


def _below(api_version: str, parts: list[str]) -> Route | None:
    namespace = None
    if parts[0] == "namespaces" and len(parts) >= 3 and parts[2] not in NAMESPACE_SUBRESOURCES:
        namespace, parts = parts[1], parts[2:]
    resource = BY_PLURAL.get((api_version, parts[0]))
    if resource is None or len(parts) > 3:
        return None
    name = parts[1] if len(parts) > 1 else None
    subresource = parts[2] if len(parts) > 2 else None
    if resource.namespaced != (namespace is not None) and (name is not None or not resource.namespaced):
        return None
    if subresource is not None and subresource not in subresources(resource):
        return None
    return Route(resource, namespace, name, subresource)


def subresources(resource: Resource) -> frozenset[str]:
    """The subresources of a kind."""
    found = {"status"} if resource.has_status else set()
    if resource == PODS:
        found |= POD_SUBRESOURCES
    if resource == NAMESPACES:
        found |= NAMESPACE_SUBRESOURCES
    if resource == SERVICE_ACCOUNTS:
        found.add("token")
    if resource.api_version == "apps/v1" and resource.plural in SCALED:
        found.add("scale")
    return frozenset(found)


def has_generation(resource: Resource) -> bool:
    """Whether ``metadata.generation`` counts changes of the spec."""
    return resource.api_version in _WITH_GENERATION or resource in (PODS, PRIORITY_CLASSES, POD_DISRUPTION_BUDGETS)
