"""Promises of objects that make pods: the object of a pod or an event, and what refuses the pods that are not there now."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpushare.kubectl_gpushare.core import waiting_kinds as kinds
from gpushare.kubectl_gpushare.core.explanation import explain_owner, explain_pod
from gpushare.kubectl_gpushare.core.pod_owners import Family, Owner, makes, refusal_kind
from gpushare.kubectl_gpushare.core.scheduler_objects import Event
from gpushare.manifests import Pod
from tests.gpushare.kubectl_gpushare.small_cluster import Object, cluster, node, pod, subject

QUOTA = 'Error creating: pods "web-x" is forbidden: exceeded quota: gpu, requested: requests.aliyun.com/gpu-mem=4'
FAILURE = {"type": "ReplicaFailure", "status": "True", "message": QUOTA}


def owner(kind: str = "ReplicaSet", name: str = "web-c848cbd95", spec: Object | None = None, **status: Any) -> Owner:
    """An object that makes pods, created at noon."""
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T12:00:00Z"}
    return msgspec.convert({"kind": kind, "metadata": meta, "spec": spec or {}, "status": status}, Owner)


def event(
    at: str, message: str = QUOTA, reason: str = "FailedCreate", uid: str | None = "uid-web-c848cbd95", **about: str
) -> Event:
    """An event about an owner, by default about the ReplicaSet; ``at`` is a time of that day."""
    involved = {"kind": "ReplicaSet", "name": "web-c848cbd95", "uid": uid} | about
    time = f"2026-01-01T{at}Z"
    return msgspec.convert(
        {"involvedObject": involved, "reason": reason, "message": message, "lastTimestamp": time}, Event
    )


def kinds_of(one: Owner, *events: Event, others: tuple[Owner, ...] = ()) -> list[str]:
    """The kinds of what refuses its pods."""
    return [cause.kind for cause in Family(one, others).causes(events)]


def test_an_event_counts_for_its_own_object() -> None:
    """By the uid, and without one by kind and name; one that is older than the object is about an earlier one."""
    about = {
        "own": event("13:00:00"),
        "an earlier one's": event("13:00:00", uid="uid-gone"),
        "without a uid": event("13:00:00", uid=None),
        "without a uid, before it was": event("11:00:00", uid=None),
        "of another name that begins alike": event("13:00:00", uid=None, name="web-shop-c848cbd95"),
        "of another kind": event("13:00:00", uid=None, kind="Job"),
    }

    assert {name: kinds_of(owner(), one) for name, one in about.items() if kinds_of(owner(), one)} == {
        "own": [kinds.QUOTA],
        "without a uid": [kinds.QUOTA],
    }


ENOUGH: dict[str, Owner] = {
    "ReplicaSet": owner(replicas=1),
    "scaled to none": owner(spec={"replicas": 0}),
    "StatefulSet": owner("StatefulSet", spec={"replicas": 2}, replicas=2),
    "DaemonSet": owner("DaemonSet", desiredNumberScheduled=2, currentNumberScheduled=2),
    "Job": owner("Job", spec={"completions": 3, "parallelism": 2}, succeeded=2, active=1),
    "Job that has ended": owner("Job", conditions=[{"type": "Complete", "status": "True"}]),
    "CronJob": owner("CronJob", lastScheduleTime="2026-01-01T13:30:00Z", active=[{}]),
}
LACKING: dict[str, Owner] = {
    "ReplicaSet": owner(spec={"replicas": 2}, replicas=1),
    "StatefulSet": owner("StatefulSet"),
    "DaemonSet": owner("DaemonSet", desiredNumberScheduled=2, currentNumberScheduled=1),
    "Job": owner("Job", spec={"completions": 3, "parallelism": 2}, succeeded=1, active=1),
    "Job of one pod": owner("Job"),
    "Job without completions": owner("Job", spec={"parallelism": 2}, active=1),
    "CronJob": owner("CronJob", lastScheduleTime="2026-01-01T12:30:00Z"),
}


@pytest.mark.parametrize("case", ENOUGH)
def test_a_refusal_is_past_once_the_pods_are_there(case: str) -> None:
    """By the status of the object, whatever its events report."""
    assert [kind for kind in kinds_of(ENOUGH[case], event("13:00:00")) if kind != kinds.SUSPENDED] == []


@pytest.mark.parametrize("case", LACKING)
def test_a_refusal_counts_while_pods_are_missing(case: str) -> None:
    """The last failure is the reason, unless the object has made something since."""
    old = event("12:30:00", "denied by something")
    one, cured = LACKING[case], event("14:00:00", reason="SuccessfulCreate")

    assert kinds_of(one, event("13:00:00"), old) == [kinds.QUOTA]
    assert kinds_of(one, event("13:00:00"), cured) == []


def test_a_condition_has_the_reason_after_the_events_are_gone() -> None:
    """ReplicaFailure stays while it is so; of a Deployment the ReplicaSets count, and each reason once.

    It is without client-go's words for events that it has combined.
    """
    failing = owner(spec={"replicas": 2}, replicas=1, conditions=[FAILURE])
    deployment = owner("Deployment", "web", {"replicas": 2}, replicas=2, conditions=[FAILURE])

    assert kinds_of(failing) == [kinds.QUOTA]
    assert kinds_of(deployment, event("13:00:00"), others=(failing, owner(name="old", spec={"replicas": 0}))) == [
        kinds.QUOTA
    ]
    assert kinds_of(owner(spec={"replicas": 2})) == []
    assert kinds_of(deployment) == [kinds.QUOTA]
    (cause,) = Family(owner()).causes([event("13:00:00", f"(combined from similar events): {QUOTA}")])
    assert cause.message == QUOTA


def test_what_is_suspended_or_scaled_to_none_wants_no_pods() -> None:
    """That is the reason; a CronJob wants none between its Jobs."""
    suspended = [
        owner("Job", spec={"suspend": True}),
        owner("CronJob", spec={"suspend": True}),
        owner(spec={"replicas": 0}),
    ]

    assert [kinds_of(one) for one in suspended] == [[kinds.SUSPENDED]] * 3
    assert kinds_of(owner("CronJob")) == []


@pytest.mark.parametrize(
    ("name", "owners", "is_one"),
    [
        ("web-c848cbd95", [], True),
        ("web-5d4f8c7b9c", None, True),
        ("web-shop-c848cbd95", [], False),
        ("web-abc", [], False),
        ("web-v2", [], False),
        ("web-5", None, False),
        ("web-cnt", [], False),
        ("web", [], False),
        ("other", [{"uid": "uid-web"}], True),
        ("web-c848cbd95", [{"uid": "uid-web-of-another"}], False),
    ],
)
def test_a_replica_set_is_of_the_deployment_that_owns_it(name: str, owners: list[Object] | None, is_one: bool) -> None:
    """By ownerReferences; without them by NAME-HASH."""
    found = msgspec.convert({"metadata": {"name": name, "ownerReferences": owners}}, Owner)

    assert makes(owner("Deployment", "web"), found) == is_one
    assert not makes(owner("CronJob", "web"), owner("Job", "web-28000000"))


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (QUOTA, kinds.QUOTA),
        ("failed quota: gpu: must specify limits.cpu for: c", kinds.QUOTA),
        ("[maximum cpu usage per Container is 1, but limit is 2]", kinds.LIMIT_RANGE),
        ("memory max limit to request ratio per Pod is 1, but provided ratio is 2", kinds.LIMIT_RANGE),
        ('violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false', kinds.POD_SECURITY),
        ('admission webhook "x" denied the request: no', kinds.ADMISSION),
        ('Internal error occurred: failed calling webhook "x": connection refused', kinds.ADMISSION),
        ("ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no", kinds.ADMISSION),
        ('error looking up service account team/x: serviceaccount "x" not found', kinds.NOT_CREATED),
    ],
)
def test_a_refusal_has_its_kind(message: str, kind: str) -> None:
    """By the words of the API server."""
    assert refusal_kind(message) == kind


def test_the_document_of_an_owner() -> None:
    """How many pods it has, which they are, and the answer about one of them."""
    deployment, replicas = (
        owner("Deployment", "web", {"replicas": 2}, replicas=1),
        owner(spec={"replicas": 2}, replicas=1),
    )
    family, waiting, running = Family(deployment, (replicas,)), pod("web-a"), pod("web-b", 4, "a", 0)
    waiting["metadata"]["ownerReferences"] = [{"uid": "uid-web-c848cbd95"}]
    pods = [msgspec.convert(one, Pod) for one in (running, waiting)]
    one = explain_pod(subject(waiting), cluster(node()), ())
    answer = explain_owner(family, pods, one, [], ["x"])
    refused = explain_owner(family, pods, one, [event("13:00:00")], [])

    assert [family.owns(each) for each in pods] == [False, True]
    assert (answer["owner"]["kind"], answer["owner"]["wanted"], answer["owner"]["there"]) == ("Deployment", 2, 1)
    assert [(each["name"], each["state"], each["node"]) for each in answer["pods"]] == [
        ("web-a", "waiting", ""), ("web-b", "bound", "a"),
    ]  # fmt: skip
    assert (answer["state"], answer["pod"]["name"], answer["hidden"]) == ("waiting", "web-a", ["x"])
    assert refused["state"] == "absent"
    assert [cause["kind"] for cause in refused["causes"]] == [kinds.QUOTA, kinds.HAS_ROOM]
    assert refused["causes"][0]["do"].startswith("kubectl describe quota -n team; ")


def test_an_owner_without_pods() -> None:
    """One that has ended has said so; a CronJob has the pods of its Jobs."""
    ended = explain_owner(Family(ENOUGH["Job that has ended"]), [], {}, [], [])
    cron = Family(owner("CronJob", "nightly"), (owner("Job", "nightly-1", active=1), owner("Job", "nightly-2")))
    answer = explain_owner(cron, [], {}, [], [])

    assert (ended["state"], ended["owner"]["ended"]) == ("ended", "Complete")
    assert (answer["state"], answer["owner"]["wanted"], answer["owner"]["there"]) == ("absent", 2, 1)
