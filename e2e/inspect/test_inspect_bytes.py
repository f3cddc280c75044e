"""Both tables of ``kubectl inspect gpushare`` are the original's, to the byte, on a cluster of the recorded objects alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from clusters.api.api_client import ApiClient
from clusters.api.resources import NODES, PODS
from clusters.provider import Cluster
from clusters.targets import Target
from e2e import commands
from e2e.inspect.recorded_tables import RecordedTable, in_one_order, load
from e2e.observer import OwnCluster, ensure_open
from e2e.report.case_notes import add_note

pytestmark = pytest.mark.stand_in_only(
    "the tables are of one node and no other; a real kubelet ends pods that it does not run"
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bare(own: OwnCluster) -> AsyncIterator[Cluster]:
    """A cluster without nodes."""
    async with own([]) as cluster:
        yield cluster


@contextlib.asynccontextmanager
async def laid_into(api: ApiClient, recorded: RecordedTable) -> AsyncIterator[None]:
    """Node and pods are there inside, in the recorded state."""
    async with contextlib.AsyncExitStack() as stack:
        await api.create(recorded.node.manifest())
        stack.push_async_callback(api.delete, NODES, recorded.node.name)
        for pod in recorded.pods:
            await ensure_open(api, pod.namespace)
            await api.create(pod.manifest(recorded.node.name), pod.namespace)
            stack.push_async_callback(api.delete, PODS, pod.name, pod.namespace, grace_seconds=0)
            await api.patch(PODS, pod.name, {"status": {"phase": pod.phase}}, pod.namespace, subresource="status")
            if pod.leaves:
                await api.delete(PODS, pod.name, pod.namespace, grace_seconds=600)
        yield


@pytest.mark.parametrize("recorded", load(), ids=lambda one: one.name)
async def test_the_original_printed_the_same_bytes(
    request: pytest.FixtureRequest, bare: Cluster, target: Target, recorded: RecordedTable
) -> None:
    """Without arguments, with details, and both for the node by its name; nothing else is printed, and the exit code is 0."""
    add_note(request, "inspect", recorded.shows)
    account = await bare.kubeconfig_of(target.inspect.account)
    argv, environment = target.inspect.command(kubeconfig=str(account))
    variables = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **environment}
    arguments = [[], ["-d"], [recorded.node.name], ["-d", recorded.node.name]]
    async with laid_into(bare.api, recorded):
        ended = await asyncio.gather(*(commands.run(*argv, *words, variables=variables) for words in arguments))

    printed = {
        " ".join(words): (one.code, in_one_order(one.output)) for words, one in zip(arguments, ended, strict=True)
    }
    assert printed == {
        " ".join(words): (0, in_one_order(recorded.output(details="-d" in words))) for words in arguments
    }


def test_only_the_order_of_pods_is_left_open() -> None:
    """Pods of a node in another order are the same text, and pods of two nodes are not exchanged."""
    head, one, two, tail = "NAME  NAMESPACE  GPU0\n", "a     x          1\n", "b     x          2\n", "Allocated :  3\n"

    assert in_one_order(head + two + one + tail) == head + one + two + tail
    assert in_one_order(head + two + tail + head + one + tail) == head + two + tail + head + one + tail
    assert in_one_order(tail + two + one) == tail + two + one
