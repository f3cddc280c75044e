"""Promises of the provider kind: to the machine that it runs on, to another checkout there, to programs of others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from pathlib import Path
from typing import Any

import pytest

from clusters.api.resources import NODES
from clusters.api.waiting import eventually
from clusters.kind.kind_cluster import KindCluster
from clusters.kind.sweeping import LABEL, folder_of_runs, sweep_all
from clusters.provider import DEVICE_PLUGIN, EXTENDER, Cluster, NodeSpec
from clusters.providers import Choices
from clusters.targets import load_target
from e2e import commands
from e2e.builders import gpu_pod
from e2e.observer import OwnCluster, observing

ROOT = Path(__file__).parents[2]
# All that a cluster and the images of its programs are made of.
FOLDERS = ("clusters", "e2e", "gpushare", "fake_nvml", ".ci")
FILES = ("Dockerfile", ".dockerignore", "pyproject.toml", "README.md", "LICENSE")
ONE = "{name: one, box: t4x1}"
IS_UP = "the cluster is up"


def docker(environment: dict[str, str], *arguments: str) -> list[str]:
    done = subprocess.run(["docker", *arguments], env=environment, check=True, capture_output=True, text=True)
    return done.stdout.split()


def containers(environment: dict[str, str], cluster: str) -> list[str]:
    """Those of one cluster, whatever state they are in."""
    return docker(environment, "ps", "--all", "--quiet", "--filter", f"label={LABEL}={cluster}")


def published_ports(environment: dict[str, str], container: str) -> list[tuple[str, str]]:
    """Which port of a container is reached at which address of this machine."""
    (found,) = json.loads(" ".join(docker(environment, "inspect", container)))
    ports = found["NetworkSettings"]["Ports"]
    return [(port, way["HostIp"]) for port, ways in ports.items() for way in ways or []]


def records_of(pid: int, runs: Path) -> list[Path]:
    """The clusters that a process has recorded; other runs may come and go in between."""
    found = []
    for path in runs.glob("*.run"):
        with contextlib.suppress(FileNotFoundError):
            found += [path] if json.loads(path.read_text()).get("pid") == pid else []
    return found


async def started(
    request: pytest.FixtureRequest, folder: Path, nodes: str, *arguments: str, checkout: Path = ROOT, **streams: Any
) -> Process:
    """The command that brings a cluster of these nodes up; it is killed if it outlives the test."""
    (folder / "nodes.yaml").write_text(f"nodes: [{nodes}]")
    argv = [sys.executable, "-m", "clusters", "up", "--provider", "kind", "--nodes", str(folder / "nodes.yaml")]
    run = await asyncio.create_subprocess_exec(*argv, *arguments, cwd=checkout, **streams)
    request.addfinalizer(lambda: run.kill() if run.returncode is None else None)
    return run


async def test_nodes_publish_ports_on_loopback_only(docker_environment: dict[str, str], cluster: Cluster) -> None:
    """The API server's is the only one; so is the extender's way in."""
    assert isinstance(cluster, KindCluster)
    names = [cluster.workers.control_plane, *cluster.workers.names()]
    published = {}
    for name in names:
        published[name] = published_ports(docker_environment, cluster.workers.container(name).container)

    assert published[cluster.workers.control_plane] == [("6443/tcp", "127.0.0.1")]
    assert [name for name in cluster.workers.names() if published[name]] == []
    assert cluster.extender_url().startswith("http://127.0.0.1:")


@pytest.mark.usefixtures("docker_environment")
async def test_a_nodes_kernel_settings_are_not_the_hosts(choices: Choices, cluster: Cluster) -> None:
    """A kernel setting that is written in a node of our image stays in that node."""
    assert isinstance(cluster, KindCluster)
    if choices.node_image:
        pytest.skip("nodes of another image change this machine's settings")
    setting = Path("/proc/sys/kernel/panic")
    before = setting.read_text()
    node = cluster.workers.container(cluster.workers.names()[0])
    seen = await node.execute("sh", "-c", f"echo 77 >{setting}; cat {setting}")
    after = setting.read_text()
    await node.execute("sh", "-c", f"echo {before.strip()} >{setting}")

    assert (seen, after) == ("77\n", before)


async def test_a_killed_run_leaves_only_what_the_next_removes(
    request: pytest.FixtureRequest, docker_environment: dict[str, str], tmp_path: Path
) -> None:
    """SIGKILL: its programs and its folder go with it, its containers at the next sweep; the user's kubeconfig is as it was."""
    users, out = tmp_path / "users", tmp_path / "kubeconfig"
    users.write_text("apiVersion: v1\nkind: Config\ncurrent-context: production\n")
    before = (users.read_bytes(), users.stat().st_mtime_ns)
    environment = {**os.environ, "KUBECONFIG": str(users)}
    runs = folder_of_runs(docker_environment)
    run = await started(request, tmp_path, ONE, "--kubeconfig", str(out), env=environment, stdout=PIPE)
    assert run.stdout is not None
    folder = Path()
    async for line in run.stdout:
        text = line.decode()
        folder = Path(text.partition("KUBECONFIG=")[2].strip()).parent if "KUBECONFIG=" in text else folder
        if IS_UP in text:
            break
    (record,) = records_of(run.pid, runs)
    cluster, children = record.stem, commands.children_of(run.pid)
    was_there = len(containers(docker_environment, cluster))
    run.send_signal(signal.SIGKILL)
    await run.wait()

    async def left() -> list[str]:
        programs = [str(pid) for pid in children if Path(f"/proc/{pid}").exists()]
        return [*programs, *([str(folder)] if folder.exists() else [])]

    async def kept() -> list[str]:
        return [*containers(docker_environment, cluster), *([str(record)] if record.exists() else [])]

    await eventually(left, lambda found: not found, "its programs and its folder are gone")
    assert was_there == 2
    # A process that makes a cluster beside this test looks too, and may have begun already.
    await sweep_all(docker_environment)
    await eventually(kept, lambda found: not found, "its containers and its record are gone")
    assert before == (users.read_bytes(), users.stat().st_mtime_ns)
    assert children


