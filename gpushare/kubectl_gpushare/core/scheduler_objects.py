"""The fields by which kube-scheduler judges, beside those of ``manifests``, which the extender keeps for every pod. No I/O."""

from __future__ import annotations

import msgspec

from gpushare.manifests import (
    LabelRequirement,
    NodeCondition,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Presence,
    ReportedNode,
)
from gpushare.model.conditions import seconds_of


class Taint(msgspec.Struct, gc=False):
    """A taint of a node."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(msgspec.Struct, gc=False):
    """The node's own refusals."""

    taints: list[Taint] | None = None
    unschedulable: bool | None = None


class ScheduledNode(ReportedNode, gc=False):
    """A node with what keeps pods away from it."""

    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)


class Toleration(msgspec.Struct, gc=False):
    """A taint that a pod bears."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSelectorTerm(msgspec.Struct, rename="camel", gc=False):
    """Requirements that a node meets together."""

    match_expressions: list[LabelRequirement] | None = None
    match_fields: list[LabelRequirement] | None = None


class NodeSelector(msgspec.Struct, rename="camel", gc=False):
    """Terms of which a node meets one."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class NodeAffinity(msgspec.Struct, rename="camel", gc=False):
    """The nodes that a pod accepts."""

    required: NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class Affinity(msgspec.Struct, rename="camel", gc=False):
    """The part of a pod's affinity that is judged, and whether the rest is there."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: Presence | None = None
    pod_anti_affinity: Presence | None = None


class Gate(Presence, gc=False):
    """A scheduling gate, or a resource claim, by its name in the pod."""

    name: str = ""


class RulesOfPod(PodSpec, rename="camel", gc=False):
    """The rules in a pod's spec."""

    affinity: Affinity | None = None  # type: ignore[assignment]  # read more closely than the extender does
    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None
    scheduling_gates: list[Gate] | None = None  # type: ignore[assignment]  # with their names
    resource_claims: list[Gate] | None = None
    scheduling_group: Presence | None = None


class StatusOfPod(PodStatus, rename="camel", gc=False):
    """The scheduler's report on a pod."""

    conditions: list[NodeCondition] | None = None  # type: ignore[assignment]  # with their times
    nominated_node_name: str | None = None


class AskedPod(Pod, gc=False):
    """The pod that a question is about, as kube-scheduler sees it."""

    # A decoded object is read only.
    spec: RulesOfPod = msgspec.field(default_factory=RulesOfPod)  # type: ignore[mutable-override]
    status: StatusOfPod | None = None  # type: ignore[mutable-override]

    @property
    def priority(self) -> int:
        """As admission wrote it."""
        return self.spec.priority or 0


class Involved(msgspec.Struct, gc=False):
    """The object of an event."""

    kind: str = ""
    namespace: str | None = None
    name: str = ""
    uid: str | None = None


class Series(msgspec.Struct, rename="camel", gc=False):
    """How often an event of ``events.k8s.io`` has come again."""

    count: int | None = None
    last_observed_time: str | None = None


class Source(msgspec.Struct, gc=False):
    """The writer of an event of ``v1``."""

    component: str | None = None


class Event(msgspec.Struct, rename="camel", gc=False):
    """An event, of either API group; ``type`` is Normal or Warning."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    involved_object: Involved = msgspec.field(default_factory=Involved)
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    event_time: str | None = None
    last_timestamp: str | None = None
    series: Series | None = None
    source: Source | None = None
    reporting_component: str | None = None

    @property
    def when(self) -> str:
        """The last time that it happened, as the API writes times; "" if it is not known."""
        last = self.series.last_observed_time if self.series else None
        known = (last, self.last_timestamp, self.event_time, self.metadata.creation_timestamp)
        return max((one for one in known if one), key=lambda one: seconds_of(one) or 0.0, default="")

    @property
    def at(self) -> float:
        """The same in seconds since 1970; 0 if it is not known."""
        return seconds_of(self.when) or 0.0

    @property
    def times(self) -> int:
        """How often it happened."""
        return max(self.count or 1, (self.series.count if self.series else None) or 1)

    @property
    def writer(self) -> str:
        """The component that reported it; "" if it is not known."""
        return self.reporting_component or (self.source.component if self.source else None) or ""


class EndpointConditions(msgspec.Struct, gc=False):
    """Whether a pod behind a Service is ready; None is ready, too."""

    ready: bool | None = None


class Endpoint(msgspec.Struct, gc=False):
    """A pod behind a Service."""

    conditions: EndpointConditions = msgspec.field(default_factory=EndpointConditions)


class EndpointSlice(msgspec.Struct, gc=False):
    """Pods behind a Service."""

    endpoints: list[Endpoint] | None = None
