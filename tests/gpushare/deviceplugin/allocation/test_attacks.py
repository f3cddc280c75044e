"""The author of one pod cannot hurt the pods of others on the same node: promises of gpushare.deviceplugin.allocation."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from gpushare.deviceplugin.core import repair
from gpushare.errors import GpushareError, NoCandidateError
from gpushare.manifests import Pod
from gpushare.model import allocation
from tests.gpushare.deviceplugin.admitting_node import AdmittingNode, gpu_pod, stage
from tests.servers import until

SEVERAL = "scheduler.framework.gpushare.allocation"
INDEX = "ALIYUN_COM_GPU_MEM_IDX"
LONG = json.dumps({"0": {str(card): 1 for card in range(25_000)}})


def ended(name: str, units: int, annotations: dict[str, str]) -> dict[str, Any]:
    """A pod that named its node itself, and that the kubelet turned away."""
    pod = gpu_pod(name, units, card=None, annotations=annotations)
    pod["status"] = {"phase": "Failed", "reason": "OutOfaliyun.com/gpu-mem"}
    return pod


def runs(pod: dict[str, Any]) -> None:
    """The kubelet reports that its containers run."""
    pod["status"] = {"phase": "Running"}


def change(node: AdmittingNode, name: str, **annotations: str | None) -> None:
    """The author of a pod patches it, and the watch shows it."""
    pod = node.pod(name)
    merged = {**pod["metadata"]["annotations"], **{key.replace("__", "."): text for key, text in annotations.items()}}
    pod["metadata"]["annotations"] = {key: text for key, text in merged.items() if text is not None}
    node.api.version += 1
    pod["metadata"]["resourceVersion"] = str(node.api.version)
    node.pods.set(msgspec.convert(pod, Pod))


@contextlib.asynccontextmanager
async def kept(node: AdmittingNode) -> AsyncIterator[None]:
    """While the plugin keeps annotations as they were bound."""
    tasks = [asyncio.create_task(one()) for one in (node.allocator.keep_restoring, node.allocator.keep_reconciling)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[int]:
    """Lets the function go on, and counts its calls."""
    calls = [0]
    real = getattr(module, name)

    def call(*arguments: Any, **more: Any) -> Any:
        calls[0] += 1
        return real(*arguments, **more)

    for one in list(sys.modules.values()):
        if one.__name__.startswith("gpushare.") and getattr(one, name, None) is real:
            monkeypatch.setattr(one, name, call)
    return calls


async def decodes_of_a_start(monkeypatch: pytest.MonkeyPatch, *others: dict[str, Any]) -> int:
    """How often an allocation is decoded until an honest pod runs beside the others."""
    with monkeypatch.context() as patch:
        calls = counted(patch, allocation, "decode")
        async with stage([*others, gpu_pod("honest", 3, card=1)]) as node:
            await node.run("honest")
            assert node.has("honest") == {1}
    return calls[0]


async def test_ended_pods_cost_nothing_and_live_ones_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """25 ended pods with 250 kB of cards each cost a start no decoding, and each of eight that wait costs two at most."""
    alone = await decodes_of_a_start(monkeypatch)
    beside = await decodes_of_a_start(monkeypatch, *(ended(f"e{n}", 999, {SEVERAL: LONG}) for n in range(25)))
    waiting = await decodes_of_a_start(monkeypatch, *(gpu_pod(f"w{number}", 1, card=0) for number in range(8)))

    assert beside == alone
    # Each is looked at as it is first shown, to see whether that can be what was bound, and kept; one is marked ASSIGNED.
    assert waiting <= 2 * 9 + 3


async def plans_of_a_start(monkeypatch: pytest.MonkeyPatch, others: int) -> int:
    """The number of cards of pods that plans look at until an honest pod is answered beside this many that wait."""
    with monkeypatch.context() as patch:
        sizes: list[int] = []
        real = repair.Plan.__init__

        def count(self: Any, pods: Any, units: Any) -> None:
            sizes.append(len(pods))
            real(self, pods, units)

        patch.setattr(repair.Plan, "__init__", count)
        waiting = [gpu_pod(f"w{number}", 2, card=0) for number in range(others)]
        async with stage([*waiting, gpu_pod("honest", 3, card=1)]) as node:
            await node.admit("honest")
    return sum(sizes)


async def test_plans_grow_with_the_live_pods_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the pods are about ten times the work."""
    few, many = await plans_of_a_start(monkeypatch, 4), await plans_of_a_start(monkeypatch, 40)

    assert many < 12 * few


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


