"""``python -m e2e observe`` on running clusters: it names each planted fault and nothing else, and is silent if all is well."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import pytest_asyncio

from clusters.api import kubeconfig_file
from clusters.api.resources import PODS
from clusters.provider import Cluster, NodeSpec
from clusters.targets import Target
from e2e import spec
from e2e.builders import NO_SCHEDULER, binding, booking, gpu_pod
from e2e.commands import python
from e2e.observer import Observer, OwnCluster
from e2e.tenant import applied

_RIGHTS: Final = Path(__file__).parent / "observe-rbac.yaml"
_FINDINGS: Final = 3


async def observe(cluster: Cluster, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """The command with the rights that its file asks for: its exit code, its JSON, and its progress."""
    options = (f"--kubeconfig={await applied(cluster, _RIGHTS)}", "--every=1s", "--output=json")
    code, output, progress = await python("-m", "e2e", "observe", *options, *arguments)
    assert code in (0, _FINDINGS), progress
    return code, json.loads(output), progress


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def unguarded(own: OwnCluster, target: Target) -> AsyncIterator[Cluster]:
    """Three nodes without the policies that refuse what a person writes on pods, as an older installation is."""
    nodes = [NodeSpec(name, box="t4x1") for name in ("g1", "g2", "g3")]
    async with own(nodes, msgspec.structs.replace(target, policies=())) as cluster:
        yield cluster


async def test_observe_is_silent_on_a_busy_cluster(observer: Observer) -> None:
    """Pods come, share cards, wait and go while it looks."""
    looking = asyncio.create_task(observe(observer.cluster, "--for", "8s"))
    for round_number in range(3):
        names = [f"busy-{round_number}-{number}" for number in range(4)]
        await observer.run(*(gpu_pod(name, 2) for name in names))
        for name in names[:2]:
            await observer.delete(name)
    code, document, progress = await looking
    assert (code, document["findings"]) == (0, []), progress
    assert document["looks"] > 1
    assert document["nodes"] > 1


@pytest.mark.needs("cards-annotation")
async def test_observe_names_each_planted_fault_and_no_other(unguarded: Cluster) -> None:
    """A card over-booked, a lost card, a forged annotation, a pod bound by hand."""
    api = unguarded.api
    # A node without its kubelet starts nothing and refuses nothing, so each fault stays as it was planted.
    await unguarded.kill("device_plugin", "g2")
    for node in ("g1", "g2"):
        await unguarded.kill("kubelet", node)
    for name in ("over-1", "over-2"):
        await api.create(gpu_pod(name, 8, scheduler=NO_SCHEDULER), "default")
        body = binding(name, "g1", annotations=booking(8, card=0))
        await api.request("POST", PODS.path("default", name, "binding"), body=body)
    await api.create(gpu_pod("forged", 1, scheduler=NO_SCHEDULER, annotations={spec.POD_INDEX: "0"}), "default")
    await api.create(gpu_pod("by-hand", 1, bound_to="g2"), "default")
    await unguarded.fake_nvml("g3", "lose", "0")

    code, document, progress = await observe(unguarded, "--for", "5s")

    assert {(one["rule"], one["subject"]) for one in document["findings"]} == {
        ("over-booked", "node g1 card 0"),
        ("unhealthy-card", "node g3 card 0"),
        ("forged-annotation", "pod default/forged"),
        ("bypassed", "pod default/by-hand"),
    }, progress
    assert code == _FINDINGS


async def test_observe_without_an_api_server_fails_with_its_url(tmp_path: Path) -> None:
    """The exit code is 1, and one line names the server that does not answer."""
    path = kubeconfig_file.write(tmp_path / "config", "http://127.0.0.1:9", ca=None)
    code, _, errors = await python("-m", "e2e", "observe", f"--kubeconfig={path}")
    assert code == 1
    assert errors.startswith("observe: the API server at http://127.0.0.1:9 does not answer")
