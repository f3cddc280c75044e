"""Promises of gpushare.deviceplugin.allocation.allocate.

Whatever order a kubelet admits pods in, each ends on the card that is written.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gpushare.cli.plugin_flags import ContainerFlags
from gpushare.deviceplugin.allocation.verification import HeldError, HoldReason
from gpushare.errors import NoCandidateError
from gpushare.kube.api_errors import ApiError
from tests.gpushare.deviceplugin.admitting_node import Line, gpu_pod, stage
from tests.servers import until

FOREIGN = {"ALIYUN_COM_GPU_MEM_EXTENDER": ""}


async def test_pod_that_goes_to_another_card_is_booked_there_first() -> None:
    """From the question which ids on: the pod that is written there may end, and what it leaves must not be given away."""
    pods = [gpu_pod("full", 5, card=2), gpu_pod("a", 5, card=2), gpu_pod("dying", 5, card=1)]
    async with stage(pods, settled_seconds=15) as node:
        for name in ("full", "dying"):
            await node.admit(name)
        ids = await node.allocator.prefer(node.free(), [], 5)
        asked = node.card("a")
        node.end("dying")
        await node.allocator.reconcile()
        between = node.card("a")
        await node.allocator.allocate(ids)
        await node.allocator.reconcile()

        assert (asked, between, node.card("a")) == ("2+1", "2+1", "2+1")


async def test_stale_repair_mark_takes_no_room_from_a_hand_bound_pod() -> None:
    """The ids on card 1 were c's, for which a was taken, and a's own card is free by now: the mark goes first."""
    pods = [gpu_pod("past", 9, card=0), gpu_pod("a", 9, card=0), gpu_pod("c", 9, card=1)]
    async with stage(pods, sizes=(14, 20, 8)) as node:
        for name in ("past", "c"):
            await node.admit(name)
        assert node.card("a") == "0+1"
        node.end("past")
        node.api.pods.append(gpu_pod("by-hand", 11, card=None))
        await node.admit("by-hand")

        assert node.has("by-hand") == {1}


async def test_pod_that_changed_before_its_mark_is_booked_once_seen() -> None:
    """A label that an author wrote is no reason to refuse the pod, nor to leave it unbooked."""
    pods = [gpu_pod("past", 9, card=0), gpu_pod("a", 9, card=0)]
    writes = iter(range(1))

    def somebody_writes(method: str, path: str) -> None:
        if method == "PATCH" and next(writes, None) is not None:
            pods[1]["metadata"]["resourceVersion"] = str(10**12)

    async with stage(pods, settled_seconds=15) as node:
        await node.admit("past")
        node.api.fault = somebody_writes
        await node.allocator.prefer(node.free(), [], 9)
        await node.allocator.view.refresh()
        await node.allocator.reconcile()

        assert (node.card("a"), next(writes, None)) == ("0+2", None)


@pytest.mark.parametrize("status", [403, 404, 409, 503])
async def test_a_mark_that_cannot_be_written_refuses_no_pod(status: int) -> None:
    """Such an answer costs few calls, for which others wait, and the annotation is still reconciled before the start."""
    pods = [gpu_pod("past", 9, card=0), gpu_pod("x", 4, card=0), gpu_pod("y", 4, card=1), gpu_pod("a", 9, card=0)]
    async with stage(pods) as node:
        for name in ("past", "y"):
            await node.admit(name)
        before = len(node.api.calls)
        node.api.fault = lambda method, path: (status, {}) if method == "PATCH" else None
        await node.admit("a")
        assert len(node.api.calls) - before < 10
        node.api.fault = lambda method, path: None
        await node.start("a")

        assert {int(node.card("a"))} == node.has("a")


SPLIT, OTHER_SPLIT = (
    {"scheduler.framework.gpushare.allocation": text} for text in ('{"0":{"0":3,"1":2}}', '{"0":{"1":3,"2":2}}')
)
# Pods that are bound in this order, of which the last is admitted first; in slots mode or not.
HELD: dict[str, tuple[list[dict[str, Any]], int, HoldReason, str]] = {
    "another extender would leak the old card of the pod whose room it needs": (
        [gpu_pod("a", 8, card=0, annotations=FOREIGN), gpu_pod("b", 8, card=1)], 0,
        HoldReason.NO_ROOM, "its annotation names card 1: the card is booked for others",
    ),
    "its own extender would not follow a change of its card": (
        [gpu_pod("a", 8, card=0), gpu_pod("b", 8, card=1, annotations=FOREIGN)], 0,
        HoldReason.FIXED, "would not follow a change of its card",
    ),
    "parts of pods are not exchanged": (
        [gpu_pod("a", 5, annotations=SPLIT), gpu_pod("b", 5, annotations=OTHER_SPLIT)], 0,
        HoldReason.SEVERAL_CARDS, "has ids of card 0, card 1, but its annotation names 3 of card 1, 2 of card 2",
    ),
    "the amount in a container's variables cannot be changed": (
        [gpu_pod("a", 9, card=0), gpu_pod("b", 8, card=1, annotations=FOREIGN)], 8,
        HoldReason.WRONG_AMOUNT, "was told the amount of another pod's container",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pods", "slots", "reason", "says"), HELD.values(), ids=HELD.keys())
async def test_what_cannot_be_repaired_is_held(
    pods: list[dict[str, Any]], slots: int, reason: HoldReason, says: str
) -> None:
    """A container on another card than written, or with another amount, does not start; if that lasts, its pod is held for good."""
    async with stage(list(pods), slots=slots) as node:
        written = node.written("a")
        await node.admit("b")
        with pytest.raises(HeldError, match=says) as caught:
            await node.start("b")

        assert (caught.value.reason, node.written("a")) == (reason, written)
        assert list(node.allocator.held_for_good()) == ["uid-b"] * reason.is_final


async def test_without_a_partner_a_pod_moves_once_its_mark_has_stood() -> None:
    """The pod that was meant is deleted; a bind that was decided before the mark was seen may still land on its card."""
    pods = [gpu_pod("a", 8, card=0), gpu_pod("b", 8, card=1)]
    async with stage(pods, settled_seconds=15) as node:
        await node.admit("b")
        node.api.pods.remove(pods[0])
        with pytest.raises(HeldError, match="once binds that are under way have landed") as caught:
            await node.start("b")
        assert (caught.value.reason, node.card("b"), node.allocator.held_for_good()) == (HoldReason.SETTLING, "1+0", {})
        node.now = 15
        await node.start("b")

        assert (node.card("b"), node.allocator.held()) == ("0", {})


async def test_containers_of_an_unmovable_pod_stay_together() -> None:
    """The first is on another card than written; the second follows it, so that a repair by hand can let both start."""
    pods = [gpu_pod(name, 3, 2, card=card, annotations=FOREIGN) for card, name in enumerate("ab")]
    async with stage(pods) as node:
        await node.admit("b")
        assert node.has("b") == {0}
        node.pod("b")["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"] = "0"
        node.pod("b")["metadata"]["resourceVersion"] = str(10**12)
        await node.start("b")


async def test_a_refusal_names_no_pods() -> None:
    """A refusal names no waiting pod, because its text is shown with whichever pod fails."""
    async with stage([gpu_pod("secret", 9, card=0), gpu_pod("secret-2", 9, card=0)]) as node:
        for ids in (node.free()[:4], node.free()[-9:]):
            with pytest.raises(NoCandidateError) as caught:
                await node.allocator.allocate(ids)
            assert "secret" not in str(caught.value)


@pytest.mark.parametrize("writes", range(8))
async def test_every_write_of_an_exchange_may_be_its_process_last(writes: int) -> None:
    """Killed after any number of writes (two marks, two indices, two marks away, ASSIGNED); the next process ends it without a
    word from the kubelet.
    """
    pods = [gpu_pod("a", 8, card=0), gpu_pod("b", 8, card=1)]
    async with stage(pods) as node:
        await node.admit("b")
        left = iter(range(writes))
        node.api.fault = lambda method, path: (
            (500, {"message": "killed"}) if method == "PATCH" and next(left, None) is None else None
        )
        await node.admit("a")
        if writes < 7:
            with pytest.raises((ApiError, HeldError), match="killed|booked for others"):
                await node.start("b")
        else:
            await node.start("b")
        node.api.fault = lambda method, path: None
        node.start_plugin()
        await node.allocator.recover()
        await node.allocator.reconcile()

        assert (node.card("a"), node.card("b")) == ("1", "0")
        await node.start("a")
        await node.start("b")


async def test_a_pod_on_an_unhealthy_card_starts_on_another_one() -> None:
    """A pod that was bound before its card became unhealthy starts on another card: no kubelet offers ids of an unhealthy card."""
    pods = [gpu_pod("a", 8, card=0)]
    async with stage(pods, settled_seconds=5) as node:
        node.health.lose(node.node.cards.cards[0].uuid)
        node.node.refresh()
        await node.admit("a")
        with pytest.raises(HeldError) as caught:
            await node.start("a")
        assert caught.value.reason is HoldReason.SETTLING
        node.now = 5
        await node.start("a")

        assert (node.has("a"), node.card("a")) == ({2}, "2")


@pytest.mark.parametrize("slots", [0, 4])
async def test_a_guess_that_the_book_reconciles_never_comes_back(slots: int) -> None:
    """The pod that got the ids ends; the one that we took it for starts again, and its card's room is all there."""
    pods = [gpu_pod("a", 10, card=0), gpu_pod("b", 10, card=1)]
    async with stage(pods, sizes=(14, 14), slots=slots) as node:
        await node.run("b", "a")
        assert (node.has("a"), node.has("b")) == ({1}, {0})
        node.end("b")
        await node.start("a")
        pods.append(gpu_pod("c", 10, card=0))
        await node.run("c")

        assert (node.card("a"), node.card("c"), node.has("c")) == ("1", "0", {0})


