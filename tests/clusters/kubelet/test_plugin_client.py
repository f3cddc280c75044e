"""Promises of clusters.kubelet.plugin_client, against a real plugin on a socket."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from clusters.kubelet.plugin_client import PluginClient, PluginError
from tests.clusters.kubelet.small_plugin import RESOURCE, Plugin
from tests.servers import until


@asynccontextmanager
async def _asked() -> AsyncIterator[tuple[PluginClient, asyncio.Task[bytes]]]:
    """A client of a plugin that was asked for devices and does not answer."""
    plugin = Plugin({"a": True}, prefers=True, pre_start=True)
    plugin.allocate_gate = asyncio.Event()
    with tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp") as folder:
        socket = Path(folder) / "plugin.sock"
        await plugin.serve(socket)
        client = PluginClient(RESOURCE, socket)
        try:
            await client.connect(20)
            task = asyncio.create_task(client.allocate(["a"]))
            await until(lambda: plugin.asked("allocate"), "the plugin is asked")
            yield client, task
        finally:
            await client.close()
            await plugin.stop()


async def test_call_on_a_closing_connection_is_an_error() -> None:
    """A call that is under way when the client closes ends with a PluginError, so the caller can go on."""
    async with _asked() as (client, task):
        await client.close()
        with pytest.raises(PluginError, match="the client connection is closing"):
            await task


async def test_call_on_a_closed_connection_is_the_same_error() -> None:
    """A plugin that registers again closes the old connection between two calls for one container."""
    async with _asked() as (client, task):
        await client.close()
        calls = (task, client.allocate(["a"]), client.preferred(["a"], (), 1), client.pre_start(["a"], 1))
        for call in (*calls, anext(client.lists())):
            with pytest.raises(PluginError, match="the client connection is closing"):
                await call


@pytest.mark.parametrize("closed", [False, True])
async def test_whoever_is_cancelled_is_cancelled(closed: bool) -> None:
    """A cancelled call ends even if the connection closes at the same moment, so that no kubelet is held up for ever."""
    async with _asked() as (client, task):
        closing = asyncio.create_task(client.close()) if closed else None
        await asyncio.sleep(0)
        task.cancel()
        if closing is not None:
            await closing
        await asyncio.wait([task])
        assert task.cancelled()
