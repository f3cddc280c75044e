"""Promises of clusters.kubelet.plugin_client, against a real plugin on a socket."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest

from clusters.kubelet.kubelet_devices import Count
from clusters.kubelet.plugin_client import PluginClient, PluginError, serving
from clusters.kubelet.timings import Timings
from tests.clusters.kubelet.pods_of_tests import container, pod
from tests.clusters.kubelet.small_plugin import RESOURCE, Plugin, ids, register
from tests.servers import until

# For cases about a plugin that does not serve: the refusal comes after this time.
IMPATIENT = Timings(dial=0.3)


@pytest.mark.promise("G3-01")
async def test_plugin_is_asked_for_options_before_register_returns(node) -> None:
    """A plugin that answers inside its own Register gets through, and is asked for its list once."""
    plugin = await node.plug(Plugin(ids("abc")))

    assert node.devices.book.counts() == {RESOURCE: Count(3, 3)}
    assert plugin.asked("list") == [()]


@pytest.mark.promise("G3-01")
@pytest.mark.parametrize("timings", [IMPATIENT], ids=["impatient"])
async def test_a_plugin_that_registers_before_it_serves_is_refused(node) -> None:
    """The error has advice, and no device is known."""
    with pytest.raises(grpc.aio.AioRpcError, match="serve before it registers"):
        await register(node.folder, "nobody.sock")

    assert node.devices.book.counts() == {}


@pytest.mark.parametrize("timings", [Timings(dial=3)], ids=["impatient"])
async def test_a_refused_plugin_gets_through_as_soon_as_it_serves(node) -> None:
    """No back-off of the attempt before stands in its way."""
    with pytest.raises(grpc.aio.AioRpcError):
        await register(node.folder, "plugin.sock")
    await node.plug(Plugin(ids("a")))

    assert node.devices.book.counts() == {RESOURCE: Count(1, 1)}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"version": "v1alpha"}, 'API version "v1alpha" is not supported by kubelet. Supported version is'),
        ({"resource": "nodomain"}, 'the ResourceName "nodomain" is invalid'),
        ({"resource": "kubernetes.io/gpu"}, 'the ResourceName "kubernetes.io/gpu" is invalid'),
    ],
    ids=["version", "no domain", "kubernetes' own"],
)
async def test_a_wrong_registration_is_refused(node, wrong, text) -> None:
    """Version and resource name are checked, with the kubelet's texts."""
    with pytest.raises(grpc.aio.AioRpcError, match=text):
        await register(node.folder, "p.sock", **wrong)


@pytest.mark.promise("G3-02")
async def test_each_list_is_the_full_list(node) -> None:
    """A device that a new list lacks is gone."""
    plugin = await node.plug(Plugin(ids("abc")))
    plugin.announce({"a": True, "b": False})

    await until(lambda: node.devices.book.counts() == {RESOURCE: Count(2, 1)})


@pytest.mark.promise("G3-05")
async def test_a_list_above_4_mib_ends_the_plugin(node) -> None:
    """The kubelet takes no larger message; the resource then shows 0 and the list is not asked for again."""
    plugin = await node.plug(Plugin(ids(f"{n:060}" for n in range(70_000))))

    assert node.devices.book.counts() == {RESOURCE: Count(0, 0)}
    assert plugin.asked("list") == [()]


