"""A cluster without nodes, nodes and bound pods that are objects alone, and the program that explains."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from clusters.api.resources import NODES
from clusters.api.waiting import eventually
from clusters.provider import Cluster
from clusters.targets import Target
from e2e import commands, spec
from e2e.observer import Observer, OwnCluster

Object = dict[str, Any]
Ask = Callable[..., Awaitable[Object]]
"""The answer of the program to these words, as a document."""


def asking(target: Target, kubeconfig: Path) -> Ask:
    """The program with the rights of this kubeconfig."""
    argv, environment = target.kubectl.command(kubeconfig=str(kubeconfig))
    variables = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **environment}

    async def run(*words: str) -> Object:
        ended = await commands.run(*argv, *words, "-o", "json", variables=variables)
        assert ended.code == 0, ended.said
        answer: Object = json.loads(ended.output)
        return answer

    return run


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bare(own: OwnCluster) -> AsyncIterator[Cluster]:
    """A cluster without nodes."""
    async with own([]) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def ask(bare: Cluster, target: Target) -> Ask:
    """Asks with the rights of the account that is shipped for looking, and no more."""
    return asking(target, await bare.kubeconfig_of(target.kubectl.account))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def ask_all(bare: Cluster, target: Target) -> Ask:
    """Asks with all rights, those on events and quotas too."""
    return asking(target, bare.kubeconfig)


@pytest.fixture
def manifest(tmp_path: Path) -> Callable[[Object], str]:
    """Writes a manifest; its path."""

    def write(document: Object) -> str:
        path = tmp_path / "manifest.json"
        path.write_text(json.dumps(document))
        return str(path)

    return write


@contextlib.asynccontextmanager
async def laid_out(observer: Observer, nodes: Sequence[Object], pods: Sequence[Object]) -> AsyncIterator[None]:
    """Nodes and pods are there inside, and the extender knows them; afterwards it has forgotten them."""
    names = {node["metadata"]["name"] for node in nodes}
    placed = {pod["metadata"]["name"] for pod in pods if spec.POD_INDEX in pod["metadata"]["annotations"]}

    def is_known(book: Any) -> bool:
        known = book.get("nodes") or ()
        booked = {pod["name"] for node in known for card in node["devs"] for pod in card["pods"]}
        return {node["name"] for node in known} == names and booked == placed

    api = observer.cluster.api
    for node in nodes:
        await api.create(node)
    try:
        for pod in pods:
            await observer.create(pod)
        await eventually(observer.inspect, is_known, "the extender knows nodes and pods")
        yield
        await observer.clear()
    finally:
        for name in names:
            await api.delete(NODES, name)
        # The next case may have a node of the same name.
        await eventually(observer.inspect, lambda book: not book.get("nodes"), "the extender has forgotten the nodes")
