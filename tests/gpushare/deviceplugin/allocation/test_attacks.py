"""The author of one pod cannot hurt the pods of others on the same node: promises of gpushare.deviceplugin.allocation."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from gpushare.errors import NoCandidateError
from gpushare.manifests import Pod
from tests.gpushare.deviceplugin.admitting_node import AdmittingNode, gpu_pod, stage
from tests.servers import until

SEVERAL = "scheduler.framework.gpushare.allocation"
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


def writes(node: AdmittingNode) -> list[str]:
    """Writes so far, by what they are for."""
    return [call["path"].split("/")[-1] for call in node.api.calls if call["method"] in ("PATCH", "POST")]


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
