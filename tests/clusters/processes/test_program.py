"""Promises of clusters.processes.program: real processes."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from unittest.mock import ANY

import pytest

from clusters.processes import forked, program
from clusters.processes.program import Program
from clusters.provider import ClusterError
from tests.servers import until

PYTHON = sys.executable
ENVIRONMENT = {"PATH": f"{Path(PYTHON).parent}:/usr/bin:/bin"}


def make(code: str, folder: Path) -> Program:
    """A program that runs this code."""
    return Program("it", [PYTHON, "-u", "-c", code], ENVIRONMENT, folder / "log")


async def at_once() -> bool:
    """It is ready."""
    return True


async def never() -> bool:
    """It is not ready."""
    return False


def has_said(one: Program, word: str, times: int = 1) -> Callable[[], Awaitable[bool]]:
    """It is ready when its log has the word this many times."""

    async def look() -> bool:
        return one.log().count(word) == times

    return look


def is_alive(pid: int) -> bool:
    """Does the process run (a zombie does not)?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_program_that_ends_before_ready_is_an_error_with_its_log(tmp_path: Path) -> None:
    """The program, the way it ended, and the end of its log."""

    with pytest.raises(ClusterError, match="it ended with 3 before it was ready:\nlast words"):
        await make("import sys\nprint('last words')\nsys.exit(3)", tmp_path).launch(never)


async def test_a_program_that_never_gets_ready_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that never gets ready is stopped and leaves no process."""
    monkeypatch.setattr(program, "READY_SECONDS", 0.3)
    one = make("import time\ntime.sleep(60)", tmp_path)

    with pytest.raises(ClusterError, match="not ready"):
        await one.launch(never)
    assert one.pid is None


async def test_a_program_that_is_not_there_is_an_error_that_says_so(tmp_path: Path) -> None:
    """Before anything is started."""

    with pytest.raises(ClusterError, match="no-such-program is not on PATH"):
        await Program("it", ["no-such-program"], ENVIRONMENT, tmp_path / "log").launch(never)


async def test_what_a_script_started_ends_with_it(tmp_path: Path) -> None:
    """A user's command may be a script: its children do not survive it, those that hear no SIGTERM neither."""
    child = "import signal,time\nsignal.signal(15, signal.SIG_IGN)\nprint('up')\ntime.sleep(60)"
    script = f'{PYTHON} -u -c "{child}" & echo child $!; wait'
    one = Program("it", ["sh", "-c", script], ENVIRONMENT, tmp_path / "log", has_children=True)

    await one.launch(has_said(one, "up"))
    pid = int(one.log().partition("child ")[2].split()[0])
    assert is_alive(pid)

    await one.stop()
    await until(lambda: not is_alive(pid))


def install(folder: Path, code: str) -> str:
    """The path of a script as pip writes it, whose module adds to a file when it is imported."""
    note = f"import os, sys, time\nwith open({str(folder / 'imports')!r}, 'a') as file:\n    file.write('once')\n"
    (folder / "installed_it.py").write_text(f"{note}def main():\n    {code}\n")
    script = folder / "installed-it"
    script.write_text(f"#!{PYTHON}\nimport sys\nfrom installed_it import main\nsys.exit(main())\n")
    script.chmod(0o755)
    return str(script)


async def test_an_installed_program_imports_its_modules_once(tmp_path: Path) -> None:
    """Each start has its own process, command line, environment, folder, output and exit code."""
    script = install(tmp_path, "print(sys.argv[1:], os.environ['IT'], os.getpid()); sys.exit(int(sys.argv[1]))")

    async def start(code: int) -> tuple[Program, str]:
        one = Program("it", [script, str(code)], {**ENVIRONMENT, "IT": f"is {code}"}, tmp_path / f"log{code}")
        await one.launch(at_once)
        pid = one.pid
        await one.ended()
        return one, f"['{code}'] is {code} {pid}\n"

    (first, first_output), (second, second_output) = await asyncio.gather(start(7), start(0))

    assert (first.log(), await first.stop()) == (first_output, 7)
    assert (second.log(), await second.stop()) == (second_output, 0)
    assert await forked.run([script, "3"], {**ENVIRONMENT, "IT": "short"}) == (3, ANY, b"")
    assert (tmp_path / "imports").read_text() == "once"


async def test_a_signal_that_ends_an_installed_program_is_its_code(tmp_path: Path) -> None:
    """As with each other program, the code is the negative number of the signal."""
    one = Program("it", [install(tmp_path, "time.sleep(60)")], ENVIRONMENT, tmp_path / "log")

    await one.launch(at_once)

    assert await one.stop() == -signal.SIGTERM


@pytest.mark.parametrize("is_installed", [False, True])
async def test_a_harness_that_is_killed_takes_its_programs_with_it(tmp_path: Path, is_installed: bool) -> None:
    """A harness that ends by SIGKILL leaves no program."""
    argv = [install(tmp_path, "time.sleep(60)")] if is_installed else [PYTHON, "-c", "import time; time.sleep(60)"]
    code = f"""
import asyncio, sys
from pathlib import Path
from clusters.processes.program import Program
one = Program("it", {argv!r}, {ENVIRONMENT!r}, Path({str(tmp_path / "log")!r}))
async def main():
    async def ready():
        return True
    await one.launch(ready)
    print(one.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    root = Path(__file__).parents[3]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(root)}
    harness = await asyncio.create_subprocess_exec(
        *(PYTHON, "-c", code), cwd=root, env=environment, stdout=asyncio.subprocess.PIPE
    )
    assert harness.stdout is not None
    pid = int(await harness.stdout.readline())
    harness.kill()
    await harness.wait()

    await until(lambda: not is_alive(pid))
