"""Promises of clusters.processes.program: real processes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from clusters.processes import program
from clusters.processes.program import Program
from clusters.provider import ClusterError
from tests.servers import until

PYTHON = sys.executable
ENVIRONMENT = {"PATH": f"{Path(PYTHON).parent}:/usr/bin:/bin"}


def make(code: str, folder: Path) -> Program:
    return Program("it", [PYTHON, "-u", "-c", code], ENVIRONMENT, folder / "log")


async def never() -> bool:
    return False


def has_said(one: Program, word: str) -> Callable[[], Awaitable[bool]]:
    """It is ready when its log has the word once."""

    async def look() -> bool:
        return one.log().count(word) == 1

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


def install(folder: Path) -> str:
    """The path of a script as pip writes it, which waits for a minute."""
    (folder / "installed_it.py").write_text("import time\ndef main():\n    time.sleep(60)\n")
    script = folder / "installed-it"
    script.write_text(f"#!{PYTHON}\nimport sys\nfrom installed_it import main\nsys.exit(main())\n")
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize("is_installed", [False, True])
async def test_a_harness_that_is_killed_takes_its_programs_with_it(tmp_path: Path, is_installed: bool) -> None:
    """A harness that ends by SIGKILL leaves no program."""
    argv = [install(tmp_path)] if is_installed else [PYTHON, "-c", "import time; time.sleep(60)"]
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
