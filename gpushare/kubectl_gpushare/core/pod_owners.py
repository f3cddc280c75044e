"""Objects that make pods: which pods and objects are theirs, whether they have all that they want, and what refuses the rest. Pure.

Whatever has an uid or ``ownerReferences`` is judged by these. An event reports what was, and is kept for an hour: it counts if its
object lacks pods now, by its own status, and has made none since.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from gpushare.kubectl_gpushare.core import waiting_kinds as kinds
from gpushare.kubectl_gpushare.core.scheduler_objects import Event
from gpushare.kubectl_gpushare.core.waiting_causes import Cause
from gpushare.kubectl_gpushare.core.waiting_kinds import COMBINED
from gpushare.manifests import NodeCondition, ObjectMeta, Pod, Presence
from gpushare.model.conditions import seconds_of

# By type: the kind, and what it makes that makes the pods ("" for the pods themselves).
KIND_OF: Final = {
    "deployment": ("Deployment", "replicaset"),
    "replicaset": ("ReplicaSet", ""),
    "statefulset": ("StatefulSet", ""),
    "daemonset": ("DaemonSet", ""),
    "replicationcontroller": ("ReplicationController", ""),
    "job": ("Job", ""),
    "cronjob": ("CronJob", "job"),
}
# The pod-template-hash in the name of a Deployment's ReplicaSet: a number of 32 bits in decimal, of which apimachinery
# writes each digit as one of these (SafeEncodeString). One of fewer than six digits is too rare to take ``web-5`` for it.
_HASH: Final = "[456789bcdf]{6,10}"
_REFUSALS: Final = (
    (re.compile("exceeded quota|failed quota"), kinds.QUOTA),
    (re.compile(r"(maximum|minimum) \S+ usage per|limit to request ratio"), kinds.LIMIT_RANGE),
    (re.compile("violates PodSecurity"), kinds.POD_SECURITY),
    (re.compile("admission webhook|calling webhook|AdmissionPolicy|admission policy"), kinds.ADMISSION),
)
_FAILED: Final = ("FailedCreate", "ReplicaSetCreateError")


class OwnerSpec(msgspec.Struct, gc=False):
    """How many pods it wants."""

    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None


class OwnerStatus(msgspec.Struct, rename="camel", gc=False):
    """How many it has; ``active`` is a number of a Job and a list of a CronJob."""

    replicas: int | None = None
    desired_number_scheduled: int | None = None
    current_number_scheduled: int | None = None
    active: int | list[Presence] | None = None
    succeeded: int | None = None
    last_schedule_time: str | None = None
    conditions: list[NodeCondition] | None = None


class Owner(msgspec.Struct, gc=False):
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController, Job or CronJob; an item of a list has no kind."""

    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: OwnerSpec = msgspec.field(default_factory=OwnerSpec)
    status: OwnerStatus = msgspec.field(default_factory=OwnerStatus)

    @property
    def ended(self) -> NodeCondition | None:
        """The condition by which a Job has ended."""
        return self._condition("Complete") or self._condition("Failed") if self.kind == "Job" else None

    @property
    def wanted(self) -> int:
        """Pods that it wants now."""
        spec, status = self.spec, self.status
        if self.kind == "DaemonSet":
            return status.desired_number_scheduled or 0
        if self.kind != "Job":
            return 1 if spec.replicas is None else spec.replicas
        if spec.suspend or self.ended:
            return 0
        at_once = 1 if spec.parallelism is None else spec.parallelism
        return at_once if spec.completions is None else min(at_once, max(spec.completions - (status.succeeded or 0), 0))

    @property
    def there(self) -> int:
        """Pods that it has."""
        status = self.status
        if self.kind == "DaemonSet":
            return status.current_number_scheduled or 0
        if self.kind == "Job":
            return status.active if isinstance(status.active, int) else 0
        return status.replicas or 0

    @property
    def failure(self) -> NodeCondition | None:
        """Its controller's report that a pod cannot be made."""
        return self._condition("ReplicaFailure")

    def _condition(self, name: str) -> NodeCondition | None:
        found = (one for one in self.status.conditions or () if one.type == name and one.status == "True")
        return next(found, None)


@dataclass(frozen=True, slots=True)
class Family:
    """An object, and those that it makes to make the pods."""

    top: Owner
    others: tuple[Owner, ...] = ()

    @property
    def makers(self) -> tuple[Owner, ...]:
        """Those that make the pods."""
        return self.others if KIND_OF[self.top.kind.lower()][1] else (self.top,)

    @property
    def wanted(self) -> int:
        """Pods that all want; a Deployment wants its own number, however many its ReplicaSets have."""
        return sum(one.wanted for one in self.makers) if self.top.kind == "CronJob" else self.top.wanted

    @property
    def there(self) -> int:
        """Pods that are there."""
        return sum(one.there for one in self.makers) if self.top.kind == "CronJob" else self.top.there

    def owns(self, pod: Pod) -> bool:
        """Is the pod one of theirs?"""
        uids = {one.metadata.uid for one in (self.top, *self.others)}
        return any(owner.uid in uids for owner in pod.metadata.owner_references or ())

    def causes(self, events: Sequence[Event]) -> list[Cause]:
        """Why pods that it wants are not there."""
        if self.top.spec.suspend or (self.top.kind != "CronJob" and not self.top.wanted and not self.top.ended):
            return [Cause(kinds.SUSPENDED)]
        found = [cause for one in self.others if (cause := _refusal(one, events)) is not None]
        # A Deployment's own condition is a copy of its ReplicaSet's.
        own = _refusal(self.top, events)
        return found or ([] if own is None else [own])


def makes(top: Owner, other: Owner) -> bool:
    """Did the first make the second? One without owners is told by its name, which only a ReplicaSet has in this form."""
    owners = other.metadata.owner_references
    if owners:
        return any(one.uid == top.metadata.uid for one in owners)
    return (
        top.kind == "Deployment"
        and re.fullmatch(f"{re.escape(top.metadata.name)}-{_HASH}", other.metadata.name) is not None
    )


def refusal_kind(message: str) -> str:
    """The kind of the API server's refusal of a pod."""
    return next((kind for words, kind in _REFUSALS if words.search(message)), kinds.NOT_CREATED)


def _refusal(owner: Owner, events: Iterable[Event]) -> Cause | None:
    """Its last failure to make something, unless it is cured."""
    condition = owner.failure
    if owner.kind != "CronJob" and condition is None and owner.there >= owner.wanted:
        return None
    reported = [one for one in events if _is_about(one, owner)]
    made = max((one.at for one in reported if one.reason == "SuccessfulCreate"), default=0.0)
    made = max(made, seconds_of(owner.status.last_schedule_time) or 0.0)
    failed = max((one for one in reported if one.reason in _FAILED), key=lambda one: one.at, default=None)
    if failed is not None and failed.at >= made:
        return _cause(failed.message or "")
    return _cause(condition.message or "") if condition is not None else None


def _cause(message: str) -> Cause:
    return Cause(refusal_kind(message), message.removeprefix(COMBINED))


def _is_about(event: Event, owner: Owner) -> bool:
    about, meta = event.involved_object, owner.metadata
    if about.uid:
        return about.uid == meta.uid
    return (about.kind, about.name) == (owner.kind, meta.name) and event.at >= (
        seconds_of(meta.creation_timestamp) or 0.0
    )
