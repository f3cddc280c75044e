"""Lives of kubelets, plugins and machines: the cards stay with their pods (the node tests of Kubernetes, with our plugin)."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import pytest

from clusters.api.api_client import Object
from clusters.api.resources import NODES, PODS
from clusters.api.waiting import eventually, until
from e2e import spec
from e2e.builders import JOB, gated, gpu_pod
from e2e.bursts.judge import is_running, is_turned_away
from e2e.checkers.pod_requests import card_of
from e2e.observer import Observer

NODE = "a2"
# A busy machine starts the kubelet before the plugin once in a while, never three times on end.
ROUNDS = 3


def is_registered(observer: Observer) -> bool:
    """Does the kubelet's book, which was lost, name the ids of a plugin again?"""
    book = observer.cluster.kubelet_folder(NODE) / "device-plugins" / "kubelet_internal_checkpoint"
    try:
        data = json.loads(book.read_text())["Data"]
    except (FileNotFoundError, json.JSONDecodeError):
        return False
    return bool((data.get("RegisteredDevices") or {}).get(spec.RESOURCE_MEMORY))


def is_bound(pod: Object) -> bool:
    """Has it a node?"""
    return "nodeName" in pod["spec"]


def container_of(pod: Object) -> str:
    """Which life of its first container there is."""
    return str(pod["status"]["containerStatuses"][0].get("containerID"))


def repairs_of(observer: Observer) -> int:
    """How many exchanges the plugin of the node has logged."""
    return observer.cluster.log("device_plugin", NODE).count(" exchanged pod=")


async def bind_while_kubelet_is_away(observer: Observer, *names: str) -> list[int]:
    """Create pods in this order, have them bound in the reverse one, and start the kubelet; the card of each."""
    cluster = observer.cluster
    await cluster.kill("kubelet", NODE)
    try:
        for name in names:
            await observer.create(gated(gpu_pod(name, 9, node=NODE)))
            # Ages have the resolution of a second.
            await asyncio.sleep(1.1)
        for name in reversed(names):
            await cluster.api.patch(PODS, name, {"spec": {"schedulingGates": None}}, observer.namespace)
            await eventually(partial(observer.pod, name), is_bound, f"{name} is bound")
        return [card_of(await observer.pod(name)) for name in names]
    finally:
        await cluster.launch("kubelet", NODE)


async def run_though_turned_away(observer: Observer, name: str, units: int) -> None:
    """Create a pod and wait until it runs; one that a kubelet turns away as it has just started is replaced, as by an owner."""
    await observer.create(gpu_pod(name, units, node=NODE))

    async def runs() -> bool:
        pod = await observer.pod(name)
        if is_turned_away(pod, frozenset({NODE})):
            await observer.delete(name, 0)
            await observer.create(gpu_pod(name, units, node=NODE))
        return is_running(pod)

    await eventually(runs, bool, f"{name} runs")


@pytest.mark.promise("D02", "DP-007", "DP-012", "DP-022", "E2E-005", "E2E-006")
@pytest.mark.parametrize("what", ["plugin", "kubelet", "both"])
async def test_cards_stay_with_their_pods_through_restarts(observer: Observer, what: str) -> None:
    """Running pods, one of two containers, keep their cards; what comes afterwards fits beside them, and nothing over them."""
    before = await observer.run(gpu_pod("nine", 9, node=NODE), gpu_pod("two", 2, 3, node=NODE))
    await observer.restart(NODE, what)
    await observer.shows(NODE, "28")

    assert list(map(card_of, before)) == list(map(card_of, await observer.running("nine", "two")))
    # The node still shows the kubelet's amounts from before the restart: a pod may come before the plugin has.
    await run_though_turned_away(observer, "late", 9)
    await observer.create(gpu_pod("too-much", 10, node=NODE))
    await observer.waits_because("too-much", "nsufficient")
    await observer.check_all("nine", "two", "late")


async def test_a_kubelet_without_its_checkpoint_loses_no_room(observer: Observer) -> None:
    """A kubelet without its checkpoint turns its running pods away; those that replace them fit, and nothing over them."""
    await observer.run(gpu_pod("before", 9, node=NODE))
    await observer.cluster.restart_kubelet(NODE, lose_checkpoint=True)

    # The amount proves nothing here: such a kubelet goes on showing it, and lets pods in without devices until the plugin is back.
    await until(lambda: is_registered(observer), bool, "the plugin is registered again")
    await observer.shows(NODE, "28")

    before = await observer.reaches("before", "Running", "Failed")
    replacements = ["a", "b"] if before["status"]["phase"] == "Failed" else ["a"]
    await observer.run(*(gpu_pod(name, 9, node=NODE) for name in replacements))
    await observer.check_all(*replacements)