CHANGES = {
    "another index": {INDEX: "1"},
    "another index and a wish": {INDEX: "1", "gpushare.aliyun.com/card-model": "T4"},
    "several cards, beyond the request": {SEVERAL: '{"0":{"0":14,"1":14,"2":10}}'},
    "several cards, as requested": {SEVERAL: '{"0":{"1":2,"2":1}}'},
    "a mark": {"ALIYUN_COM_GPU_MEM_REPAIR": "1"},
    "no annotation": {INDEX: None, "ALIYUN_COM_GPU_MEM_ASSIGNED": None},
    "nonsense": {INDEX: "first"},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("is_new", [False, True], ids=["the same process", "a new process"])
async def test_what_a_running_pod_says_changes_nothing(changes: dict[str, str | None], is_new: bool) -> None:
    """A running pod keeps its card if its annotations change, also while no plugin runs: they are written back."""
    async with stage([gpu_pod("a", 3, card=0), gpu_pod("other", 14, card=1), gpu_pod("last", 11, card=0)]) as node:
        await node.run("a")
        bound = node.written("a")
        runs(node.pod("a"))
        change(node, "a", **changes)
        if is_new:
            node.start_plugin()
            await node.allocator.recover()
        else:
            snapshot = node.allocator.view.now()
            assert [one.cards for one in snapshot.pod_cards if one.uid == "uid-a"] == [frozenset({0})]
            assert snapshot.units == {0: 14, 1: 14, 2: 10}
        async with kept(node):
            # A new process cannot know who wrote a mark.
            if not is_new:
                await until(lambda: {k: v for k, v in node.written("a").items() if "card-model" not in k} == bound)
            elif changes != CHANGES["a mark"]:
                await until(lambda: (node.card("a"), node.written("a").get(SEVERAL, "")) == ("0", ""))
        await node.run("other", "last")

        assert (node.has("other"), node.has("last")) == ({1}, {0})
        assert is_new or set(node.reasons()) == {"GPUShareAnnotationsChanged a"}


async def test_a_pod_on_several_cards_is_written_back() -> None:
    """By this process, and by one that starts after the change."""
    bound = '{"0":{"0":2,"1":1}}'
    async with stage([gpu_pod("a", 3, card=None, annotations={SEVERAL: bound})]) as node:
        await node.run("a")
        runs(node.pod("a"))
        for begin in (lambda: None, node.start_plugin):
            change(node, "a", **{SEVERAL: '{"0":{"2":3}}'})
            begin()
            await node.allocator.recover()
            async with kept(node):
                await until(lambda: json.loads(node.written("a")[SEVERAL]) == json.loads(bound))


async def test_what_changes_before_the_start_counts_not() -> None:
    """Bound to card 0 and changed before the kubelet asks: it gets card 0, and is written so when it starts."""
    async with stage([gpu_pod("a", 3, card=0), gpu_pod("b", 14, card=1)]) as node:
        await node.allocator.recover()
        change(node, "a", **{INDEX: "1"})
        await node.run(*"ab")

        assert (node.has("a"), node.card("a"), node.has("b")) == ({0}, "0", {1})


async def test_a_lost_answer_does_not_end_the_restoration() -> None:
    """The write took effect, so what differs later was written by the pod's author, and is put back."""
    async with stage([gpu_pod("a", 3, card=0)]) as node:
        await node.admit("a")
        answer = node.api.answer

        def lost(method: str, path: str, query: str, body: Any) -> tuple[int, Any]:
            done = answer(method, path, query, body)
            if method == "PATCH" and path.endswith("/pods/a"):
                node.api.answer = answer
                return 504, {"kind": "Status", "code": 504, "reason": "Timeout", "message": "lost"}
            return done

        node.api.answer = lost
        with contextlib.suppress(GpushareError):
            await node.start("a")
        await node.start("a")
        runs(node.pod("a"))
        change(node, "a")
        change(node, "a", **{INDEX: "1"})
        async with kept(node):
            await until(lambda: node.card("a") == "0")


async def test_with_repairs_off_changes_cause_few_reports() -> None:
    """An author that changes its pod again and again causes eight events a minute at most."""
    async with stage([gpu_pod("a", 3, card=0)], repairs=False) as node:
        await node.run("a")
        before = len(writes(node))
        async with kept(node):
            for turn in range(100):
                change(node, "a", **{INDEX: "1", "ALIYUN_COM_GPU_MEM_REPAIR": "2" if turn % 2 else None})
                await asyncio.sleep(0)
                await asyncio.sleep(0.002)
        # A repeated event is a patch, and here a new event beside it.
        assert len(writes(node)) - before <= 16
        assert node.card("a").startswith("1")


def writes(node: AdmittingNode) -> list[str]:
    """Writes so far, by what they are for."""
    return [call["path"].split("/")[-1] for call in node.api.calls if call["method"] in ("PATCH", "POST")]


async def test_a_pod_that_changes_during_its_repair_is_left_alone() -> None:
    """Its author changes it before each write of the plugin, then takes each mark away: eight writes a minute, of both together."""
    async with stage([gpu_pod("a", 8, card=0), gpu_pod("b", 8, card=1)], settled_seconds=1e9) as node:
        for name in "ba":
            await node.admit(name)
        node.api.fault = lambda method, path: change(node, "a") if method == "PATCH" and path.endswith("/a") else None
        before = writes(node).count("a")
        for _ in range(30):
            await node.allocator.reconcile()
        assert writes(node).count("a") - before == 8

        node.api.fault, node.now = lambda method, path: None, 61
        await node.allocator.reconcile()
        before = writes(node).count("a")
        async with kept(node), asyncio.timeout(300):
            while not left_alone(node):
                change(node, "a", **{INDEX: "2", "ALIYUN_COM_GPU_MEM_REPAIR": None})
                await asyncio.sleep(0.005)
            for _ in range(30):
                change(node, "a", **{INDEX: None})
                await asyncio.sleep(0.005)
        assert writes(node).count("a") - before <= 8


async def test_wrong_and_right_in_turn_cause_few_events() -> None:
    """The right card between two wrong ones causes no more writes than wrong ones alone, and all is put back a minute later."""
    async with stage([gpu_pod("a", 1, card=0)]) as node:
        await node.run("a")
        node.now = 100
        before = len(writes(node))
        async with kept(node), asyncio.timeout(300):
            while not left_alone(node):
                change(node, "a", **{INDEX: "1", "ALIYUN_COM_GPU_MEM_REPAIR": "2"})
                await asyncio.sleep(0.005)
            for _ in range(30):
                for card in ("0", "1"):
                    change(node, "a", **{INDEX: card})
                    await asyncio.sleep(0.005)
            done = writes(node)[before:]
            # A repeated event is a patch, and here a new event beside it.
            assert len(done) <= 8 + 2 * 9
            node.now = 161
            node.pods.on_change()
            await until(lambda: node.card("a") == "0")


def left_alone(node: AdmittingNode) -> set[str]:
    """The pods with an event that the plugin leaves their annotations as they are for a while."""
    return {event["involvedObject"]["name"] for event in node.api.events if "again and again" in event["message"]}


async def test_a_hung_restoration_delays_no_other_pod() -> None:
    """While a write of one pod hangs, another is admitted and starts, and one that came without the extender gets its card."""
    async with stage([gpu_pod("a", 3, card=0), gpu_pod("b", 3, card=1)]) as node:
        await node.run("a")
        node.api.fault = lambda method, path: "hang" if method == "PATCH" and path.endswith("/a") else None
        async with kept(node):
            change(node, "a", **{INDEX: "1"})
            await until(lambda: writes(node)[-2:] == ["events", "a"])
            await node.run("b")
            node.api.pods.append(gpu_pod("h", 1, card=None))
            node.pods.set(msgspec.convert(node.pod("h"), Pod))
            await until(lambda: node.card("h") == "2")
            node.api.released.set()

        assert node.has("b") == {1}


async def test_a_refusal_names_no_pods() -> None:
    """A refusal names no waiting pod, because its text is shown with whichever pod fails."""
    async with stage([gpu_pod("secret", 9, card=0), gpu_pod("secret-2", 9, card=0)]) as node:
        for ids in (node.free()[:4], node.free()[-9:]):
            with pytest.raises(NoCandidateError) as caught:
                await node.allocator.allocate(ids)
            assert "secret" not in str(caught.value)