@pytest.mark.parametrize("code", [401, 403])
async def test_a_pod_that_may_not_be_changed_ends_no_other(code: int) -> None:
    """The write on a pod that came without the extender fails by the plugin's login, or a webhook refuses it."""
    async with stage([gpu_pod("odd", 8, card=None), gpu_pod("a", 8, card=1)]) as node:
        no = code, {"message": "denied"}
        node.api.fault = lambda method, path: no if method == "PATCH" and path.endswith("/pods/odd") else None
        await node.run("a")

        assert (node.has("a"), node.card("odd")) == ({1}, "-")


@pytest.mark.parametrize("code", [400, 403, 500])
async def test_a_pod_that_may_not_be_changed_holds_itself_alone(code: int) -> None:
    """A pod that may not be changed holds no other pod and is not written without end. The repair goes on after the refusal."""
    async with stage([gpu_pod("a", 4, card=0), gpu_pod("b", 4, card=1), gpu_pod("c", 3, card=1)]) as node:
        await node.admit("b")
        await node.admit("c")
        no = code, {"message": "denied"}
        node.api.fault = lambda method, path: no if method == "PATCH" and path.endswith("/pods/b") else None
        with pytest.raises(HeldError, match="denied") as caught:
            await node.start("b")
        await node.start("c")
        keeping = asyncio.create_task(node.allocator.keep_reconciling())
        await asyncio.sleep(0.3)
        keeping.cancel()

        assert (caught.value.reason, node.allocator.held_for_good()) == (HoldReason.REFUSED, {})
        assert len(node.api.calls) < 30
        node.api.fault = lambda method, path: None
        await node.allocator.reconcile()
        await node.start("b")
        assert (node.has("b"), node.card("b")) == ({0}, "0")


