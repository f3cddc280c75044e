"""The author of one pod cannot hurt the pods of others on the same node: promises of gpushare.deviceplugin.allocation."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from gpushare.errors import GpushareError
from gpushare.manifests import Pod
from tests.gpushare.deviceplugin.admitting_node import AdmittingNode, gpu_pod, stage
from tests.servers import until

INDEX = "ALIYUN_COM_GPU_MEM_IDX"


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


@pytest.mark.parametrize("starts", [1, 2])
async def test_a_lost_answer_does_not_end_the_restoration(starts: int) -> None:
    """The write took effect and stays, and what differs later was written by the pod's author, and is put back."""
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
        for _ in range(starts - 1):
            await node.start("a")
        runs(node.pod("a"))
        change(node, "a")
        change(node, "a", **{INDEX: "1"})
        async with kept(node):
            await until(lambda: node.card("a") == "0")

        assert node.written("a")["ASSIGNED"] == "true"


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
