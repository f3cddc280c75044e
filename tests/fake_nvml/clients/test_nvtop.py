"""nvtop, a program in C, on simulated cards: installed if its distribution has it (Debian: nvtop, in contrib for 12)."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fake_nvml.box import Box
from fake_nvml.state import State
from tests.fake_nvml.clients.nvml_client import ROOT

NVTOP = shutil.which("nvtop")
# Escape sequences of the terminal: moves, colours and drawn lines.
ESCAPES = re.compile(rb"\x1b(\[[0-9;?]*[a-zA-Z]|\([0B])|\x0f|\x0e")
# Against a hang only.
SECONDS = 60


@pytest.mark.skipif(NVTOP is None, reason="nvtop is not installed; Debian has it in contrib or main")
@pytest.mark.parametrize("driver", ["418", "470", "535"])
def test_nvtop_shows_speeds_link_fan_and_encoder(tmp_path: Path, driver: str) -> None:
    """A working T4, which has no fan, and an idle GTX 1080 Ti, which has one."""
    with State.create(tmp_path / "state", Box.load("mixed", seed="node-1", driver=driver)) as state:
        working = state.cards()[0].uuid
        state.add_process(working, os.getpid(), 1253, "trainer")
        for key, value in (("utilization", "40"), ("encoder", "7"), ("pcie-received", "51200")):
            state.set_value(working, key, value)

    page = screen(tmp_path, lines=("Device 2", "ENC[", str(os.getpid())))

    first, third = (re.search(rf"Device{index}\[.*?MEM\[", page) for index in (0, 2))
    assert first is not None
    assert third is not None
    for shown in ("[Tesla T4]", "GEN 3@16x", "RX: 50.00 MiB/s", "TX: 0.000 KiB/s", "1590MHz", "5001MHz", "N/A%", "40%"):
        assert shown.replace(" ", "") in first[0], shown
    for shown in ("GEN 1@16x", "139MHz", "405MHz", "FAN 23%"):
        assert shown.replace(" ", "") in third[0], shown
    assert re.search(r"ENC\[\|*7%\]", page)
    assert re.search(rf"{os.getpid()}\D", page)


def screen(folder: Path, lines: tuple[str, ...]) -> str:
    """nvtop's screen once all of these were seen, without blanks and escape sequences."""
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        "LINES": "50",
        "COLUMNS": "100",
        "HOME": str(folder),
    }
    program = subprocess.Popen(
        [sys.executable, "-m", "fake_nvml.main", "exec", "--layer", "c", "--state", str(folder / "state"), "--", "nvtop"],
        env=environment, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs)
    drawn, end = b"", time.monotonic() + SECONDS
    try:
        while time.monotonic() < end and program.poll() is None:
            if select.select([ours], [], [], 1)[0]:
                with contextlib.suppress(OSError):  # it ended
                    drawn += os.read(ours, 65536)
            text = re.sub(r"\s+", "", ESCAPES.sub(b"", drawn).decode(errors="replace"))
            if all(line.replace(" ", "") in text for line in lines):
                return text
    finally:
        program.kill()
        program.wait()
        os.close(ours)
    raise AssertionError(f"nvtop did not show {lines}: {drawn[-2000:]!r}")
