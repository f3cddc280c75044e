"""Each kind of waiting, brought about on a cluster, is named by ``explain``; so is the card of a pod that has one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from clusters.api.api_client import ApiError
from clusters.api.resources import DEPLOYMENTS, EVENTS, PRIORITY_CLASSES, REPLICA_SETS
from clusters.api.waiting import eventually
from clusters.provider import Cluster
from e2e import spec
from e2e.builders import booking, controller, gpu_pod
from e2e.explain.conftest import Ask, laid_out
from e2e.explain.random_clusters import NEVER_READY, TAINT, node_of
from e2e.observer import Observer, observing

pytestmark = pytest.mark.stand_in_only("nodes are objects without a kubelet")

Object = dict[str, Any]


def waiting(units: int = 4, **wishes: str) -> Object:
    """A pod for any node; wishes by the last word of their annotation, with _ for -."""
    annotations = {f"gpushare.aliyun.com/{wish.replace('_', '-')}": text for wish, text in wishes.items()}
    pod = gpu_pod("late", units, annotations=annotations)
    pod["spec"]["tolerations"] = NEVER_READY
    return pod


def bound(name: str, units: int, card: int, node: str = "n", **annotations: str) -> Object:
    """A pod that has a card already."""
    return gpu_pod(name, units, bound_to=node, annotations={**booking(units, card), **annotations})


@contextlib.asynccontextmanager
async def stage(cluster: Cluster, name: str, *objects: Object) -> AsyncIterator[Observer]:
    """A namespace; its nodes and pods are there inside, and the extender knows them."""
    nodes = [one for one in objects if one["kind"] == "Node"]
    pods = [one for one in objects if one["kind"] == "Pod"]
    async with observing(cluster, f"explain-{name}") as observer, laid_out(observer, nodes, pods):
        yield observer


async def causes_of(observer: Observer, ask: Ask, pod: Object, reason: str = "Unschedulable") -> dict[str, Object]:
    """The kinds of waiting of a pod, once its scheduler has reported on it."""
    await observer.create(pod)

    def is_reported(seen: Object) -> bool:
        conditions = seen["status"].get("conditions") or ()
        return any(one["type"] == "PodScheduled" and one.get("reason") == reason for one in conditions)

    await eventually(lambda: observer.pod("late"), is_reported, f"the scheduler reports {reason}")
    answer = await ask("explain", "late", "-n", observer.namespace)
    assert (answer["state"], answer["fits"]) == ("waiting", [])
    return {cause["kind"]: cause for cause in answer["causes"]}


GROUP = {spec.WISH_SAME_CARD: "g"}
WAITS: dict[str, tuple[set[str], Object, tuple[Object, ...]]] = {
    "unhealthy": ({"unhealthy"}, waiting(), (node_of("n", 14, unhealthy=0),)),
    "no-such-card": ({"no-such-card"}, waiting(card_model="H100"), (node_of("n", 14),)),
    "bad-wish": ({"bad-wish"}, waiting(card_modle="T4"), (node_of("n", 14),)),
    "slot-missing": ({"slot-missing"}, waiting(), (node_of("n", 15_000, slots=4),)),
    "same-card-full": ({"same-card-full"}, waiting(same_card="g"), (node_of("n", 14, 14), bound("f", 12, 0, **GROUP))),
    "node-selector": ({"node-selector"}, waiting(), (node_of("n", 14),)),
    "taint": ({"taint"}, waiting(), (node_of("n", 14),)),
    "node-not-ready": ({"node-not-ready"}, waiting(), (node_of("n", 14),)),
}
WAITS["node-selector"][1]["spec"]["nodeSelector"] = {"zone": "x"}
WAITS["taint"][2][0]["spec"] = {"taints": [TAINT]}
WAITS["node-not-ready"][2][0]["spec"] = {"taints": [TAINT | {"key": "network.example/agent-not-ready"}]}


@pytest.mark.parametrize("kind", WAITS)
async def test_a_kind_of_waiting_is_named(bare: Cluster, ask: Ask, kind: str) -> None:
    """This kind and no other, with the rights of the account for looking."""
    expected, pod, objects = WAITS[kind]
    async with stage(bare, kind, *objects) as observer:
        found = await causes_of(observer, ask, pod)

    assert set(found) == expected


async def test_a_quota_is_named_for_a_pod_that_cannot_be_created(
    request: pytest.FixtureRequest, bare: Cluster, ask_all: Ask
) -> None:
    """By the name of its Deployment, from the event of the ReplicaSet; what refused it does not outlive the Deployment."""
    async with stage(bare, "quota", node_of("n", 14)) as observer:
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "cards"}}
        await observer.create(quota | {"spec": {"hard": {f"requests.{spec.RESOURCE_MEMORY}": "3"}}})
        await observer.create(controller("Deployment", "web", waiting()["spec"], replicas=1))
        await refusal_is_reported(bare, observer, writes_events=request.config.getoption("--cluster") != "embedded")
        answer = await ask_all("explain", "web", "-n", observer.namespace)
        # The quota stays until the namespace goes: without it the ReplicaSet could still create its pod.
        await observer.cluster.api.delete(DEPLOYMENTS, "web", observer.namespace)
        with pytest.raises(AssertionError, match="there is no deployment 'web'"):
            await ask_all("explain", "deploy/web", "-n", observer.namespace)

    assert (answer["state"], [cause["kind"] for cause in answer["causes"]]) == ("absent", ["quota"])
    assert (answer["owner"]["kind"], answer["owner"]["wanted"], answer["owner"]["there"]) == ("Deployment", 1, 0)
    assert "exceeded quota: cards" in answer["causes"][0]["message"]


async def refusal_is_reported(cluster: Cluster, observer: Observer, *, writes_events: bool) -> None:
    """Wait until the ReplicaSet has an event; the stand-in's controllers write none, so it is written here with the same text."""

    async def replica_sets() -> list[Object]:
        return await cluster.api.list(REPLICA_SETS, observer.namespace)

    async def failed_creates() -> list[Object]:
        found = await cluster.api.list(EVENTS, observer.namespace)
        return [event for event in found if event.get("reason") == "FailedCreate"]

    (owner,) = await eventually(replica_sets, bool, "there is a ReplicaSet")
    if not writes_events:
        with pytest.raises(ApiError) as refused:
            await observer.create(waiting())
        involved = {key: owner["metadata"][key] for key in ("name", "namespace", "uid")} | {"kind": "ReplicaSet"}
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "refused"}, "involvedObject": involved}
        await observer.create(
            event | {"type": "Warning", "reason": "FailedCreate", "message": f"Error creating: {refused.value}"}
        )
    await eventually(failed_creates, bool, "the ReplicaSet has an event")


