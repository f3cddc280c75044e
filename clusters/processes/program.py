"""A program under test as a process of its own: started as installed, stopped by its pid, its log kept in a file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from clusters.processes import forked
from clusters.processes.tied import tied
from clusters.provider import ClusterError

# How long a program may take to become ready, and to end after SIGTERM, in seconds: against hangs only.
READY_SECONDS: Final = 60.0
STOP_SECONDS: Final = 15.0
# How often readiness is asked for, in seconds.
_ASK_SECONDS: Final = 0.05


class Logged(Protocol):
    """A program with a log on this machine."""

    name: str

    def log_files(self) -> Sequence[Path]:
        """The files of its log, the oldest first; all of them only grow."""


# The programs that this process has launched, itself or on nodes, and still knows, for the reports of failures.
LAUNCHED: Final[weakref.WeakSet[Logged]] = weakref.WeakSet()


class Program:
    """One program; it may be killed and launched again, and goes on writing to the same log."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        *,
        more: Callable[[Mapping[str, str]], Mapping[str, str]] = dict,
        has_children: bool = False,
        is_measured: bool = False,
    ) -> None:
        """``more`` makes its environment of ``environment`` at each launch, in a thread.

        ``has_children``: what it starts is stopped with it; for a user's command, which may be a script. ``is_measured``: it shares
        no memory with others, which the fork of a process that has its modules already does.
        """
        self._more = more
        self._has_children = has_children
        self._is_measured = is_measured
        self.name = name
        self._argv = list(argv)
        self._environment = dict(environment)
        self.log_file = log
        self._process: asyncio.subprocess.Process | forked.Forked | None = None

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def launch(self, is_ready: Callable[[], Awaitable[bool]]) -> None:
        """Start it and wait until it is ready. Raises ClusterError with the end of its log when it is not."""
        if shutil.which(self._argv[0], path=self._environment.get("PATH")) is None:
            raise ClusterError(f"{self.name}: {self._argv[0]} is not on PATH; is it installed (make test sets it up)?")
        LAUNCHED.add(self)
        self._process = await self._start()
        try:
            async with asyncio.timeout(READY_SECONDS):
                while not await is_ready():
                    if self._process.returncode is not None:
                        code = self._process.returncode
                        raise ClusterError(f"{self.name} ended with {code} before it was ready:\n{self.tail()}")
                    await asyncio.sleep(_ASK_SECONDS)
        except TimeoutError as error:
            await self.stop()
            raise ClusterError(f"{self.name} was not ready after {READY_SECONDS:.0f} s:\n{self.tail()}") from error

    async def _start(self) -> asyncio.subprocess.Process | forked.Forked:
        environment = await asyncio.to_thread(self._more, self._environment)
        with self.log_file.open("ab") as log:
            if not self._has_children and not self._is_measured and forked.is_installed(self._argv, environment):
                return await forked.fork(self._argv, environment, log.fileno(), log.fileno())
            return await asyncio.create_subprocess_exec(
                *tied(self._argv),
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def ended(self) -> None:
        """Wait until it has ended, however that came."""
        if self._process is not None:
            await self._process.wait()

    async def kill(self) -> None:
        """SIGKILL: no good-byes."""
        if self.pid is not None and self._process is not None:
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> int | None:
        """SIGTERM, and SIGKILL when it does not end; its exit code."""
        if self._process is None:
            return None
        if self.pid is not None:
            self.send(signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                await self.kill()
        if self._has_children:
            with contextlib.suppress(ProcessLookupError):
                # The rest of its session, though the program has ended.
                os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.returncode

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        with contextlib.suppress(ProcessLookupError):
            if self._has_children and self.pid is not None:
                os.killpg(self.pid, number)
            elif self.pid is not None and self._process is not None:
                self._process.send_signal(number)

    def log_files(self) -> Sequence[Path]:
        """The one that it writes to."""
        return [self.log_file]

    def log(self) -> str:
        """All that it has written."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def tail(self, count: int = 20) -> str:
        """The last lines that it wrote."""
        return "\n".join(self.log().splitlines()[-count:])
