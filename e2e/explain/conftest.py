"""A cluster without nodes, and the program that explains."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from clusters.provider import Cluster
from clusters.targets import Target
from e2e import commands
from e2e.observer import OwnCluster

Ask = Callable[..., Awaitable[dict[str, Any]]]
"""The answer of the program to these words, as a document."""


def asking(target: Target, kubeconfig: Path) -> Ask:
    """The program with the rights of this kubeconfig."""
    argv, environment = target.kubectl.command(kubeconfig=str(kubeconfig))
    variables = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **environment}

    async def run(*words: str) -> dict[str, Any]:
        ended = await commands.run(*argv, *words, "-o", "json", variables=variables)
        assert ended.code == 0, ended.said
        answer: dict[str, Any] = json.loads(ended.output)
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
def manifest(tmp_path: Path) -> Callable[[dict[str, Any]], str]:
    """Writes a manifest; its path."""

    def write(document: dict[str, Any]) -> str:
        path = tmp_path / "manifest.json"
        path.write_text(json.dumps(document))
        return str(path)

    return write
