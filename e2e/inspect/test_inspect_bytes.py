"""Both tables of ``kubectl inspect gpushare`` are the original's, to the byte, on a cluster of the recorded objects alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from clusters.api.api_client import ApiClient
from clusters.api.resources import NODES, PODS
from clusters.provider import Cluster
from clusters.targets import Target
from e2e import commands
from e2e.observer import OwnCluster, ensure_open

pytestmark = pytest.mark.stand_in_only(
    "the tables are of one node and no other; a real kubelet ends pods that it does not run"
)

# Nodes and pods of a cluster, and what the original printed for each call.
RECORDED: Final = sorted(Path(__file__).with_name("recorded").glob("*.json"))
# The fields that an API server gives an object itself.
_OF_THE_SERVER: Final = ("uid", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bare(own: OwnCluster) -> AsyncIterator[Cluster]:
    """A cluster without nodes."""
    async with own([]) as cluster:
        yield cluster


def as_written(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    """The recorded object as its author would write it; any node takes the pod."""
    metadata = {key: value for key, value in item["metadata"].items() if key not in _OF_THE_SERVER}
    written = {**item, "apiVersion": "v1", "kind": kind, "metadata": metadata}
    return written | ({"spec": {**item["spec"], "tolerations": [{"operator": "Exists"}]}} if kind == "Pod" else {})


@contextlib.asynccontextmanager
async def laid_into(api: ApiClient, recorded: dict[str, Any]) -> AsyncIterator[None]:
    """Nodes and pods are there inside, in the recorded state."""
    async with contextlib.AsyncExitStack() as stack:
        for node in recorded["nodes"]:
            await api.create(as_written("Node", node))
            stack.push_async_callback(api.delete, NODES, node["metadata"]["name"])
        for pod in recorded["pods"]:
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            await ensure_open(api, namespace)
            await api.create(as_written("Pod", pod))
            stack.push_async_callback(api.delete, PODS, name, namespace, grace_seconds=0)
            await api.patch(PODS, name, {"status": pod["status"]}, namespace, subresource="status")
            if "deletionTimestamp" in pod["metadata"]:
                await api.delete(PODS, name, namespace, grace_seconds=600)
        yield


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_the_original_printed_the_same_bytes(bare: Cluster, target: Target, path: Path) -> None:
    """Without arguments, with details, and both for the node by its name; nothing else is printed, and the exit code is 0."""
    recorded = json.loads(path.read_text())
    account = await bare.kubeconfig_of(target.inspect.account)
    argv, environment = target.inspect.command(kubeconfig=str(account))
    variables = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **environment}
    async with laid_into(bare.api, recorded):
        calls = (commands.run(*argv, *words.split(), variables=variables) for words in recorded["runs"])
        ended = await asyncio.gather(*calls)

    printed = {words: (one.code, in_one_order(one.output)) for words, one in zip(recorded["runs"], ended, strict=True)}
    assert printed == {words: (run["exit"], in_one_order(run["stdout"])) for words, run in recorded["runs"].items()}


def in_one_order(text: str) -> str:
    """The text with the pods of each node by name; the original's order of pods is that of a Go map, which is random."""
    lines: list[str] = []
    first = 0
    for line in text.split("\n"):
        if first and line.startswith("Allocated :"):
            lines[first:] = sorted(lines[first:])
            first = 0
        lines.append(line)
        if line.startswith("NAME  ") and "NAMESPACE" in line:
            first = len(lines)
    return "\n".join(lines)
