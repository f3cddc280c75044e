"""Programs that a build runs, and a build as a program itself: one line for an error, and nothing goes on when it is ended.

In each folder of built things there is one build at a time, and what killed builds left there is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

from clusters.processes import forked
from clusters.processes.tied import tied
from clusters.provider import ClusterError
from fake_nvml.fake_nvml_errors import FakeNvmlError

# How often a line of progress comes, in seconds; on a terminal the line is renewed instead.
_LINE_SECONDS: Final = 15.0
_RENEW_SECONDS: Final = 0.5


class Progress:
    """A context for a long step. ``text`` names it, ``detail`` is how far it is; both may change in it."""

    def __init__(self, command: str, text: str, out: TextIO, expected: str = "") -> None:
        """Which command speaks, what it does, and what is known of how long that takes (``once; minutes``)."""
        self.text = text
        self.detail = ""
        self._command = command
        self._expected = f" ({expected})" if expected else ""
        self._out = out
        self._renews = out.isatty()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._start = time.monotonic()

    def __enter__(self) -> Progress:
        self.line(f"{self.text}{self._expected}")
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._renews:
            self._out.write("\r\033[K")

    def line(self, text: str) -> None:
        """A line of its own."""
        print(f"{self._command}: {text}, {time.monotonic() - self._start:.0f} s", file=self._out, flush=True)

    def _run(self) -> None:
        while not self._ended.wait(_RENEW_SECONDS if self._renews else _LINE_SECONDS):
            if self._renews:
                self._out.write(f"\r\033[K{self._command}: {self._line()}")
                self._out.flush()
            else:
                print(f"{self._command}: {self._line()}", file=self._out, flush=True)

    def _line(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.text}{detail}, {time.monotonic() - self._start:.0f} s"


# Lines of a program's output that are shown when it fails.
_TAIL: Final = 20
# How the folders of builds that are under way begin.
BUILDING: Final = ".building-"
# How long a program may take to end when the build is interrupted, in seconds; then it is killed.
_END_SECONDS: Final = 5.0


def exit_code_of(command: str, work: Callable[[], object]) -> int:
    """0 when the work is done, 1 with a line for its error, 128 and more after SIGINT or SIGTERM, which end it in good order."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        work()
    except (ClusterError, FakeNvmlError) as error:
        print(f"{command}: {error}", file=sys.stderr)  # noqa: T201  # a command's error
        return 1
    except KeyboardInterrupt as interrupted:
        print(f"{command}: interrupted", file=sys.stderr)  # noqa: T201  # what became of the command
        return 128 + (interrupted.args[0] if interrupted.args else signal.SIGINT)
    return 0


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)


def run(argv: Sequence[str | Path], environment: Mapping[str, str], folder: Path | None = None) -> str:
    """The output of a program, which runs in ``folder``. Raises ClusterError with the end of its output if it failed."""
    done = subprocess.run(
        tied(argv), env=dict(environment), cwd=folder, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        raise _failed(argv, done.returncode, (done.stdout + done.stderr).splitlines())
    return done.stdout


async def output_of(argv: Sequence[str], environment: Mapping[str, str], where: str = "") -> str:
    """The output of a short program. Raises ClusterError with its error; ``where`` is text for the error (`` on NODE``)."""
    code, out, error = await run_short(argv, environment)
    if code:
        text = (error or out).decode(errors="replace").strip()
        raise ClusterError(f"{' '.join(argv)}{where} ended with {code}: {text}")
    return out.decode(errors="replace")


async def run_short(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
) -> tuple[int, bytes, bytes]:
    """The exit code, the output and the errors of a short program. Raises OSError if it is not there."""
    if forked.is_installed(argv, environment):
        return await forked.run(argv, environment, folder)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, cwd=folder, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    out, error = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out, error


def newest(lines: Sequence[str]) -> str:
    """How far a program is that prints a line for each step."""
    return lines[-1].removeprefix("I: ").strip()[:100]


def watch(
    argv: Sequence[str | Path],
    environment: Mapping[str, str],
    progress: Progress,
    *,
    folder: Path | None = None,
    detail: Callable[[Sequence[str]], str] = newest,
) -> None:
    """Run a program that takes long; ``detail`` of its lines so far is the progress. Raises as ``run``."""
    lines: list[str] = []
    with subprocess.Popen(
        tied(argv),
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in process.stdout or ():
                lines.append(line.rstrip())
                progress.detail = detail(lines)
        except BaseException:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            process.kill()
            raise
    if process.returncode != 0:
        raise _failed(argv, process.returncode, lines)


def _failed(argv: Sequence[str | Path], code: int, lines: Sequence[str]) -> ClusterError:
    tail = "\n".join(lines[-_TAIL:])
    return ClusterError(f"`{' '.join(map(str, argv[:4]))} …` ended with {code}:\n{tail}")


@contextlib.contextmanager
def locked(folder: Path, command: str, out: TextIO) -> Iterator[None]:
    """Hold the lock on builds in ``folder``. A process that waits prints so as ``command``, and then finds the build done.

    Raises ClusterError if the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as refused:
        raise ClusterError(
            f"{folder}: cannot be written ({refused.strerror}); GPUSHARE_CACHE names another folder"
        ) from refused
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{command}: waiting for another build in {folder}", file=out, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        # Builds that were killed could not remove theirs.
        for left in folder.glob(f"{BUILDING}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
