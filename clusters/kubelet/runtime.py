"""The stand-in for a container runtime: containers are records with timers, their processes lines in a card's list.

Only a container whose command is the probe of GPU containers has a real process, and nothing else is ever started.
The pids of all others are simulated: they count up from a number above any pid that a kernel gives (its ``pid_max`` is at most
2²²), so they never name a real process. Containers outlive their kubelet's restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clusters.images import gpu_probe
from clusters.images.behaviour import PROBE, Behaviour, BehaviourError, Behaviours, probe_arguments
from clusters.kubelet.kubelet_cards import CardError, Cards, RealCards
from clusters.kubelet.memory_limits import CannotStartError, MemoryLimits
from clusters.kubelet.pods import Container, DeviceRequests, gpu_lines, visible_devices
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


PROCESS_FOLDER_NAME: Final = "proc"
_FIRST_PID: Final = 5_000_000
# 128 + the number of the signal: SIGTERM obeyed, SIGKILL after the grace period; 128: could not be started.
_TERMINATED, _KILLED, _CANNOT_RUN = 143, 137, 128


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended; ``finished`` is Unix time in seconds."""

    code: int
    reason: str
    finished: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log, and when it was written, in Unix seconds."""

    time: float
    text: str


class Run:
    """One life of one container. Created by ``Runtime.start``."""

    def __init__(
        self, container: Container, behaviour: Behaviour, attempt: int, pid: int, clock: Callable[[], float]
    ) -> None:
        # A container's id is 32 bytes in hexadecimal digits.
        self.id = hashlib.sha256(str(pid).encode()).hexdigest()
        self.container = container
        self.attempt = attempt
        self.behaviour = behaviour
        self.pid = pid
        self.log: list[Line] = []
        self.started = clock()
        self.exit: Exit | None = None
        self._clock = clock
        self._ended = asyncio.Event()
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._at_end = contextlib.ExitStack()
        self._process: Process | None = None

    async def ended(self) -> Exit:
        """Wait for its end."""
        await self._ended.wait()
        assert self.exit is not None
        return self.exit

    async def more_log(self, known: int) -> None:
        """Wait until the log has more than ``known`` lines, or the container has ended."""
        while len(self.log) <= known and self.exit is None:
            await self._news.wait()

    def print(self, text: str) -> None:
        """Add a line to the log."""
        self.log.append(Line(self._clock(), text))
        self._wake()

    def at_end(self, release: Callable[[], None]) -> None:
        """Do this when it ends; what was asked for last is done first."""
        self._at_end.callback(release)

    def begin(self, cards: Cards | RealCards, visible: str | None, cgroup: Path) -> None:
        """Take the memory that the behaviour wants and let time run. A card without room ends the container."""
        self._print_in_time()
        if self.behaviour.holds_mib:
            try:
                self._hold(cards, visible, cgroup)
            except CardError as error:
                self.print(f"error: {error}")
                self.finish(1)
                return
        if self.behaviour.exits_after is not None:
            self._at(self.behaviour.exits_after, self.behaviour.exit_code)

    async def play(self, process: Process) -> None:
        """Be a real process until that ends: its output is the log, and its end the container's."""
        self.pid, self._process = process.pid, process
        self.at_end(process.kill)
        async for line in process.lines():
            if self.exit is None:
                self.print(line)
        self.finish(await process.exit_code())

    def stop(self, grace_seconds: float) -> None:
        """Tell it to stop, which its log shows; it is gone when its behaviour obeys, at the latest after the grace period."""
        if self._process is not None and self.exit is None:
            self._process.terminate()
            self._at(grace_seconds, _KILLED)
        elif self.exit is None:
            if self.behaviour.stop_seconds:
                self.print("asked to stop")
            obeys = self.behaviour.stop_seconds <= grace_seconds
            self._at(min(self.behaviour.stop_seconds, grace_seconds), _TERMINATED if obeys else _KILLED)

    def finish(self, code: int, reason: str = "", message: str = "") -> None:
        """End it now and give its memory back."""
        if self.exit is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._at_end.close()
        self.exit = Exit(code, reason or ("Error" if code else "Completed"), self._clock(), message)
        self._ended.set()
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _print_in_time(self) -> None:
        for number, text in enumerate(self.behaviour.prints):
            after = self.behaviour.prints_after[number] if number < len(self.behaviour.prints_after) else 0.0
            if after > 0:
                self.at_end(asyncio.get_running_loop().call_later(after, self.print, text).cancel)
            else:
                self.print(text)

    def _hold(self, cards: Cards | RealCards, visible: str | None, cgroup: Path) -> None:
        seen = cards.visible(visible)
        if not seen:
            raise CardError("no CUDA-capable device is detected")
        uuid, pid = seen[0].uuid, self.pid
        cards.add_process(uuid, pid, self.behaviour.holds_mib, self.behaviour.process, cgroup)
        self.at_end(lambda: cards.remove_process(uuid, pid))

    def _at(self, seconds: float, code: int) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        if seconds <= 0:
            self.finish(code)
        else:
            self._timer = loop.call_later(seconds, self.finish, code)