@pytest.mark.promise("G3-05")
async def test_a_list_just_below_4_mib_is_taken(node) -> None:
    """60 characters make 73 bytes a device: 57,456 of them fit."""
    await node.plug(Plugin(ids(f"{n:060}" for n in range(4_194_304 // 73))))

    assert node.devices.book.counts() == {RESOURCE: Count(57_456, 57_456)}


@pytest.mark.promise("G3-04")
async def test_end_of_the_stream_makes_devices_sick_without_a_retry(node) -> None:
    """The kubelet does not call ListAndWatch again."""
    plugin = await node.plug(Plugin(ids("abc")))
    plugin.end_stream()

    await until(lambda: node.devices.book.counts() == {RESOURCE: Count(3, 0)})
    assert plugin.asked("list") == [()]


@pytest.mark.promise("G3-04")
@pytest.mark.parametrize("timings", [Timings().scaled(0.001)], ids=["scaled"])
async def test_after_the_grace_period_the_capacity_is_zero_too(node) -> None:
    """The key stays, with 0."""
    plugin = await node.plug(Plugin(ids("abc")))
    await plugin.stop()

    await until(lambda: node.devices.book.counts() == {RESOURCE: Count(0, 0)})


async def test_the_newest_registration_wins(node) -> None:
    """Allocate goes to the plugin that registered last."""
    old = await node.plug(Plugin(ids("ab")), "old.sock")
    new = await node.plug(Plugin(ids("abc")), "new.sock")
    await node.devices.allocate(pod("p", container("x", 3)), (), lambda: {"uid-p"})

    assert (len(old.asked("allocate")), len(new.asked("allocate"))) == (0, 1)


@pytest.mark.promise("G3-13")
async def test_a_start_removes_sockets_and_keeps_the_checkpoint(node) -> None:
    """Plugins notice the kubelet's restart by the loss of their sockets."""
    await node.plug(Plugin(ids("a")))
    await node.stop()
    stale = node.folder / "stale.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(stale))
        assert await node.start()

    assert not stale.exists()
    assert (node.folder / "kubelet_internal_checkpoint").is_file()
    assert (node.folder / "kubelet.sock").is_socket()


async def test_a_path_that_no_socket_takes_is_refused_with_advice(tmp_path) -> None:
    """Unix sockets have paths of about a hundred characters."""
    with pytest.raises(ValueError, match="use a shorter root"):
        async with serving(tmp_path / ("x" * 100), lambda server: None):
            pass


async def test_many_registrations_at_once_all_get_through(node) -> None:
    """Different resources do not wait for one another."""
    plugins = [Plugin(ids("a")) for _ in range(5)]
    for number, plugin in enumerate(plugins):
        await plugin.serve(node.folder / f"p{number}.sock")
    await asyncio.gather(
        *[register(node.folder, f"p{number}.sock", resource=f"example.com/r{number}") for number in range(5)]
    )

    await until(lambda: len(node.devices.book.counts()) == 5)
    for plugin in plugins:
        await plugin.stop()


@pytest.mark.parametrize("timings", [IMPATIENT], ids=["impatient"])
async def test_failed_registration_hides_the_former_plugins_end(node) -> None:
    """A failed registration hides the end of the former plugin, whose devices keep counting, as in a real kubelet."""
    plugin = await node.plug(Plugin(ids("ab")))
    with pytest.raises(grpc.aio.AioRpcError, match="failed to dial"):
        await register(node.folder, "nobody.sock")
    allocate = node.devices.allocate(pod("p", container("x", 1)), (), lambda: {"uid-p"})
    plugin.end_stream()
    await allocate

    assert node.devices.book.counts() == {RESOURCE: Count(2, 2)}


async def test_stream_that_ends_during_a_registration_fails_it(node) -> None:
    """A plugin's registration fails if its old stream ends meanwhile, so plugins end old streams first."""
    old = await node.plug(Plugin(ids("ab")), "old.sock")
    new = Plugin(ids("abc"))
    new.options_gate = asyncio.Event()
    node.plugins.append(new)
    await new.serve(node.folder / "new.sock")
    registering = asyncio.create_task(register(node.folder, "new.sock"))
    await until(lambda: new.asked("options"), "the question for options")
    old.end_stream()

    with pytest.raises(grpc.aio.AioRpcError, match="failed to get device plugin options: rpc error: code = Canceled"):
        await registering
    assert node.devices.book.counts() == {RESOURCE: Count(2, 0)}
    new.options_gate.set()


async def test_beside_its_socket_a_kubelet_leaves_a_file(kubelet) -> None:
    """A kubelet leaves an empty file DEPRECATION in the plugin folder, which plugins that watch it see appear."""
    assert (kubelet.plugin_folder / "DEPRECATION").read_bytes() == b""


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
