"""Two checkouts run kind side by side, and each ends alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from pathlib import Path

import pytest

from clusters.api.resources import NODES
from clusters.kind.sweeping import LABEL, folder_of_runs
from clusters.provider import Cluster
from e2e import commands

ROOT = Path(__file__).parents[2]
# All that a cluster and the images of its programs are made of.
FOLDERS = ("clusters", "e2e", "gpushare", "fake_nvml", ".ci")
FILES = ("Dockerfile", ".dockerignore", "pyproject.toml", "README.md", "LICENSE")


def copy_of_this_checkout(target: Path) -> Path:
    """Another checkout of the same content, so that the engine has its images already."""
    target.mkdir()
    for name in FOLDERS:
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy2(ROOT / name, target / name)
    return target


def clusters_of(checkout: Path, runs: Path) -> list[str]:
    """The clusters that a checkout has recorded; other runs may come and go in between."""
    found = []
    for path in runs.glob("*.run"):
        with contextlib.suppress(FileNotFoundError):
            record = json.loads(path.read_text())
            found += [record["cluster"]] if record.get("checkout") == str(checkout) else []
    return found


async def started(checkout: Path, *arguments: str) -> Process:
    """A command of this checkout's harness."""
    argv = [sys.executable, "-m", *arguments]
    return await asyncio.create_subprocess_exec(*argv, cwd=checkout, env=dict(os.environ), stdout=PIPE, stderr=STDOUT)


async def said(checkout: Path, *arguments: str) -> tuple[int, str]:
    """Its exit code and its output."""
    done = await commands.run(sys.executable, "-m", *arguments, folder=checkout)
    return done.code, done.said


async def containers(environment: dict[str, str]) -> set[str]:
    """The clusters that have containers."""
    argv = ["docker", "ps", "--all", "--format", f'{{{{.Label "{LABEL}"}}}}']
    return set((await commands.run(*argv, variables=environment)).output.split())


async def test_another_checkout_comes_and_ends_alone(
    request: pytest.FixtureRequest, docker_environment: dict[str, str], cluster: Cluster, tmp_path: Path
) -> None:
    """A checkout cannot end the Docker that the other one's cluster uses.

    The ``down`` of a checkout removes its own cluster, and this cluster still answers.
    """
    other = copy_of_this_checkout(tmp_path / "other")
    (tmp_path / "nodes.yaml").write_text("nodes: [{name: one, box: t4x1}]")
    run = await started(other, "clusters", "up", "--provider", "kind", "--nodes", str(tmp_path / "nodes.yaml"))
    request.addfinalizer(lambda: run.kill() if run.returncode is None else None)
    assert run.stdout is not None
    lines = []
    async for line in run.stdout:
        lines.append(line.decode())
        if "the cluster is up" in lines[-1]:
            break
    assert "the cluster is up" in lines[-1], "".join(lines)
    (theirs,) = clusters_of(other, folder_of_runs(docker_environment))
    both = await containers(docker_environment)
    during = await said(other, "clusters.kind.engine", "down")
    ours = await said(ROOT, "clusters.kind.engine", "down")
    down = await said(other, "clusters", "down")
    await run.communicate()
    ended = await said(other, "clusters.kind.engine", "down")

    assert theirs in both
    assert during[0] == 1
    assert f"it is in use by process {run.pid} of {other} (a kind cluster)" in during[1]
    assert ours[0] == 1
    assert f"process {os.getpid()} of {ROOT} (a kind cluster)" in ours[1]
    assert down[0] == 0
    assert f"ending the cluster of process {run.pid}, of {other}" in down[1]
    assert ended[0] == 0
    assert "this checkout uses it no more; it stays for" in ended[1]
    assert [node["metadata"]["name"] for node in await cluster.api.list(NODES)]
    assert theirs not in await containers(docker_environment)
