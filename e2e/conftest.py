"""Where the cases run and what they judge: ``--cluster``, ``--target``; one cluster for all, one namespace for each case."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from clusters.provider import Cluster, load_nodes
from clusters.providers import make_cluster
from clusters.targets import load_target
from e2e.observer import Observer

_NODES = Path(__file__).parent.parent / "clusters" / "simulated" / "six-mixed.yaml"
_HERE = Path(__file__).parent
_NUMBERS = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The two questions of every run."""
    group = parser.getgroup("gpushare", "end-to-end cases")
    group.addoption("--cluster", default="embedded", help="kind of cluster to run on (default: embedded)")
    group.addoption("--target", default="gpushare", help="what is judged: a name in e2e/targets, or a file")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All cases share the event loop in which the session's cluster lives."""
    mark = pytest.mark.asyncio(loop_scope="session")
    for item in items:
        if _HERE in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(mark, append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """Six nodes of mixed cards, with the target's programs as processes of their own."""
    name, target = request.config.getoption("--cluster"), request.config.getoption("--target")
    cluster = make_cluster(name, load_nodes(_NODES), load_target(target), dict(os.environ))
    await cluster.start()
    try:
        yield cluster
    finally:
        artefacts = tmp_path_factory.mktemp("programs")
        for program, node in [("extender", None), *(("device_plugin", spec.name) for spec in load_nodes(_NODES))]:
            (artefacts / f"{program}-{node or 'all'}.log").write_text(cluster.log(program, node))
        await cluster.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def observer(cluster: Cluster) -> AsyncIterator[Observer]:
    """A namespace of the case's own; its pods are gone when the next case begins."""
    namespace = f"case-{next(_NUMBERS)}"
    await cluster.api.ensure_namespace(namespace)
    observer = Observer(cluster, namespace)
    try:
        yield observer
    finally:
        await observer.close()