@pytest.mark.promise("DP-015", "PR-005")
# A plugin without it may exchange the cards of both afterwards.
@pytest.mark.needs("repair")
@pytest.mark.real_kubelet_only(
    "the stand-in admits at once, before the plugin has registered again; a real one a second later"
)
async def test_pods_bound_during_kubelet_absence_are_not_mixed_up(observer: Observer) -> None:
    """A kubelet that starts admits them by age, not as they were bound; each gets its own card, and nothing is repaired."""
    # With this one the kubelet takes back what pods before had; once it is away it does that only after it has admitted all.
    await observer.run(gpu_pod("first", 1, node=NODE))
    repairs = repairs_of(observer)
    names = ("old", "young")
    for _ in range(ROUNDS):
        before = await bind_while_kubelet_is_away(observer, *names)
        pods = [await observer.reaches(name, "Running", "Failed") for name in names]
        if not any(is_turned_away(pod, frozenset({NODE})) for pod in pods):
            break
        # The kubelet was quicker than the plugin, which shows nothing about the cards.
        for name in names:
            await observer.delete(name, 0)
        await observer.shows(NODE, "28")
    pods = await observer.running(*names)

    assert before == list(map(card_of, pods))
    assert repairs_of(observer) == repairs
    await observer.check_all(*names)


@pytest.mark.promise("DP-022")
async def test_a_reboot_ends_pods_and_new_ones_run(observer: Observer) -> None:
    """Pods of before come back on their cards, or fail because the plugin was not there yet; their room is not lost."""
    (old,) = await observer.run(gpu_pod("before", 9, node=NODE))
    await observer.cluster.restart_kubelet(NODE, reboot=True)
    await observer.shows(NODE, "28")

    async def come_back() -> str:
        pod = await observer.pod("before")
        return (
            "again" if is_running(pod) and container_of(pod) != container_of(old) else str(pod["status"].get("phase"))
        )

    phase = await eventually(come_back, lambda seen: seen in ("again", "Failed"), "the pod of before is known of again")
    # The node still shows the amounts of before: a pod may come before the plugin has registered.
    for name, units in (("after", 9), ("beside", 5)):
        await run_though_turned_away(observer, name, units)
    running = ["after", "beside", *(["before"] if phase == "again" else [])]
    await observer.check_all(*running)


@pytest.mark.stand_in_only("a real kubelet corrects the status of such a pod when it starts")
@pytest.mark.needs("held-till-boot")
async def test_a_boot_frees_a_failed_pod_shown_running(observer: Observer) -> None:
    """A pod of phase Failed with a status that still shows a running container keeps its card until its node boots again."""
    cluster = observer.cluster
    shut, _ = await observer.run(gpu_pod("shut", 9, node=NODE), gpu_pod("other", 9, node=NODE))
    await cluster.kill("kubelet", NODE)
    try:
        failed = {"status": {"phase": "Failed", "reason": "Terminated"}}
        await cluster.api.patch(PODS, "shut", failed, observer.namespace, subresource="status")
        await observer.create(gpu_pod("next", 9, node=NODE))
        await observer.waits_because("next", "")
    finally:
        await cluster.restart_kubelet(NODE, reboot=True)
    await observer.running("next")

    now = await observer.pod("shut")
    assert is_running(now | {"status": {**now["status"], "phase": "Running"}}), "its status is as it was"
    assert container_of(now) == container_of(shut)
    await observer.check_all("next")


async def test_a_node_object_that_is_re_created(observer: Observer) -> None:
    """The Node is deleted; with the kubelet's next start it is back, with cards and memory, and pods run."""
    await observer.cluster.api.delete(NODES, NODE)
    await observer.cluster.restart_kubelet(NODE)
    await observer.shows(NODE, "28")

    await observer.run(gpu_pod("p", 9, node=NODE))
    await observer.check_right_cards("p")


@pytest.mark.promise("D29", "DP-022")
async def test_a_succeeded_pod_gives_its_card_back(observer: Observer) -> None:
    """A kubelet that starts does not admit it again, and the next pod runs at once (defect D29: minutes later)."""
    job = gpu_pod("job", 14, node=NODE, plays=JOB)
    job["spec"]["restartPolicy"] = "Never"
    await observer.create(job)
    await observer.reaches("job", "Succeeded")
    await observer.cluster.restart_kubelet(NODE)
    await observer.shows(NODE, "28")
    # The job's ids are free for the kubelet when it has looked at it once more.
    await run_though_turned_away(observer, "a", 14)
    await run_though_turned_away(observer, "b", 14)

    assert (await observer.pod("job"))["status"]["phase"] == "Succeeded"
    await observer.check_right_cards("a", "b")
