"""The one program that simulated containers run for real: the probe of GPU containers, on the node's simulated libraries.

The text of a container's command is compared with the probe's own, and nothing else is ever started. From the container's
variables the process gets only those that the probe shows, because others (``LD_PRELOAD``) would run other code.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from clusters.images import gpu_probe
from clusters.images.probe_container import PROBE
from clusters.kubelet.kubelet_cards import Cards, RealCards
from clusters.processes.tied import tied

# 128 + the number of the signal, as a container that a signal ends.
_SIGNALLED: Final = 128
# In bytes: a line may have all variables of a container.
_LONGEST_LINE: Final = 2**22


class Process:
    """One running probe."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def lines(self) -> AsyncIterator[str]:
        """Its output, line by line, until it has ended."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            yield line.decode(errors="replace").rstrip("\n")

    async def exit_code(self) -> int:
        """Wait for its end; the code as a container's."""
        code = await self._process.wait()
        return code if code >= 0 else _SIGNALLED - code

    def terminate(self) -> None:
        """Ask it to end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it, and return when the kernel has taken back what it held."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        with contextlib.suppress(ChildProcessError):
            # Its exit code is left for the event loop.
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)


class Probes:
    """Starts the probes of one node; each has a folder below ``folder`` that stands for its /dev and its PATH."""

    def __init__(self, folder: Path, cards: Cards | RealCards) -> None:
        self._folder = folder
        self._cards = cards
        self._numbers = itertools.count()

    @contextlib.asynccontextmanager
    async def running(
        self, arguments: Sequence[str], variables: Mapping[str, str], visible: str | None, cgroup: Path
    ) -> AsyncIterator[Process]:
        """A probe with the container's variables, which sees these cards, in this cgroup; it is killed at the end if it still runs.

        Raises CardError if the node's simulated libraries cannot be built.
        """
        folder = self._folder / str(next(self._numbers))
        folder.mkdir(parents=True)
        environment = await self._environment(folder, variables, visible)
        environment["FAKENVML_CGROUP"] = str(cgroup)
        pipe = asyncio.subprocess.PIPE
        started = await asyncio.create_subprocess_exec(
            *tied([sys.executable, "-I", "-c", PROBE, *arguments]),
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            limit=_LONGEST_LINE,
        )
        process = Process(started)
        try:
            yield process
        finally:
            process.kill()
            await started.wait()
            shutil.rmtree(folder, ignore_errors=True)

    async def _environment(self, folder: Path, variables: Mapping[str, str], visible: str | None) -> dict[str, str]:
        shown = {name: value for name, value in variables.items() if name.startswith(gpu_probe.VARIABLES)}
        # The first on a machine builds the simulated libraries.
        return shown | await asyncio.to_thread(self._cards.environment_in, folder, visible)
