"""``python -m e2e machine``, on simulated libraries in the place of a driver: every program finds them as it finds NVIDIA's."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.onsite.carry import carry
from e2e.site.site_error import SiteError
from fake_nvml.box import Box
from fake_nvml.native.build import library_folder
from fake_nvml.native.compiler import CompilerError
from fake_nvml.state import State


async def run(folder: Path, **variables: str) -> tuple[int | None, str]:
    """The command with these variables: its exit code and output."""
    command = (sys.executable, "-m", "e2e", "machine", "--report", str(folder))
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_a_machine_is_judged_on_its_own_libraries(tmp_path: Path) -> None:
    """The device plugin and CUDA processes run on the machine's libraries, and the report has its recording."""
    with State.create(tmp_path / "state", Box.load("t4x1", seed="machine", driver="535.104")) as state:
        try:
            libraries = library_folder(state.driver())
        except CompilerError as error:
            pytest.skip(f"no library in C: {error}")
        code, output = await run(tmp_path / "report", FAKENVML_STATE=str(state.path), LD_LIBRARY_PATH=str(libraries))
    document: dict[str, Any] = json.loads((tmp_path / "report" / "site_report.json").read_text())
    failed = [case for case in document["cases"] if case["verdict"] == "failed"]
    (node,) = document["nodes"]

    # Without a kernel module the verdict cannot be more than incomplete.
    assert (code, failed) == (4, []), output
    assert document["are_cards_simulated"]
    assert (node["driver"], node["kernel"]) == ("535.104", platform.release())
    assert document["recordings"][node["name"]]["cards"]
    verdicts = {case["name"]: case["verdict"] for case in document["cases"]}
    assert verdicts["test_a_program_gets_the_memory_of_its_share"] == "passed"
    assert verdicts["test_use_beyond_the_booking_gets_an_event"] == "passed"
    assert verdicts["test_a_recording_replays_the_machine"] == "passed"
    # The machine has one card and no container, so a container that sees its card alone proves nothing.
    assert verdicts["test_a_container_sees_its_card_alone"] == "skipped"
    assert verdicts["test_nvidia_smi_shows_the_card_alone"] == "skipped"


async def test_a_machine_without_a_driver_is_not_tried(tmp_path: Path) -> None:
    """The exit code is 1 without an NVML library, and the output has the reason."""
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a driver")
    code, output = await run(tmp_path / "report")

    assert code == 1, output
    assert "libnvidia-ml.so.1" in output


def test_a_folder_to_carry_must_be_empty(tmp_path: Path) -> None:
    """A folder that has files is not mixed with another checkout."""
    (tmp_path / "mine").touch()
    with pytest.raises(SiteError, match="is not empty"):
        carry(tmp_path)
