"""Processes of installed Python programs, which fork servers of this harness start (``fork_server.py``)."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from clusters.processes.fork_server import NUMBER
from clusters.provider import ClusterError

_SERVER: Final = Path(__file__).with_name("fork_server.py")
# The interpreter and the loader of libraries read these variables once, as a process starts.
_AT_START: Final = ("PYTHON", "LD_", "GLIBC_", "MALLOC_")
_lock: Final = threading.Lock()
# By script and variables at the start.
_servers: Final[dict[tuple[str, frozenset[tuple[str, str]]], tuple[subprocess.Popen[bytes], socket.socket]]] = {}


class Forked:
    """A process that is no child of this one; as ``asyncio.subprocess.Process``, without pipes."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self._status = status
        self._code: int | None = None
        weakref.finalize(self, os.close, status)

    @property
    def returncode(self) -> int | None:
        """Its exit code, -N if signal N has ended it; None while it runs."""
        if self._code is None:
            with contextlib.suppress(BlockingIOError):
                packed = os.read(self._status, NUMBER.size)
                # Without an answer the server has ended, and the kernel has killed the program.
                self._code = os.waitstatus_to_exitcode(*NUMBER.unpack(packed)) if packed else -signal.SIGKILL
        return self._code

    async def wait(self) -> int:
        """Its exit code, when it has ended."""
        while (code := self.returncode) is None:
            await _readable(self._status)
        return code

    def send_signal(self, number: int) -> None:
        """Signal it, if it runs."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def is_installed(argv: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Is it a program in Python that is installed for this interpreter?"""
    script = shutil.which(argv[0], path=environment.get("PATH"))
    if script is None:
        return False
    with Path(script).open("rb") as file:
        return file.readline().rstrip(b"\n") == b"#!" + os.fsencode(sys.executable)


async def fork(
    argv: Sequence[str], environment: Mapping[str, str], output: int, errors: int, folder: Path | None = None
) -> Forked:
    """Start an installed program with these descriptors. Raises ClusterError if its server cannot."""
    return await asyncio.to_thread(_fork, argv, environment, (output, errors), folder or Path.cwd())


async def run(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
) -> tuple[int, bytes, bytes]:
    """The exit code, the output and the errors of an installed program. Raises ClusterError if its server cannot start it."""
    with contextlib.ExitStack() as stack:
        (out, out_end), (error, error_end) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        for descriptor in (out, error):
            stack.callback(os.close, descriptor)
            os.set_blocking(descriptor, False)
        try:
            process = await fork(argv, environment, out_end, error_end, folder)
        finally:
            os.close(out_end)
            os.close(error_end)
        try:
            output, errors = await asyncio.gather(_read(out), _read(error))
            return await process.wait(), output, errors
        finally:
            process.kill()


async def _read(descriptor: int) -> bytes:
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(descriptor, 2**16)
        except BlockingIOError:
            await _readable(descriptor)
            continue
        if not part:
            return b"".join(parts)
        parts.append(part)


async def _readable(descriptor: int) -> None:
    # An event loop has one callback for a descriptor, and several may wait.
    own, loop, is_ready = os.dup(descriptor), asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(own, is_ready.set)
    try:
        await is_ready.wait()
    finally:
        loop.remove_reader(own)
        os.close(own)


def _fork(argv: Sequence[str], environment: Mapping[str, str], outputs: Sequence[int], folder: Path) -> Forked:
    script = shutil.which(argv[0], path=environment.get("PATH")) or argv[0]
    request = {"argv": [script, *argv[1:]], "environment": dict(environment), "folder": str(folder)}
    status, other = os.pipe2(os.O_CLOEXEC)
    try:
        with _lock:
            server = _server(script, environment)
        socket.send_fds(server, [json.dumps(request).encode()], [*outputs, other])
    except OSError as error:
        os.close(status)
        raise ClusterError(f"{script}: the process that starts it has ended ({error.strerror})") from error
    finally:
        os.close(other)
    packed = os.read(status, NUMBER.size)
    if not packed:
        os.close(status)
        raise ClusterError(f"{script}: the process that starts it has ended; its own output has the reason")
    os.set_blocking(status, False)
    return Forked(NUMBER.unpack(packed)[0], status)


def _server(script: str, environment: Mapping[str, str]) -> socket.socket:
    key = (script, frozenset(pair for pair in environment.items() if pair[0].startswith(_AT_START)))
    if key not in _servers:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            process = subprocess.Popen(
                [sys.executable, str(_SERVER), str(there.fileno())],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
                start_new_session=True,
            )
        _servers[key] = process, here
    return _servers[key][1]


@atexit.register
def _end() -> None:
    for process, here in _servers.values():
        here.close()
        process.wait()
