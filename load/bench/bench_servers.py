"""The programs of a run: the extender, the API server that it follows, small servers in C; and what they take."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from clusters.api.certificates import Authority
from clusters.processes.program import Program
from clusters.processes.scratch import free_port
from clusters.processes.tied import tied
from clusters.simulated_node import environment_of_programs
from clusters.targets import load_target
from fake_nvml.native.compiler import Compiler, CompilerError, find_compiler
from load.bench.bench_figures import EXTENDER, NOTHING
from load.load_commands import CannotMeasureError
from load.questions import TlsFiles
from load.readings import cpu_seconds, mib

# How long the first sync of the largest world may take, in seconds: against hangs only.
_SYNC_SECONDS: Final = 900.0
_ASK_SECONDS: Final = 0.05
# An answer that takes longer than this is none, in seconds: a program in its first sync answers late.
_ANSWER_SECONDS: Final = 10.0
_SOURCE: Final = Path(__file__).parent / "do_nothing.c"
_KUBECONFIG: Final = """apiVersion: v1
kind: Config
current-context: bench
clusters: [{{name: bench, cluster: {{server: "{url}"}}}}]
users: [{{name: bench, user: {{}}}}]
contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is asked; ours may show metrics."""

    name: str
    url: str
    program: Program
    tls: TlsFiles | None = None
    metrics_port: int = 0

    @property
    def pid(self) -> int:
        """Raises CannotMeasureError when it has ended."""
        if self.program.pid is None:
            raise CannotMeasureError(f"{self.name} has ended:\n{self.program.tail()}")
        return self.program.pid

    def cpu_seconds(self) -> float:
        """Processor time so far."""
        return cpu_seconds(self.pid)

    def mib(self, row: str) -> float:
        """Memory, in MiB: ``VmRSS`` now, ``VmHWM`` the most so far."""
        return mib(self.pid, row)

    async def metrics(self) -> str:
        """Its page for Prometheus."""
        async with _session() as session, session.get(f"http://127.0.0.1:{self.metrics_port}/metrics") as answer:
            return await answer.text()


@dataclass(frozen=True, slots=True)
class Bed:
    """The folder of a run's files, the environment of its programs, and the stack that ends them."""

    folder: Path
    environment: Mapping[str, str]
    stack: AsyncExitStack

    @classmethod
    def of(cls, folder: Path, stack: AsyncExitStack) -> Bed:
        """In an empty folder, or in one with a ``kubeconfig``."""
        # Proxies are for the world outside, and all of this is on loopback.
        return cls(folder, {**environment_of_programs(os.environ), "no_proxy": "127.0.0.1"}, stack)

    async def start(
        self,
        name: str,
        argv: Sequence[str],
        is_ready: Callable[[], Awaitable[bool]],
        environment: Mapping[str, str] | None = None,
        *,
        has_children: bool = False,
    ) -> Program:
        """A program with a log in the folder, ready. Raises ClusterError."""
        own = {**self.environment, **(environment or {})}
        program = Program(name, argv, own, self.folder / f"{name}.log", has_children=has_children, is_measured=True)
        self.stack.push_async_callback(program.stop)
        await program.launch(is_ready)
        return program


async def start_simulated(bed: Bed, port: int, cluster: Path) -> Program:
    """The simulated API server, and a kubeconfig for it in the bed's folder. Raises ClusterError."""
    argv = [sys.executable, "-m", "load.simulated.api_server", "--port", str(port), "--cluster", str(cluster)]
    url = f"http://127.0.0.1:{port}"
    program = await bed.start("simulated API server", argv, lambda: answers(f"{url}/simulated"))
    (bed.folder / "kubeconfig").write_text(_KUBECONFIG.format(url=url))
    return program


def c_compiler() -> Compiler | None:
    """The one of this machine, if there is any."""
    try:
        return find_compiler(os.environ)
    except CompilerError:
        return None


