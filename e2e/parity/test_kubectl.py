"""Users' work with kubectl, a case each: ``kubectl_commands.yaml``. Both clusters must answer with the same text."""

from __future__ import annotations

import asyncio
import difflib
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml

from clusters.controlplane.binaries import Binaries
from clusters.provider import load_nodes
from clusters.providers import Choices, make_cluster
from clusters.targets import Target
from e2e.parity.kubectl_sessions import Session

_HERE: Final = Path(__file__).parent
_CASES: Final = yaml.safe_load((_HERE / "kubectl_commands.yaml").read_text())
_NODES: Final = _HERE.parents[1] / "clusters" / "simulated" / "demo.yaml"
_NUMBERS: Final = itertools.count(1)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def sessions(
    binaries: Binaries, choices: Choices, target: Target, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[list[Session]]:
    """A user of the real cluster and one of the embedded, which have the same nodes and programs."""
    home = tmp_path_factory.mktemp("kubectl")
    async with AsyncExitStack() as stack:
        found = []
        for name in ("controlplane", "embedded"):
            cluster = make_cluster(name, load_nodes(_NODES), target, choices)
            await cluster.start()
            stack.push_async_callback(cluster.stop)
            # A home of its own: kubectl keeps there what it has found out about a server.
            environment = {**choices.environment, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(home / name)}
            found.append(Session(name, binaries["kubectl"], _HERE / "manifests", environment))
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(sessions: list[Session]) -> AsyncIterator[str]:
    """A namespace of the same name on both sides, ready for pods; removed in the end."""
    name = f"kubectl-{next(_NUMBERS)}"
    for session in sessions:
        made = await session.run(f"create namespace {name}", "default")
        assert made[0] == "exit code 0", f"{session.name}: {made}"
        await session.run("get serviceaccount default -o name", name, until="serviceaccount/default")
    try:
        yield name
    finally:
        await asyncio.gather(*(one.run(f"delete namespace {name} --wait=false", "default") for one in sessions))


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["case"])
async def test_kubectl_says_the_same(sessions: list[Session], namespace: str, case: dict[str, Any]) -> None:
    """The promise of the case: stdout, stderr and exit code of each command are equal."""
    found = []
    for entry in case["steps"]:
        step = {"run": entry} if isinstance(entry, str) else dict(entry)
        command = step.pop("run")
        real, embedded = await asyncio.gather(*(session.run(command, namespace, **step) for session in sessions))
        differing = list(difflib.unified_diff(real, embedded, "controlplane", "embedded", lineterm="", n=3))
        found += [f"$ kubectl {command}", *differing] if differing else []
    assert not found, f"{case['promise']}:\n" + "\n".join(found)
