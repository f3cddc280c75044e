"""``python -m load cluster``: a simulated cluster on an API server that any client can ask."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clusters.api.connection import Connection
from clusters.api.readiness import says_ready
from clusters.processes.ports import free_port
from clusters.processes.program import Program
from clusters.simulated_node import environment_of_programs
from load.simulated.cluster_file import build, read

ROOT = Path(__file__).parents[3]
FILE = """
units: {2: 1.0, 5: 1.0}
pools:
- {name: t4, nodes: 3, card: t4, cards: 2, pods: 4}
- {name: a10, nodes: 2, card: a10, cards: 4, pods: 5}
"""


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


async def test_an_extender_finds_the_nodes_and_pods_of_the_file(tmp_path: Path) -> None:
    """Each card with what its pods have; Ctrl-C ends it, and takes the kubeconfig away."""
    file, kubeconfig = tmp_path / "five.yaml", tmp_path / "kubeconfig"
    file.write_text(FILE)
    world = build(read(file))
    used = {node.name: [0] * node.cards for node in world.nodes}
    for pod in world.running:
        used[pod.node][pod.card or 0] += pod.units
    with up(file, "--kubeconfig", kubeconfig) as process:
        assert await booked(kubeconfig, tmp_path) == used
    assert process.returncode == 0
    assert not kubeconfig.exists()
