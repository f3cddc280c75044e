"""The fields of Kubernetes objects that we read, as msgspec Structs. No code beyond defaults.

Decoding builds only what is named here and skips the rest (5 µs for a 7 kB pod). Go sends ``null`` where a map or
list is empty, so every field that may be null has None among its types. Quantities stay text: the API server rewrites ``10000`` as
``10k``, and ``model.quantity`` is the only parser.
"""

from __future__ import annotations

import msgspec


class OwnerReference(msgspec.Struct, gc=False):
    """The owner of an object; the ``controller`` replaces the object when it is gone."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(msgspec.Struct, rename="camel", gc=False):
    """Identity of an object; ``uid`` differs between a re-created object and the one before it under the same name."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[OwnerReference] | None = None


class AnyObject(msgspec.Struct, gc=False):
    """An object of which only the metadata matter."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class Resources(msgspec.Struct, gc=False):
    """A container's requests: resource name to quantity."""

    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None


class ContainerPort(msgspec.Struct, rename="camel", gc=False):
    """A port of a container; ``host_port`` is one of its node."""

    host_port: int | None = None


class Container(msgspec.Struct, rename="camel", gc=False):
    """A container of a pod; an init container with ``restartPolicy: Always`` is a sidecar."""

    name: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None
    ports: list[ContainerPort] | None = None


class Presence(msgspec.Struct, gc=False):
    """Something of which only matters that it is there."""


class Volume(msgspec.Struct, rename="camel", gc=False):
    """A volume of a pod, as far as another pod may be in its way."""

    persistent_volume_claim: Presence | None = None


class PodSpec(msgspec.Struct, rename="camel", gc=False):
    """The pod's requests, the node that it was bound to, and the scheduler that is to bind it."""

    node_name: str | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[Presence] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    priority: int | None = None
    affinity: dict[str, Presence | None] | None = None
    topology_spread_constraints: list[Presence] | None = None
    volumes: list[Volume] | None = None
    resources: Resources | None = None
    overhead: dict[str, str | int | float] | None = None


class NotRunning(msgspec.Struct, gc=False):
    """Why a container does not run."""

    reason: str | None = None
    message: str | None = None


class ContainerState(msgspec.Struct, gc=False):
    """Which of the three states a container is in."""

    running: Presence | None = None
    waiting: NotRunning | None = None
    terminated: NotRunning | None = None


class ContainerStatus(msgspec.Struct, rename="camel", gc=False):
    """The kubelet's report on one container; ``container_id`` is the runtime's, as ``containerd://ID``."""

    name: str = ""
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    container_id: str | None = msgspec.field(name="containerID", default=None)


class PodCondition(msgspec.Struct, gc=False):
    """One condition of a pod, with its text."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class PodStatus(msgspec.Struct, rename="camel", gc=False):
    """Where the pod is in its life."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(msgspec.Struct, gc=False):
    """A pod."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus | None = None


class PodOutline(Pod, gc=False):
    """A pod that cannot be read, with its identity and its node alone: it may hold any card there."""

    problem: str = ""

    @property
    def warning(self) -> str:
        """The text for a person: which pod it is, and the consequence for its node."""
        meta, node = self.metadata, self.spec.node_name
        so = f", so node {node} gets no pods until it is gone" if node else ""
        return f"pod {meta.namespace}/{meta.name} cannot be read{so}: {self.problem}"


class NodeAddress(msgspec.Struct, gc=False):
    """One address of a node."""

    type: str = ""
    address: str = ""


class NodeSystemInfo(msgspec.Struct, rename="camel", gc=False):
    """The kubelet's report on itself and its machine; ``boot_id`` is another after each boot."""

    kubelet_version: str = ""
    boot_id: str = msgspec.field(name="bootID", default="")


class NodeStatus(msgspec.Struct, rename="camel", gc=False):
    """The node's resources and addresses."""

    capacity: dict[str, str | int | float] | None = None
    allocatable: dict[str, str | int | float] | None = None
    addresses: list[NodeAddress] | None = None
    node_info: NodeSystemInfo | None = None


class Node(msgspec.Struct, gc=False):
    """A node."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: NodeStatus | None = None


class NodeCondition(msgspec.Struct, rename="camel", gc=False):
    """One condition of a node; the times are RFC 3339."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class ReportedStatus(NodeStatus, gc=False):
    """The status of a node with its conditions."""

    conditions: list[NodeCondition] | None = None


class ReportedNode(Node, gc=False):
    """A node with its conditions, which not every reader of thousands of nodes needs."""

    # A decoded object is read only.
    status: ReportedStatus | None = None  # type: ignore[mutable-override]


class LabelRequirement(msgspec.Struct, gc=False):
    """One of ``matchExpressions``."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(msgspec.Struct, rename="camel", gc=False):
    """Which pods something is about; an empty one is about all of its namespace."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelRequirement] | None = None


class DisruptionBudgetSpec(msgspec.Struct, gc=False):
    """The pods that a budget protects."""

    selector: LabelSelector | None = None


class DisruptionBudgetStatus(msgspec.Struct, rename="camel", gc=False):
    """How many of them may be evicted now, and which evictions are counted already, by name of the pod."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] | None = None


class DisruptionBudget(msgspec.Struct, gc=False):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: DisruptionBudgetSpec = msgspec.field(default_factory=DisruptionBudgetSpec)
    status: DisruptionBudgetStatus = msgspec.field(default_factory=DisruptionBudgetStatus)


class ConfigMap(msgspec.Struct, gc=False):
    """A ConfigMap."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None
