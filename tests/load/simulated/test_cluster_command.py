"""``python -m load cluster``: a simulated cluster on an API server that any client can ask."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clusters.api.connection import Connection
from clusters.api.readiness import says_ready
from clusters.processes.ports import free_port
from clusters.processes.program import Program
from clusters.simulated_node import environment_of_programs
from load.__main__ import main
from load.simulated.cluster_file import build, read
from load.simulated.simulated_world import World

ROOT = Path(__file__).parents[3]
FILE = """
units: {2: 1.0, 5: 1.0}
pools:
- {name: t4, nodes: 3, card: t4, cards: 2, pods: 4}
- {name: a10, nodes: 2, card: a10, cards: 4, pods: 5}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A cluster of five nodes."""
    path = tmp_path / "five.yaml"
    path.write_text(FILE)
    return path


@contextmanager
def up(*argv: object) -> Iterator[subprocess.Popen[str]]:
    """The command, until the end; its word that the cluster is up has been read."""
    command = [sys.executable, "-m", "load", "cluster", *map(str, argv)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            said = next((line for line in process.stdout if "Ctrl-C" in line), "")
            assert said, process.stderr.read()
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=300)


async def booked(kubeconfig: Path, folder: Path) -> dict[str, list[int]]:
    """The use of each card in the book of an extender that follows the cluster, by node."""
    port = free_port()
    argv = ["gpushare-extender", "--address", "127.0.0.1", "--port", str(port), "--kubeconfig", str(kubeconfig)]
    program = Program("extender", argv, environment_of_programs(os.environ), folder / "extender.log")
    await program.launch(lambda: says_ready(f"http://127.0.0.1:{port}/readyz"))
    try:
        async with Connection(f"http://127.0.0.1:{port}") as http:
            found = (await http.request("GET", "/gpushare-scheduler/inspect")).json()
    finally:
        await program.stop()
    return {node["name"]: [card["usedGPU"] for card in node["devs"]] for node in found["nodes"]}


def expected(world: World) -> dict[str, list[int]]:
    """The same by the file."""
    found = {node.name: [0] * node.cards for node in world.nodes}
    for pod in world.running:
        assert pod.card is not None
        found[pod.node][pod.card] += pod.units
    return found


async def test_an_extender_finds_the_nodes_and_pods_of_the_file(file: Path, tmp_path: Path) -> None:
    """Each card with what its pods have; Ctrl-C ends it, and takes the kubeconfig away."""
    kubeconfig = tmp_path / "kubeconfig"
    with up(file, "--kubeconfig", kubeconfig) as process:
        assert await booked(kubeconfig, tmp_path) == expected(build(read(file)))
    assert process.returncode == 0
    assert not kubeconfig.exists()


def test_a_file_that_is_none_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line has the file's name and the reason; the exit code is 1."""
    path = tmp_path / "cluster.yaml"
    code = main(["cluster", str(path)])
    out, errors = capsys.readouterr()
    assert (code, out) == (1, "")
    assert errors.splitlines()[-1] == f"cluster: {path}: cannot be read: No such file or directory"
