"""The device plugin's program as installed, in a process of its own."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from clusters.processes.program import Program
from fake_nvml.box import Box
from fake_nvml.state import State
from tests.servers import StubApi, kubeconfig, serve, until

BIN = Path(sys.executable).parent


async def logged(program: Program, pattern: str) -> re.Match[str]:
    """Wait until the program's log matches ``pattern``."""
    await until(lambda: re.search(pattern, program.log()) is not None or program.pid is None)
    found = re.search(pattern, program.log())
    assert found is not None, f"{pattern} is not in the log:\n{program.log()}"
    return found


async def ended(program: Program, until_log: str = "") -> tuple[int | None, str]:
    """Wait for its end, or end it when its log matches ``until_log``. Returns exit code and log."""
    if until_log:
        await logged(program, until_log)
    else:
        await program.ended()
    return await program.stop(), program.log()


@asynccontextmanager
async def started(folder: Path, *argv: str, **environment: str) -> AsyncIterator[Program]:
    """A program with only PATH and these variables in its environment."""
    variables = {"PATH": f"{BIN}:/usr/bin:/bin", **environment}
    program = Program(argv[0], argv, variables, folder / "log", is_measured=True)

    async def runs() -> bool:
        return True

    await program.launch(runs)
    try:
        yield program
    finally:
        await program.kill()


async def run(folder: Path, *argv: str, until_log: str = "", **environment: str) -> tuple[int | None, str]:
    """Run a program to its end, or until its log matches ``until_log``. Returns exit code and log."""
    async with started(folder, *argv, **environment) as program:
        return await ended(program, until_log)


def node(version: str) -> dict[str, Any]:
    """A node with a kubelet of that version."""
    return {"metadata": {"name": "n"}, "status": {"capacity": {}, "nodeInfo": {"kubeletVersion": version}}}


@asynccontextmanager
async def plugin(
    folder: Path, *argv: str, api: StubApi | None = None, box: str = "t4x2", init_seconds: float = 0, **more: Any
) -> AsyncIterator[Program]:
    """The plugin on a simulated node without a kubelet; NVML's init takes that long, and ``more`` are variables."""
    state = folder / "nvml"
    with State.create(state, Box.load(box, seed="n", driver="535.104")) as cards:
        if init_seconds:
            cards.add_fault("nvmlInitWithFlags", seconds=init_seconds)
    words = ("fake-nvml", "exec", "--", "gpushare-device-plugin", "--device-plugin-path", str(folder), *argv)
    async with serve(api or StubApi()) as url:
        config = kubeconfig(folder, url if api is not None else "http://127.0.0.1:1")
        variables = {"NODE_NAME": "n", "KUBECONFIG": config, "FAKENVML_STATE": str(state), **more}
        async with started(folder, *words, **variables) as program:
            yield program
