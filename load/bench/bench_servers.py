"""The processes of a run: the extender, the API server that it follows, a server that does nothing; and what they take."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from clusters.api.certificates import Authority
from clusters.processes.ports import free_port
from clusters.processes.program import Program
from clusters.targets import load_target
from load.bench.bench_connection import TlsClient
from load.compiled import CannotCompileError, compiled
from load.load_processes import cpu_seconds, mib

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


class CannotMeasureError(Exception):
    """Something is not as it must be to measure; the text is for people."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is asked. ``program`` is None if the user runs it."""

    name: str
    url: str
    does_nothing: bool = False
    tls: TlsClient | None = None
    program: Program | None = None

    def plan(self) -> dict[str, Any]:
        """As the asker reads it."""
        tls = asdict(self.tls) if self.tls else None
        return {"name": self.name, "url": self.url, "does_nothing": self.does_nothing, "tls": tls}

    def cpu_seconds(self) -> float | None:
        """Processor time of the process so far; None if it is not ours."""
        if self.program is None:
            return None
        assert self.program.pid is not None
        return cpu_seconds(self.program.pid)

    def mib(self, row: str) -> float:
        """Memory of our process, in MiB: ``VmRSS`` now, ``VmHWM`` the most so far."""
        assert self.program is not None
        assert self.program.pid is not None
        return mib(self.program.pid, row)


@dataclass(frozen=True, slots=True)
class Sync:
    """A first sync: seconds from the start of the process, to its first answer of any kind and to being ready; memory in MiB."""

    start_seconds: float
    seconds: float
    rss_mib: float
    peak_mib: float


@dataclass(frozen=True, slots=True)
class Bed:
    """The folder of a run's files, and the environment of its programs."""

    folder: Path
    authority: Authority
    environment: Mapping[str, str]

    @classmethod
    def of(cls, folder: Path) -> Bed:
        """In an empty folder."""
        path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
        # Proxies are for the world outside, and all of this is on loopback.
        environment = {**os.environ, "PATH": path, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        return cls(folder, Authority(folder), environment)


async def start_api_server(bed: Bed, port: int, world: Mapping[str, int]) -> Program:
    """The simulated API server with a world; ``world`` are its flags."""
    return await start_simulated(
        bed, port, [word for name, value in world.items() for word in (f"--{name}", str(value))]
    )


async def start_simulated(bed: Bed, port: int, flags: Sequence[str]) -> Program:
    """The simulated API server, and a kubeconfig for it in the bed's folder. Raises ClusterError."""
    argv = [sys.executable, "-m", "load.simulated.api_server", "--port", str(port), *flags]
    program = Program("simulated API server", argv, bed.environment, bed.folder / "api_server.log")
    await program.launch(lambda: answers(f"http://127.0.0.1:{port}/simulated"))
    write_kubeconfig(bed.folder, port)
    return program


def write_kubeconfig(folder: Path, port: int) -> None:
    """``kubeconfig`` in a folder, for a simulated API server."""
    (folder / "kubeconfig").write_text(_KUBECONFIG.format(url=f"http://127.0.0.1:{port}"))


async def start_do_nothing(bed: Bed) -> Server | None:
    """The C server, compiled here; None if there is no compiler. Raises CannotMeasureError if the compiler fails."""
    try:
        binary = await compiled(_SOURCE, bed.folder)
    except CannotCompileError as error:
        raise CannotMeasureError(str(error)) from error
    if binary is None:
        return None
    port = free_port()
    program = Program("do_nothing", [str(binary), str(port)], bed.environment, bed.folder / "do_nothing.log")
    url = f"http://127.0.0.1:{port}"
    await program.launch(lambda: answers(url + "/2"))
    return Server("C, does nothing", url, does_nothing=True, program=program)


async def start_extender(bed: Bed, *, with_tls: bool, flags: Sequence[str] = ()) -> tuple[Server, Sync]:
    """Our extender, synced."""
    port, flags, tls = free_port(), [*flags], None
    if with_tls:
        server = bed.authority.issue_server("extender", ["127.0.0.1"])
        client = bed.authority.issue_client("system:kube-scheduler")
        flags += ["--tls-cert-file", str(server.certificate), "--tls-private-key-file", str(server.key)]
        flags += ["--client-ca-file", str(bed.authority.ca)]
        tls = TlsClient(str(bed.authority.ca), str(client.certificate), str(client.key))
    argv, own = load_target("gpushare").extender.command(port=str(port), kubeconfig=str(bed.folder / "kubeconfig"))
    name = "extender, TLS" if with_tls else "extender"
    environment = {**bed.environment, **own, "LOG_LEVEL": "info"}
    program = Program(name, [*argv, *flags], environment, bed.folder / f"{name}.log")
    url = f"{'https' if with_tls else 'http'}://127.0.0.1:{port}"
    begun = time.monotonic()
    await program.launch(lambda: answers(f"{url}/healthz", tls))
    started = time.monotonic() - begun
    await _until_ready(program, lambda: answers(f"{url}/readyz", tls))
    one = Server(name, url, tls=tls, program=program)
    return one, Sync(started, time.monotonic() - begun, one.mib("VmRSS"), one.mib("VmHWM"))


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


async def answers(url: str, tls: TlsClient | None = None) -> bool:
    """Does a GET of this URL answer 200?"""
    try:
        async with _session() as session, session.get(url, ssl=tls.context() if tls else True) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


async def set_events(port: int, rate: float) -> int:
    """So many events a second from now on; how many there were until now."""
    url = f"http://127.0.0.1:{port}/simulated/events"
    async with _session() as session, session.post(url, json={"rate": rate}) as answer:
        return int((await answer.json())["events"])


async def run_apart(bed: Bed, module: str, plan: Mapping[str, Any]) -> Any:
    """The JSON that a module prints for this plan, run as a process of its own. Raises CannotMeasureError."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "clusters.processes.tied", str(os.getpid())),
        *(sys.executable, "-m", module),
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
        raise CannotMeasureError(f"{module}: {errors.decode(errors='replace').strip()}")
    return json.loads(out)