async def test_a_preemption_that_is_impossible_in_sum_is_named(bare: Cluster, ask: Ask) -> None:
    """The pod's priority is higher, and the node has room in sum."""
    head = {"apiVersion": PRIORITY_CLASSES.api_version, "kind": PRIORITY_CLASSES.kind}
    await bare.api.create({**head, "metadata": {"name": "urgent"}, "value": 1000})
    objects = (node_of("n", 14, 14), bound("f", 12, 0), bound("g", 12, 1))
    pod = waiting()
    pod["spec"]["priorityClassName"] = "urgent"
    async with stage(bare, "preemption", *objects) as observer:
        found = await causes_of(observer, ask, pod)
    await bare.api.delete(PRIORITY_CLASSES, "urgent")

    assert set(found) == {"fragmented", "no-preemption"}


async def test_an_extender_that_is_away_is_named(bare: Cluster, ask: Ask) -> None:
    """The scheduler's message has its URL. A card has room, and no cause advises to wait."""
    async with stage(bare, "away", node_of("n", 14)) as observer:
        await bare.kill("extender")
        try:
            await observer.create(waiting())

            async def kinds() -> set[str]:
                answer = await ask("explain", "late", "-n", observer.namespace)
                return {cause["kind"] for cause in answer["causes"]}

            found = await eventually(kinds, lambda seen: "not-asked" not in seen, "the scheduler has reported")
        finally:
            await bare.launch("extender")

    assert found == {"extender-away"}


async def test_a_pod_that_has_a_card_is_explained(bare: Cluster, ask: Ask) -> None:
    """The card, the binder and the neighbours."""
    async with stage(bare, "bound", node_of("n", 14, 14), bound("f", 4, 1)) as observer:
        await observer.create(waiting())
        await eventually(
            lambda: observer.pod("late"), lambda pod: bool(pod["spec"].get("nodeName")), "the pod is bound"
        )
        answer = await ask("explain", "late", "-n", observer.namespace)

    assert (answer["state"], answer["node"], answer["boundBy"]) == ("bound", "n", "gpushare")
    assert [card["held"] for card in answer["cards"]] == [0, 4]
    assert [one["name"] for one in answer["cards"][1]["sharedWith"]] == ["f"]