@pytest.mark.parametrize("several", [{}, {"scheduler.framework.gpushare.allocation": '{"0":{"0":2,"1":1}}'}])
async def test_a_container_that_starts_again_waits_for_nothing(several: dict[str, str]) -> None:
    """A container of a pod, on one card or on several, needs neither an absent API server nor the end of an admission."""
    async with stage([gpu_pod("runs", 3, annotations=several), gpu_pod("waits", 2, card=1)]) as node:
        await node.run("runs")
        before = len(node.api.calls)
        node.api.fault = lambda method, path: "hang"
        asking = asyncio.create_task(node.allocator.prefer(node.free(), [], 2))
        await until(lambda: len(node.api.calls) > before)
        await node.start("runs")
        node.api.released.set()
        assert await asking


@pytest.mark.parametrize("is_another", [False, True], ids=["two seconds later", "another kubelet"])
async def test_question_without_allocate_holds_up_no_start_for_long(is_another: bool) -> None:
    """Without its checkpoint a kubelet is not asked during an admission; the Allocate of one that ended never follows."""
    async with stage([gpu_pod("a", 3, card=0), gpu_pod("b", 3, card=1)], has_checkpoint=False) as node:
        await node.admit("a")
        await node.allocator.prefer(node.free(), [], 3)
        node.now = 1.9
        with pytest.raises(HeldError, match="the kubelet admits a pod"):
            await node.start("a")
        if is_another:
            node.allocator.begin_registration(kubelet_is_another=True)
        else:
            node.now = 2.1
        await node.start("a")


