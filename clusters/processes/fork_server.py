"""Starts an installed Python program by forking, with its modules imported once: ``python fork_server.py FD``.

A device plugin takes 0.8 s of a processor to import what it needs, and some 15 ms in a fork of a process that has it already.
A run of the cases starts hundreds of programs. Each is a process of its own, which runs the installed script from its first line.

FD is a socket. Each message on it has ``argv``, ``environment`` and ``folder`` as JSON, and three descriptors: standard output and
error of the program, and a pipe, into which this process writes the program's pid, and its wait status when it has ended. If the
socket is closed, this process ends, and the kernel kills all that it has started.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import re
import runpy
import selectors
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any, Final

NUMBER: Final = struct.Struct("=i")
LONGEST_MESSAGE: Final = 2**17
_PR_SET_PDEATHSIG: Final = 1
_MODULES: Final = re.compile(r"^from ([\w.]+) import ", re.MULTILINE)


def main() -> None:
    """Serve until the socket is closed; a process that is forked here runs its program, and ends as that ends."""
    argv = _serve(socket.socket(fileno=int(sys.argv[1])))
    if argv is not None:
        sys.argv = argv
        runpy.run_path(argv[0], run_name="__main__")


def _serve(requests: socket.socket) -> list[str] | None:
    """None if the socket is closed; in each forked process the command line of its program."""
    running: dict[int, int] = {}
    awake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    selector = selectors.DefaultSelector()
    for descriptor in (requests.fileno(), awake):
        selector.register(descriptor, selectors.EVENT_READ)
    while True:
        ready = {key.fd for key, _ in selector.select()}
        if awake in ready:
            os.read(awake, 4096)
            _report(running)
        if requests.fileno() not in ready:
            continue
        text, descriptors, *_ = socket.recv_fds(requests, LONGEST_MESSAGE, 3)
        if not text:
            return None
        request, (*outputs, status) = json.loads(text), descriptors
        _import(request["argv"][0])
        if (pid := os.fork()) == 0:
            selector.close()
            _close(*running.values(), status, awake, wake, requests.detach())
            return _become(request, outputs)
        _close(*outputs)
        running[pid] = status
        _write(status, pid)


def _import(script: str) -> None:
    """Import the modules that a script imports, unless they are there."""
    sys.path[0] = str(Path(script).parent)
    for name in _MODULES.findall(Path(script).read_text()):
        importlib.import_module(name)


def _become(request: dict[str, Any], outputs: list[int]) -> list[str]:
    """The environment, output, folder and session of a program are this process's; returns its command line."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.setsid()
    silent = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((silent, *outputs)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["folder"])
    os.environ.clear()  # noqa: TID251  # it is the program's own
    os.environ.update(request["environment"])  # noqa: TID251  # see above
    argv: list[str] = request["argv"]
    return argv


def _report(running: dict[int, int]) -> None:
    """Write the wait status of each program that has ended."""
    with contextlib.suppress(ChildProcessError):
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            descriptor = running.pop(pid)
            _write(descriptor, status)
            _close(descriptor)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _write(descriptor: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the harness has forgotten this program
        os.write(descriptor, NUMBER.pack(number))


if __name__ == "__main__":
    main()
