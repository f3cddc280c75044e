"""kwok in the place of kubelets: on nodes that are nothing but objects, pods that are bound run, and are gone when deleted."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from clusters.api.readiness import says_ready
from clusters.controlplane.binaries import KWOK, kwok
from clusters.controlplane.build import ensure_modules
from clusters.processes.ports import free_port
from clusters.processes.program import Program

# The phase of a node that it knows, by the stages.
NODE_PHASE: Final = "Running"
_STAGES: Final = Path(__file__).with_name("kwok_stages.yaml")


def build(environment: Mapping[str, str]) -> Path:
    """The program; Go builds it once, in minutes. Raises ClusterError."""
    return ensure_modules([kwok()], environment, sys.stderr)[KWOK]


async def start(binary: Path, kubeconfig: Path, environment: Mapping[str, str], folder: Path) -> Program:
    """At work on all nodes of a cluster; its log goes to the folder. Raises ClusterError."""
    port = free_port()
    argv = [str(binary), "--kubeconfig", str(kubeconfig), "--config", str(_STAGES), "--manage-all-nodes=true"]
    # No program here reads the Leases of nodes.
    argv += ["--node-lease-duration-seconds=0", f"--server-address=127.0.0.1:{port}"]
    program = Program(KWOK, argv, environment, folder / f"{KWOK}.log")
    await program.launch(lambda: says_ready(f"http://127.0.0.1:{port}/healthz"))
    return program
