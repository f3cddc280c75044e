"""Promises of clusters.embedded.apiserver.server: start, stop, kubeconfig, and that an unmodified kubectl can use it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from clusters.api import kubeconfig_file
from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import TransportError
from clusters.api.resources import CONFIG_MAPS, NAMESPACES, PODS
from clusters.embedded.apiserver.server import EmbeddedApi
from tests.clusters.embedded.apiserver.samples import config_map, deployment, pod
from tests.servers import plain_http, until

KUBECTL = shutil.which("kubectl")


async def test_it_listens_on_loopback_only_and_ends(embedded: EmbeddedApi) -> None:
    """No request is answered after the stop; a second stop does nothing."""
    url = await embedded.start()
    assert url.startswith("http://127.0.0.1:")
    await embedded.stop()
    await embedded.stop()
    async with plain_http() as http:
        with pytest.raises(TransportError):
            await http.get(url)


async def test_a_stop_does_not_wait_for_watches(embedded: EmbeddedApi, client: ApiClient) -> None:
    """Watches end cleanly, though their clients come again immediately."""
    events: list[str] = []

    async def follow() -> None:
        async for kind, _ in client.watch(NAMESPACES):
            events.append(kind)

    following = asyncio.create_task(follow())
    await until(lambda: "SYNCED" in events)
    async with asyncio.timeout(4):  # less than the time after which the server would cut the connection
        await embedded.stop()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_a_restart_on_the_same_port_keeps_the_objects(embedded: EmbeddedApi, client: ApiClient) -> None:
    """A server that restarts on its port keeps the objects, as an API server over its etcd does."""
    await client.create(config_map())
    await embedded.stop()
    await embedded.start(int(embedded.address.rpartition(":")[2]))

    assert [item["metadata"]["name"] for item in await client.list(CONFIG_MAPS)] == ["c"]


async def test_a_taken_port_is_an_error(embedded: EmbeddedApi) -> None:
    """A taken port is an error, not a server that no client reaches."""
    url = await embedded.start()
    other = EmbeddedApi()
    with pytest.raises(OSError, match="in use"):
        await other.start(int(url.rpartition(":")[2]))


async def test_the_first_namespaces_are_there(client: ApiClient) -> None:
    """The first four namespaces of every cluster exist, and an unknown one is refused."""
    names = [item["metadata"]["name"] for item in await client.list(NAMESPACES)]

    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    with pytest.raises(ApiError, match='namespaces "nowhere" not found'):
        await client.create(config_map(), "nowhere")


def run_kubectl(kubeconfig: Path, *arguments: str, manifest: object = None) -> str:
    """The output of an unmodified kubectl; it must succeed."""
    assert KUBECTL is not None
    environment = {"KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [KUBECTL, *arguments],
        env=environment,
        input=yaml.safe_dump(manifest),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")
async def test_kubectl_creates_changes_shows_and_deletes(embedded: EmbeddedApi, tmp_path: Path) -> None:
    """The commands that a user tries first."""
    kubeconfig = kubeconfig_file.write(tmp_path / "kubeconfig", await embedded.start(), ca=None)

    async def kubectl(*arguments: str, manifest: object = None) -> str:
        return await asyncio.to_thread(run_kubectl, kubeconfig, *arguments, manifest=manifest)

    assert "created" in await kubectl(
        "create", "--validate=false", "-f", "-", manifest=pod(limits={"aliyun.com/gpu-mem": 2})
    )
    assert "aliyun.com/gpu-mem:  2" in await kubectl("describe", "pod", "p")
    assert "labeled" in await kubectl("label", "pod", "p", "a=b")
    assert "pod/p" in await kubectl("get", "pods", "-l", "a=b", "-o", "name")
    apply = ("apply", "--validate=false", "-f", "-")
    assert "created" in await kubectl(*apply, manifest=deployment(replicas=1))
    assert "configured" in await kubectl(*apply, manifest=deployment(replicas=2))
    assert "unchanged" in await kubectl(*apply, manifest=deployment(replicas=2))
    assert "scaled" in await kubectl("scale", "deployment/d", "--replicas=3")
    assert await kubectl("get", "deploy", "d", "-o", "jsonpath={.spec.replicas}") == "3"
    assert "deleted" in await kubectl("delete", "pod", "p")
    assert embedded.store.get(PODS, "default", "p") is None
