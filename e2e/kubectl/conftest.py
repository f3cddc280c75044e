"""Two users with kubectl, one on each kind of cluster, with the same nodes and the same programs."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from clusters.controlplane.binaries import Binaries
from clusters.provider import NodeSpec, load_nodes
from clusters.providers import Choices, make_cluster
from clusters.targets import Target
from e2e.kubectl.sessions import Session

_HERE: Final = Path(__file__).parent
_CLUSTERS: Final = _HERE.parent.parent / "clusters"
_MANIFESTS: Final = (_HERE / "manifests", _CLUSTERS / "deploy" / "samples")
_NODES: Final = _CLUSTERS / "simulated" / "demo.yaml"
_NUMBERS: Final = itertools.count(1)
# The cluster with the right text, then the one that is compared with it.
SIDES: Final = ("controlplane", "embedded")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Any kubectl must say the same on both."""
    parser.getgroup("gpushare").addoption(
        "--kubectl", type=Path, help="the kubectl that is used (default: the one of the real control plane)"
    )


@pytest.fixture(scope="session")
def kubectl(request: pytest.FixtureRequest, binaries: Binaries) -> Path:
    """The program of the user."""
    path: Path = request.config.getoption("--kubectl") or binaries["kubectl"]
    if shutil.which(path) is None:
        pytest.skip(f"there is no kubectl at {path}")
    return path


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def sessions(
    kubectl: Path, choices: Choices, target: Target, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Session, Session]]:
    """A user of the real cluster and one of the embedded."""
    folder = tmp_path_factory.mktemp("kubectl")
    for manifest in itertools.chain.from_iterable(path.glob("*.yaml") for path in _MANIFESTS):
        shutil.copy(manifest, folder)
    nodes: list[NodeSpec] = load_nodes(_NODES)
    async with AsyncExitStack() as stack:
        found = []
        for name in SIDES:
            cluster = make_cluster(name, nodes, target, choices)
            await cluster.start()
            stack.push_async_callback(cluster.stop)
            found.append(Session(name, kubectl, cluster.kubeconfig, folder, choices.environment))
        yield found[0], found[1]


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(sessions: tuple[Session, Session], request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A namespace of the same name on both sides, ready for pods; removed in the end."""
    name = f"kubectl-{next(_NUMBERS)}"
    await asyncio.gather(*(_make(session, name) for session in sessions))
    try:
        yield name
    finally:
        await asyncio.gather(
            *(session.run(f"delete namespace {name} --wait=false", "default") for session in sessions),
            *(session.run("uncordon -l kubernetes.io/os=linux", "default") for session in sessions),
        )


async def _make(session: Session, name: str) -> None:
    made = await session.run(f"create namespace {name}", "default")
    assert made.code == 0, f"{session.name}: {made.text()}"
    await session.run_until("get serviceaccount default -o name", name, "serviceaccount/default")
