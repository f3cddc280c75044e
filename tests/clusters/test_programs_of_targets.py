"""How the programs of a target are started: in a folder that they know, ready at their port, or one without the others."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from clusters.api.resources import NODES, PODS
from clusters.api.waiting import eventually
from clusters.provider import DEVICE_PLUGIN, ClusterError, NodeSpec
from clusters.providers import Choices, make_cluster
from clusters.simulated_node import plugin_program
from clusters.targets import Program, Target, load_target

# A server that answers nothing: it is up once its port is open.
_MUTE = (
    "import socket, sys, time\n"
    "one = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
    "while True: one.accept()[0].close()"
)


def target_of(folder: str, code: str) -> Target:
    """A plugin that runs this line of a shell, and knows one folder."""
    plugin = Program(("sh", "-c", code), fixed_folder=folder)
    return Target("fixed", device_plugin_or_none=plugin)


async def started(target: Target, folder: Path) -> tuple[int | None, str]:
    """The exit code and the log of the target's plugin on a node with that folder."""
    (folder / "device-plugins").mkdir()
    program = plugin_program(target, "n", folder, folder, (), dict(os.environ), sys_root=folder)

    async def at_once() -> bool:
        return True

    await program.launch(at_once)
    await program.ended()
    return await program.stop(), program.log()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
async def test_a_fixed_folder_is_the_nodes_own(tmp_path: Path) -> None:
    """The plugin writes into the folder that it knows, and the file is in the node's; no other program has it there."""
    fixed = tmp_path / "fixed"
    target = target_of(str(fixed), f"touch {fixed}/here; exit 7")
    (tmp_path / "node").mkdir()

    assert await started(target, tmp_path / "node") == (7, "")
    assert [path.name for path in (tmp_path / "node" / "device-plugins").iterdir()] == ["here"]
    assert list(fixed.iterdir()) == []


async def test_without_root_a_fixed_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the folder and the remedy before anything is started."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match=r"fixed_folder /fixed.*root"):
        plugin_program(target_of("/fixed", ""), "n", tmp_path, tmp_path, (), {}, sys_root=tmp_path)


async def test_an_extender_alone_has_nodes_with_cards() -> None:
    """Each node announces its memory and its cards, over a restart of its kubelet too; no plugin is started."""
    extender = Program(("python", "-c", _MUTE, "{port}"), path="/verbs")
    nodes = [NodeSpec("two", "t4x2", "418.87"), NodeSpec("none")]
    cluster = make_cluster("embedded", nodes, Target("alone", extender_or_none=extender), Choices(dict(os.environ)))
    await cluster.start()
    try:
        amounts = (await cluster.api.get(NODES, "two"))["status"]["allocatable"]
        assert (amounts["aliyun.com/gpu-mem"], amounts["aliyun.com/gpu-count"]) == ("28", "2")
        assert "aliyun.com/gpu-mem" not in (await cluster.api.get(NODES, "none"))["status"]["allocatable"]
        assert cluster.extender_url().endswith("/verbs")
        assert cluster.log(DEVICE_PLUGIN, "two") == ""
        await cluster.restart_kubelet("two")
        assert (await cluster.api.get(NODES, "two"))["status"]["allocatable"]["aliyun.com/gpu-mem"] == "28"
    finally:
        await cluster.stop()


async def test_a_plugin_alone_has_a_scheduler_without_extenders() -> None:
    """Its node shows the plugin's resource, and a pod is bound without a card's annotation."""
    ours = load_target("gpushare").device_plugin
    plugin = Target("alone", device_plugin_or_none=Program(ours.argv, ours.environment, resource=ours.resource))
    cluster = make_cluster("embedded", [NodeSpec("one", "t4x1", "418.87")], plugin, Choices(dict(os.environ)))
    await cluster.start()
    try:
        limits = {"limits": {"aliyun.com/gpu-mem": "3"}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
        await cluster.api.ensure_namespace("default")
        container = {"name": "c", "image": "x", "resources": limits}
        await cluster.api.create({**pod, "spec": {"containers": [container]}}, "default")
        bound = await eventually(
            lambda: cluster.api.get(PODS, "p", "default"), lambda seen: seen["spec"].get("nodeName"), "it is bound"
        )
        assert bound["spec"]["nodeName"] == "one"
    finally:
        await cluster.stop()


async def test_a_plugin_of_another_vendor_is_awaited_by_its_resource() -> None:
    """The cluster is up once its node, here with a name of the greatest length, shows the resource, here one of each kubelet."""
    plugin = Target("another", device_plugin_or_none=Program(("sleep", "60"), resource="cpu"))
    longest = ".".join(["gpu-" + "a" * 59] * 4)[:253]
    cluster = make_cluster("embedded", [NodeSpec(longest, "t4x1")], plugin, Choices(dict(os.environ)))
    try:
        async with asyncio.timeout(30):
            await cluster.start()
        labels = (await cluster.api.get(NODES, longest))["metadata"]["labels"]
        assert len(labels["kubernetes.io/hostname"]) == 63
    finally:
        await cluster.stop()
