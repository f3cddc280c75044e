"""The types of the fields that others rely on: a container's name is a text, not a number.

Only these are looked at; fields that are not listed may be anything. Wrong types are refused with 400 as they are by
the real API server, which cannot even decode them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.refusals import bad_request
from clusters.resources import Resource

Amounts = dict[str, str | int | float]


class Shape(msgspec.Struct, rename="camel"):
    """Base of the shapes: JSON names are camelCase."""


class OwnerReference(Shape):
    """metadata.ownerReferences[]."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Metadata(Shape):
    """metadata."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReference] = []


class Resources(Shape):
    """spec.containers[].resources."""

    limits: Amounts = {}
    requests: Amounts = {}


class Variable(Shape):
    """spec.containers[].env[]."""

    name: str = ""
    value: str = ""


class Port(Shape):
    """spec.containers[].ports[]."""

    container_port: int = 0
    protocol: str = ""
    host_port: int = 0


class Container(Shape):
    """spec.containers[] and spec.initContainers[]."""

    name: str = ""
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    image_pull_policy: str = ""
    restart_policy: str = ""
    env: list[Variable] = []
    ports: list[Port] = []
    resources: Resources = msgspec.field(default_factory=Resources)


class Named(Shape):
    """Anything of which only the name matters."""

    name: str = ""


class PodSpec(Shape):
    """spec of a pod or of a template."""

    containers: list[Container] = []
    init_containers: list[Container] = []
    volumes: list[Named] = []
    scheduling_gates: list[Named] = []
    tolerations: list[dict[str, Any]] = []
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: dict[str, Any] = {}
    restart_policy: str = ""
    scheduler_name: str = ""
    termination_grace_period_seconds: int = 0
    overhead: Amounts = {}
    priority: int = 0


class Condition(Shape):
    """status.conditions[]."""

    type: str = ""
    status: str = ""


class Status(Shape):
    """status of any kind."""

    phase: str = ""
    conditions: list[Condition] = []
    capacity: Amounts = {}
    allocatable: Amounts = {}
    container_statuses: list[Named] = []
    init_container_statuses: list[Named] = []


class Selector(Shape):
    """spec.selector."""

    match_labels: dict[str, str] = {}
    match_expressions: list[dict[str, Any]] = []


class Template(Shape):
    """spec.template."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)


class Strategy(Shape):
    """spec.strategy and spec.updateStrategy."""

    type: str = ""
    rolling_update: dict[str, str | int] = {}


class WorkloadSpec(Shape):
    """spec of what makes pods."""

    replicas: int = 0
    selector: Selector = msgspec.field(default_factory=Selector)
    template: Template = msgspec.field(default_factory=Template)
    strategy: Strategy = msgspec.field(default_factory=Strategy)
    update_strategy: Strategy = msgspec.field(default_factory=Strategy)
    service_name: str = ""
    pod_management_policy: str = ""


class NodeSpec(Shape):
    """spec of a node."""

    unschedulable: bool = False
    taints: list[dict[str, Any]] = []


class LeaseSpec(Shape):
    """spec of a lease."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int = 0


class Anything(Shape):
    """An object of which only the metadata matters."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)


class Pod(Anything):
    """v1 Pod."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: Status = msgspec.field(default_factory=Status)


class Node(Anything):
    """v1 Node."""

    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: Status = msgspec.field(default_factory=Status)


class Workload(Anything):
    """apps/v1."""

    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
    status: Status = msgspec.field(default_factory=Status)


class ConfigMap(Anything):
    """v1 ConfigMap."""

    data: dict[str, str] = {}


class Lease(Anything):
    """coordination.k8s.io/v1 Lease."""

    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class BindingTarget(Shape):
    """target of a Binding."""

    kind: str = ""
    name: str = ""


class Binding(Anything):
    """v1 Binding."""

    target: BindingTarget = msgspec.field(default_factory=BindingTarget)


SHAPES: dict[str, type[Anything]] = {
    "pods": Pod,
    "nodes": Node,
    "configmaps": ConfigMap,
    "leases": Lease,
    "bindings": Binding,
    "deployments": Workload,
    "replicasets": Workload,
    "statefulsets": Workload,
    "daemonsets": Workload,
    "jobs": Workload,
}


def check_shape(resource: Resource, item: Object) -> None:
    """Refuse (400) an object in which a field has a wrong type; nulls must be gone."""
    try:
        msgspec.convert(item, SHAPES.get(resource.plural, Anything))
    except msgspec.ValidationError as error:
        version = resource.api_version.rpartition("/")[2]
        raise bad_request(
            f'{resource.kind} in version "{version}" cannot be handled as a {resource.kind}: {error}'
        ) from error
