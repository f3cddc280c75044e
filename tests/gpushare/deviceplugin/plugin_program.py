"""The device plugin's program as installed, in a process of its own."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from clusters.api.connection import Answer
from fake_nvml.box import Box
from fake_nvml.state import State
from tests.servers import StubApi, kubeconfig, plain_http, serve

BIN = Path(sys.executable).parent


class Program:
    """The running program and what it has logged; ``api`` is its API server, if there is one."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log = ""
        self.api = StubApi()

    async def until(self, pattern: str) -> re.Match[str]:
        """Read on until the log matches ``pattern``."""
        assert self.process.stderr is not None
        async with asyncio.timeout(300):
            while (found := re.search(pattern, self.log)) is None:
                line = await self.process.stderr.readline()
                assert line, f"{pattern} is not in the log:\n{self.log}"
                self.log += line.decode()
        return found

    async def ask(self, method: str, path: str, **more: Any) -> Answer:
        """The answer to a request at its metrics address."""
        port = (await self.until(r"metrics at address=127\.0\.0\.1 port=(\d+)"))[1]
        async with plain_http() as client:
            return await client.request(method, f"http://127.0.0.1:{port}{path}", **more)

    async def end(self) -> int | None:
        """End it by SIGTERM, and return its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        return (await self.ended())[0]

    async def ended(self, until_log: str = "") -> tuple[int | None, str]:
        """Wait for its end, or end it when its log matches ``until_log``. Returns exit code and log."""
        if until_log:
            await self.until(until_log)
            self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(300):
            _, rest = await self.process.communicate()
        self.log += rest.decode()
        return self.process.returncode, self.log


@asynccontextmanager
async def started(*argv: str, **environment: str) -> AsyncIterator[Program]:
    """A program with only PATH and these variables in its environment."""
    process = await asyncio.create_subprocess_exec(
        *argv, env={"PATH": f"{BIN}:/usr/bin:/bin", **environment}, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield Program(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def run(*argv: str, until_log: str = "", **environment: str) -> tuple[int | None, str]:
    """Run a program to its end, or until its log matches ``until_log``. Returns exit code and log."""
    async with started(*argv, **environment) as program:
        return await program.ended(until_log)


def node(version: str) -> dict[str, Any]:
    """A node with a kubelet of that version."""
    return {"metadata": {"name": "n"}, "status": {"capacity": {}, "nodeInfo": {"kubeletVersion": version}}}


@asynccontextmanager
async def plugin(
    folder: Path, *argv: str, box: str = "t4x2", init_seconds: float = 0, has_api: bool = True, **more: Any
) -> AsyncIterator[Program]:
    """The plugin on a simulated node without a kubelet; NVML's init takes that long, and ``more`` are variables."""
    state = folder / "nvml"
    with State.create(state, Box.load(box, seed="n", driver="535.104")) as cards:
        if init_seconds:
            cards.add_fault("nvmlInitWithFlags", seconds=init_seconds)
    api = StubApi(nodes=[node("v1.36.3")])
    async with serve(api) as url:
        words = ("fake-nvml", "exec", "--", "gpushare-device-plugin", "--device-plugin-path", str(folder), *argv)
        config = kubeconfig(folder, url if has_api else "http://127.0.0.1:1")
        async with started(*words, NODE_NAME="n", KUBECONFIG=config, FAKENVML_STATE=str(state), **more) as program:
            program.api = api
            yield program
