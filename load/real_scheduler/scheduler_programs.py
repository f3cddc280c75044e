"""Extenders beside a real control plane, ours and one that only agrees, and kube-scheduler's configuration for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api.connection import Connection
from clusters.api.readiness import says_ready
from clusters.local_cluster import SCHEDULER_CONFIG
from clusters.processes.ports import free_port
from clusters.processes.program import Program
from clusters.targets import load_target
from load.compiled import compiled

# A limit that is never reached.
_QUESTIONS_A_SECOND: Final = 10_000
_AGREES: Final = Path(__file__).parent / "agrees.c"


@dataclass(frozen=True, slots=True)
class Extender:
    """An extender, and where it answers on loopback; ours ``decides``, and shows metrics."""

    program: Program
    url: str
    metrics_port: int = 0

    @property
    def decides(self) -> bool:
        """Which nodes, and binds; or does it agree to every node, and leave binding to the scheduler?"""
        return self.metrics_port > 0

    async def metrics(self) -> str:
        """Our page for Prometheus."""
        async with Connection(f"http://127.0.0.1:{self.metrics_port}") as http:
            return (await http.request("GET", "/metrics")).text


async def start_extender(
    kubeconfig: Path, environment: Mapping[str, str], folder: Path, stack: AsyncExitStack, flags: Sequence[str] = ()
) -> Extender:
    """Synced; its log goes to the folder, and it ends with the stack. Raises ClusterError."""
    port, metrics_port = free_port(), free_port()
    argv, own = load_target("gpushare").extender.command(port=str(port), kubeconfig=str(kubeconfig))
    argv += ["--metrics-address", f"127.0.0.1:{metrics_port}", *flags]
    program = Program("extender", argv, {**environment, **own}, folder / "extender.log")
    stack.push_async_callback(program.stop)
    await program.launch(lambda: says_ready(f"http://127.0.0.1:{port}/readyz"))
    return Extender(program, f"http://127.0.0.1:{port}", metrics_port)


async def compile_agreeing(folder: Path) -> Path | None:
    """The extender that only agrees; None where there is no C compiler. Raises CannotCompileError."""
    return await compiled(_AGREES, folder)


async def start_agreeing(binary: Path, environment: Mapping[str, str], folder: Path, stack: AsyncExitStack) -> Extender:
    """It ends with the stack. Raises ClusterError."""
    port = free_port()
    program = Program("agreeing extender", [str(binary), str(port)], environment, folder / "agrees.log")
    stack.push_async_callback(program.stop)
    await program.launch(lambda: says_ready(f"http://127.0.0.1:{port}/"))
    return Extender(program, f"http://127.0.0.1:{port}")


def scheduler_configuration(extender: Extender | None) -> dict[str, Any]:
    """The one that we ship, without limits; with the extender where there is one."""
    shipped: dict[str, Any] = yaml.safe_load(SCHEDULER_CONFIG.read_text())
    limits = {"qps": _QUESTIONS_A_SECOND, "burst": _QUESTIONS_A_SECOND}
    if extender is None:
        return {**shipped, "clientConnection": limits, "extenders": []}
    (entry,) = shipped["extenders"]
    if not extender.decides:
        # Units must be counted and pods bound, so the scheduler does both.
        entry = {key: value for key, value in entry.items() if key not in ("bindVerb", "preemptVerb")}
        entry["managedResources"] = [{**one, "ignoredByScheduler": False} for one in entry["managedResources"]]
    return {
        **shipped,
        "clientConnection": limits,
        "extenders": [{**entry, "urlPrefix": f"{extender.url}/gpushare-scheduler"}],
    }