async def start_in_c(bed: Bed, name: str = NOTHING, source: Path = _SOURCE) -> Server | None:
    """A server that is compiled here; None if there is no compiler. Raises CannotMeasureError if the compiler fails."""
    if (compiler := c_compiler()) is None:
        return None
    binary, port = bed.folder / source.stem, free_port()
    try:
        command = ["-O2", "-pthread", "-o", str(binary), str(source)]
        await asyncio.to_thread(compiler.run, command, bed.folder)
    except CompilerError as error:
        raise CannotMeasureError(str(error)) from error
    url = f"http://127.0.0.1:{port}"
    return Server(name, url, await bed.start(name, [str(binary), str(port)], lambda: answers(f"{url}/2")))


async def start_extender(
    bed: Bed, *, with_tls: bool = False, with_metrics: bool = False, flags: Sequence[str] = ()
) -> tuple[Server, dict[str, float]]:
    """Our extender, synced with the API server of the bed's kubeconfig; and how its first sync went.

    Seconds are from the start of the process, to its first answer of any kind and to being ready; memory in MiB.
    """
    port, flags, tls = free_port(), [*flags], None
    metrics_port = free_port() if with_metrics else 0
    if with_metrics:
        flags += ["--metrics-address", f"127.0.0.1:{metrics_port}"]
    if with_tls:
        authority = Authority(bed.folder)
        server = authority.issue_server("extender", ["127.0.0.1"])
        client = authority.issue_client("system:kube-scheduler")
        flags += ["--tls-cert-file", str(server.certificate), "--tls-private-key-file", str(server.key)]
        flags += ["--client-ca-file", str(authority.ca)]
        tls = TlsFiles(str(authority.ca), str(client.certificate), str(client.key))
    argv, own = load_target("gpushare").extender.command(port=str(port), kubeconfig=str(bed.folder / "kubeconfig"))
    url = f"{'https' if with_tls else 'http'}://127.0.0.1:{port}"
    begun = time.monotonic()
    program = await bed.start(EXTENDER, [*argv, *flags], lambda: answers(f"{url}/healthz", tls), own)
    started = time.monotonic() - begun
    await _until_ready(program, lambda: answers(f"{url}/readyz", tls))
    one = Server(EXTENDER, url, program, tls, metrics_port)
    sync = {"start_seconds": started, "seconds": time.monotonic() - begun}
    return one, sync | {"rss_mib": one.mib("VmRSS"), "peak_mib": one.mib("VmHWM")}


async def _until_ready(program: Program, is_ready: Callable[[], Awaitable[bool]]) -> None:
    try:
        async with asyncio.timeout(_SYNC_SECONDS):
            while not await is_ready():
                if program.pid is None:
                    raise CannotMeasureError(f"{program.name} ended:\n{program.tail()}")
                await asyncio.sleep(_ASK_SECONDS)
    except TimeoutError as error:
        raise CannotMeasureError(f"{program.name} is not ready:\n{program.tail()}") from error


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ANSWER_SECONDS))


async def answers(url: str, tls: TlsFiles | None = None) -> bool:
    """Does a GET of this URL succeed?"""
    try:
        async with _session() as session, session.get(url, ssl=tls.context() if tls else True) as answer:
            return answer.ok
    except (aiohttp.ClientError, TimeoutError):
        return False


async def ask_simulated(port: int, path: str = "", **order: float) -> dict[str, Any]:
    """The answer of the simulated API server about itself, or to an order."""
    url = f"http://127.0.0.1:{port}/simulated{path}"
    async with _session() as session, session.request("POST" if order else "GET", url, json=order or None) as answer:
        return dict(await answer.json())


async def set_events(port: int, rate: float) -> int:
    """So many events a second from now on; how many there were until now."""
    return int((await ask_simulated(port, "/events", rate=rate))["events"])


async def run_apart(bed: Bed, module: str, plan: Mapping[str, Any]) -> Any:
    """The JSON that a module prints for this plan, run as a process of its own. Raises CannotMeasureError."""
    process = await asyncio.create_subprocess_exec(
        *tied([sys.executable, "-m", module]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(bed.environment),
        cwd=_SOURCE.parents[2],
    )
    try:
        out, errors = await process.communicate(json.dumps(plan).encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise CannotMeasureError(errors.decode(errors="replace").strip())
    return json.loads(out)