async def test_a_failed_pod_that_runs_holds_its_card() -> None:
    """The list of an admission leaves failed pods out: one that is missing there is asked for, and counts while it runs."""
    async with stage([gpu_pod("evicted", 9, card=0), gpu_pod("next", 9, card=0)], sizes=(14,)) as node:
        await node.admit("evicted")
        running = [{"name": "c0", "state": {"running": {}}}]
        node.pod("evicted")["status"] = {"phase": "Failed", "containerStatuses": running}
        with pytest.raises(NoCandidateError, match="card 0 has 5 units left"):
            await node.admit("next")
        node.pod("evicted")["status"] = {"phase": "Failed", "containerStatuses": []}
        node.pod("evicted")["metadata"]["resourceVersion"] = str(10**9)
        node.lines.clear()
        node.write_book()
        await node.admit("next")

        assert [pod.metadata.name for pod in node.pods.turned_away()] == ["evicted"]


RECORDED = Path(__file__).parents[3] / "data" / "upstream" / "device_plugin"
# The original's answers if no pod waits (D03, D04): success with a nonsense variable, or the node's one card.
UNASKED = ("4 units: nobody asked for 4", "7 units: nobody, but there is one card only")


@pytest.mark.parametrize("name", ["isolation-off", "mib", "mixed-cards", "one-card", "two-cards"])
async def test_recorded_dialogue(name: str) -> None:
    """The plugin answers as the original was recorded to, but refuses a call that no pod waits for and keeps the assume time."""
    recording = json.loads((RECORDED / f"{name}.json").read_text())
    unit = "MiB" if "--memory-unit=MiB" in recording["args"] else "GiB"
    labels = {"cgpu.disable.isolation": "true"} if name == "isolation-off" else {}
    sizes = tuple({"t4": 15, "1080ti": 11}[card] for card in recording["cards"])
    rules = ContainerFlags(id_strategy="index")
    async with stage(recording["pods"], sizes, unit=unit, labels=labels, kubelet="v1.28.2", rules=rules) as node:
        # Mixed cards: the original announces the first one's size for all (D05).
        assert len(node.free()) == sum(recording["list"]["per_card"].values()) - 4 * (name == "mixed-cards")
        times = {pod["metadata"]["name"]: node.written(pod["metadata"]["name"])["ASSUME_TIME"] for pod in node.api.pods}
        for step in recording["allocate"]:
            if step["what"] in UNASKED:
                with pytest.raises(NoCandidateError, match=f"waits for {step['ids']} units"):
                    await node.allocator.prefer(node.free(), [], step["ids"])
                continue
            ids = await node.allocator.prefer(node.free(), [], step["ids"])
            told = dict((await node.allocator.allocate(ids)).variables)
            assert step["answer"]["containers"] == [told]
            (patched,) = [call["path"] for call in step["api_calls"] if call["method"] == "PATCH"]
            pod = node.pod(patched.rpartition("/")[2])
            node.lines.append(Line(pod["metadata"]["uid"], pod["spec"]["containers"][0]["name"], ids, told))
            node.write_book()
            await node.allocator.verify(ids)
            written = node.written(pod["metadata"]["name"])
            assert (written["ASSIGNED"], written["ASSUME_TIME"]) == ("true", times[pod["metadata"]["name"]])