async def test_ctrl_c_while_nodes_are_made_leaves_nothing(
    request: pytest.FixtureRequest, docker_environment: dict[str, str], tmp_path: Path
) -> None:
    """The objects that Docker has made by then are removed too."""
    runs = folder_of_runs(docker_environment)
    run = await started(request, tmp_path, f"{ONE}, {{name: two, box: t4x1}}", stdout=DEVNULL, stderr=DEVNULL)
    clusters: set[str] = set()

    async def begun() -> list[str]:
        clusters.update(path.stem for path in records_of(run.pid, runs))
        return [one for cluster in clusters for one in containers(docker_environment, cluster)]

    await eventually(begun, bool, "the first node is there")
    run.send_signal(signal.SIGINT)
    code = await run.wait()

    assert (code, await begun()) == (0, [])
    assert not any((runs / f"{cluster}.run").exists() for cluster in clusters)


def copy_of_this_checkout(target: Path) -> Path:
    """Another checkout of the same content, so that the engine has its images already."""
    target.mkdir()
    for name in FOLDERS:
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy2(ROOT / name, target / name)
    return target


async def said(checkout: Path, *arguments: str) -> tuple[int, str]:
    """The exit code and the output of a command of this checkout's harness."""
    done = await commands.run(sys.executable, "-m", *arguments, folder=checkout)
    return done.code, done.said


async def test_another_checkout_comes_and_ends_alone(
    request: pytest.FixtureRequest, docker_environment: dict[str, str], cluster: Cluster, tmp_path: Path
) -> None:
    """A checkout cannot end the Docker that the other one's cluster uses.

    The ``down`` of a checkout removes its own cluster, and this cluster still answers.
    """
    other = copy_of_this_checkout(tmp_path / "other")
    run = await started(request, tmp_path, ONE, checkout=other, stdout=PIPE, stderr=STDOUT)
    assert run.stdout is not None
    lines = []
    async for line in run.stdout:
        lines.append(line.decode())
        if IS_UP in lines[-1]:
            break
    assert IS_UP in lines[-1], "".join(lines)
    (theirs,) = (path.stem for path in records_of(run.pid, folder_of_runs(docker_environment)))
    both = containers(docker_environment, theirs)
    during = await said(other, "clusters.kind.engine", "down")
    ours = await said(ROOT, "clusters.kind.engine", "down")
    down = await said(other, "clusters", "down")
    await run.communicate()
    ended = await said(other, "clusters.kind.engine", "down")

    assert both
    assert during[0] == 1
    assert f"it is in use by process {run.pid} of {other} (a kind cluster)" in during[1]
    assert ours[0] == 1
    assert f"process {os.getpid()} of {ROOT} (a kind cluster)" in ours[1]
    assert down[0] == 0
    assert f"ending the cluster of process {run.pid}, of {other}" in down[1]
    assert ended[0] == 0
    assert "it stays for " in ended[1]
    assert f"process {os.getpid()} of {ROOT} (a kind cluster)" in ended[1]
    assert [node["metadata"]["name"] for node in await cluster.api.list(NODES)]
    assert containers(docker_environment, theirs) == []


@pytest.mark.usefixtures("docker_environment")
async def test_programs_of_others_share_a_real_kubelets_cards(own: OwnCluster) -> None:
    """The reference extender and plugin are processes of this machine; pods get their card, also after both were killed."""
    async with (
        own([NodeSpec("one", "t4x1")], load_target("reference")) as cluster,
        observing(cluster, "others") as observer,
    ):
        await observer.run(gpu_pod("before", 1))
        for program, node in ((EXTENDER, None), (DEVICE_PLUGIN, "one")):
            await cluster.kill(program, node)
            await cluster.launch(program, node)
        await observer.run(gpu_pod("after", 1))

        await observer.check_all("before", "after")
        assert cluster.log(EXTENDER)