class Runtime:
    """The containers of one node; ``probes`` runs probes for real.

    ``processes`` is a folder like ``/proc`` in which each process has its control group: only ``<pid>/cgroup`` is there, in version
    2, named as in ``limits``. Programs that map a pid to its pod get this folder instead of the machine's own ``/proc``, in which
    simulated pids do not exist.
    """

    def __init__(
        self,
        behaviours: Behaviours,
        cards: Cards | RealCards,
        clock: Callable[[], float],
        processes: Path,
        probes: Probes,
        limits: MemoryLimits,
    ) -> None:
        self._behaviours = behaviours
        self._cards = cards
        self._clock = clock
        self._processes = processes
        self._probes = probes
        self._limits = limits
        self._playing: set[asyncio.Task[None]] = set()
        self._pids = itertools.count(_FIRST_PID)
        self._runs: dict[tuple[str, str], list[Run]] = {}

    async def start(
        self,
        uid: str,
        container: Container,
        environment: Mapping[str, str],
        requests: DeviceRequests,
        qos: str = "Burstable",
    ) -> Run:
        """Start a container of the pod; its log begins with its GPU variables and what else names its cards, if it is simulated.

        Returns when the hook has limited its memory, immediately if it has nothing to limit.
        """
        failure = ""
        behaviour = Behaviour()
        try:
            behaviour = self._behaviours.of(container.image, container.command, environment)
        except BehaviourError as error:
            failure = str(error)
        before = self._runs.get((uid, container.name), [])
        attempt = before[-1].attempt + 1 if before else 0
        run = Run(container, behaviour, attempt, next(self._pids), self._clock)
        group = self._limits.group(uid, qos, run.id)
        if not failure:
            failure = await self._limit(uid, run, group, environment, requests)
        # The life before is kept for its log and its exit code.
        self._runs[uid, container.name] = [*before[-1:], run]
        if failure:
            run.print(f"error: {failure}")
            run.finish(_CANNOT_RUN, "StartError", failure)
        else:
            self._begin(run, group, {**behaviour.environment, **environment}, requests)
        return run

    async def _limit(
        self, uid: str, run: Run, group: str, environment: Mapping[str, str], requests: DeviceRequests
    ) -> str:
        """Make its cgroup and run the hook; answers why the container cannot start."""
        folder = self._limits.begin(group)
        run.at_end(lambda: self._limits.end(folder))
        image = run.behaviour.environment
        variables = self._limits.variables(image, requests.variables, environment)
        asked = self._limits.variables({}, requests.variables, {})
        visible = visible_devices({**image, **environment}, requests)
        try:
            await self._limits.apply(folder, variables, visible)
            await self._limits.apply_devices(folder, requests.other_devices)
        except CannotStartError as error:
            return str(error)
        except BaseException:
            run.finish(_KILLED)
            raise
        self._limits.note(
            uid, run.container.name, folder, visible, is_other=variables != asked and not requests.other_devices
        )
        return ""

    def _begin(self, run: Run, group: str, environment: Mapping[str, str], requests: DeviceRequests) -> None:
        visible, cgroup = visible_devices(environment, requests), self._limits.folder(group)
        arguments = probe_arguments(run.container.command)
        if arguments is None:
            for line in (*gpu_lines(environment), *requests.lines()):
                run.print(line)
            self._show(run, group)
            run.begin(self._cards, visible, cgroup)
            return
        probe = self._probes.running(arguments, environment, visible, cgroup)
        task = asyncio.create_task(self._play(run, group, probe))
        self._playing.add(task)
        task.add_done_callback(self._playing.discard)

    async def _play(self, run: Run, group: str, probe: contextlib.AbstractAsyncContextManager[Process]) -> None:
        try:
            async with probe as process:
                if run.exit is None:
                    run.pid = process.pid
                    self._show(run, group)
                    await run.play(process)
        except (CardError, OSError) as error:
            run.print(f"error: {error}")
            run.finish(_CANNOT_RUN, "StartError", str(error))

    def _show(self, run: Run, group: str) -> None:
        """It is seen before it holds a card, and until it has let go."""
        folder = self._processes / str(run.pid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup").write_text(f"0::/{group}\n")
        run.at_end(lambda: shutil.rmtree(folder, ignore_errors=True))

    def runs(self, uid: str, name: str) -> tuple[Run, ...]:
        """The last two lives of a container, the newest last."""
        return tuple(self._runs.get((uid, name), ()))

    def running(self, uid: str) -> frozenset[str]:
        """The containers of a pod that run now."""
        return frozenset(name for (pod, name), runs in self._runs.items() if pod == uid and runs[-1].exit is None)

    def pods(self) -> frozenset[str]:
        """The pods (by uid) that have containers, running or not."""
        return frozenset(pod for pod, _ in self._runs)

    def tell_to_stop(self, uid: str, grace_seconds: float) -> list[Run]:
        """Ask every container of a pod to stop; a second call can only shorten the time."""
        newest = [runs[-1] for (pod, _), runs in self._runs.items() if pod == uid]
        for run in newest:
            run.stop(grace_seconds)
        return newest

    async def stop_pod(self, uid: str, grace_seconds: float) -> None:
        """Stop every container of a pod and wait until they are gone."""
        for run in self.tell_to_stop(uid, grace_seconds):
            await run.ended()

    def forget(self, uid: str) -> None:
        """Throw away the records of a pod that is gone."""
        for key in [key for key in self._runs if key[0] == uid]:
            del self._runs[key]

    def kill_all(self) -> None:
        """End everything in one moment, as a power failure would; each card gets its memory back."""
        for runs in self._runs.values():
            runs[-1].finish(_KILLED)

    async def settled(self) -> None:
        """Wait until nothing is left of real processes that have ended or were killed."""
        await asyncio.gather(*self._playing, return_exceptions=True)
