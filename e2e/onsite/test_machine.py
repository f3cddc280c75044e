"""``python -m e2e machine``, on simulated libraries in the place of a driver: every program finds them as it finds NVIDIA's."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from e2e.commands import python
from e2e.onsite.validate import carry
from e2e.report.verdict_files import read
from e2e.site import SiteError
from fake_nvml.box import Box
from fake_nvml.native.build import library_folder
from fake_nvml.native.compiler import CompilerError
from fake_nvml.state import State


async def test_a_machine_is_judged_on_its_own_libraries(tmp_path: Path) -> None:
    """The device plugin and CUDA processes run on the machine's libraries, and the report has its recording."""
    with State.create(tmp_path / "state", Box.load("t4x1", seed="machine", driver="535.104")) as state:
        try:
            libraries = library_folder(state.driver())
        except CompilerError as error:
            pytest.skip(f"no library in C: {error}")
        variables = {"FAKENVML_STATE": str(state.path), "LD_LIBRARY_PATH": str(libraries)}
        done = await python("-m", "e2e", "machine", "--report", str(tmp_path / "report"), variables=variables)
    table = read(tmp_path / "report" / "site_report.json")
    verdicts = {name: next(iter(case.verdicts.values())).outcome for name, case in table.cases.items()}
    assert table.site is not None
    (node,) = table.site.nodes

    # Without a kernel module the verdict cannot be more than incomplete.
    assert (done.code, "failed" in verdicts.values()) == (4, False), done.said
    assert (node.driver, node.kernel, node.are_cards_simulated) == ("535.104", platform.release(), True)
    assert table.site.recordings[node.name]["cards"]
    assert verdicts["test_a_program_gets_the_memory_of_its_share"] == "passed"
    assert verdicts["test_use_beyond_the_booking_gets_an_event"] == "passed"
    assert verdicts["test_a_recording_replays_the_machine"] == "passed"
    (limited,) = table.cases["test_a_program_gets_no_more_than_its_share"].verdicts.values()
    assert limited.reason == "not possible with driver 535.104: R615 is the first that limits"
    # The machine has one card and no container, so a container that sees its card alone proves nothing.
    assert verdicts["test_a_container_sees_its_card_alone"] == "not applicable"
    assert verdicts["test_nvidia_smi_shows_the_card_alone"] == "not applicable"


async def test_a_machine_without_a_driver_is_not_tried(tmp_path: Path) -> None:
    """The exit code is 1 without an NVML library, and the output has the reason."""
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a driver")
    done = await python("-m", "e2e", "machine", "--report", str(tmp_path / "report"))

    assert done.code == 1, done.said
    assert "libnvidia-ml.so.1" in done.said


def test_a_folder_to_carry_must_be_empty(tmp_path: Path) -> None:
    """A folder that has files is not mixed with another checkout."""
    (tmp_path / "mine").touch()
    with pytest.raises(SiteError, match="is not empty"):
        carry(tmp_path)
