"""NVIDIA's Go libraries on simulated cards: its device plugin, feature discovery and DRA driver ask cards through them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from fake_nvml.box import Box
from fake_nvml.native.build import cache_folder
from fake_nvml.state import State
from tests.fake_nvml.clients.nvml_client import ROOT

SOURCES = Path(__file__).with_name("go_libraries")
# Against a hang only; Go compiles them once, in about a minute.
BUILD_SECONDS, SECONDS = 280, 60
# As NVIDIA's own programs are linked: a function that the driver's library lacks is missed when it is called.
SETTINGS = {"CGO_ENABLED": "1", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
FLAGS = ("-trimpath", "-buildvcs=false", "-ldflags", "-s -w '-extldflags=-Wl,-z,lazy'")


@pytest.fixture(scope="module")
def program() -> Path:
    """Built once into the user's cache; without Go or its modules the tests are skipped."""
    if shutil.which("go") is None or shutil.which("cc") is None:
        pytest.skip("there is no go, or no C compiler that it can use")
    content = b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()))
    built = cache_folder(os.environ).with_name("clients") / f"go-libraries-{hashlib.sha256(content).hexdigest()[:12]}"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as draft:
            command = ["go", "build", *FLAGS, "-o", f"{draft}/done", "."]
            environment = {**os.environ, **SETTINGS}
            done = subprocess.run(
                command, cwd=SOURCES, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS
            )
            if done.returncode != 0:
                pytest.skip(f"NVIDIA's Go libraries cannot be built here: {done.stderr[-300:]}")
            Path(draft, "done").rename(built)
    return built


def seen(program: Path, folder: Path, box: str, driver: str) -> dict[str, Any]:
    """The program's answer on a box."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount the simulated cards at /sys")
    State.create(folder / "state", Box.load(box, seed="node-1", driver=driver)).close()
    command = [sys.executable, "-m", "fake_nvml.main", "exec", "--state", str(folder / "state"), "--sys"]
    done = subprocess.run([*command, "--", str(program)], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("box", "driver", "links"),
    [
        # The other ends of its links are switches, which the library does not follow.
        ("a100x8", "535", {"P2PLinkSingleSwitch"}),
        ("l40sx8", "570", {"P2PLinkSingleSwitch"}),
        ("v100x4", "470", {"TwoNVLINKLinks", "P2PLinkHostBridge"}),
    ],
)
def test_two_cards_that_are_near_each_other_are_chosen(
    program: Path, tmp_path: Path, box: str, driver: str, links: set[str]
) -> None:
    """By NVLink, or by the PCIe switch, as NVIDIA's device plugin prefers them; each card is chosen once."""
    answer = seen(program, tmp_path, box, driver)

    assert sorted(answer["chosen"]) == [[first, first + 1] for first in range(0, len(answer["cards"]), 2)]
    assert {name.split()[1] for name in answer["links"] if name.startswith("0-1 ")} == links


@pytest.mark.parametrize(
    ("box", "driver", "first", "numa", "is_3d"),
    [
        ("t4x2", "450", ("Tesla T4", "Turing", "Tesla", "7.5", False), [-1, -1], [True, True]),
        ("h100x8", "580", ("NVIDIA H100 80GB HBM3", "Hopper", "Nvidia", "9.0", True), [0] * 4 + [1] * 4, [True] * 8),
        ("rtx4090x1", "550", ("NVIDIA GeForce RTX 4090", "Ada Lovelace", "GeForce", "8.9", False), [-1], [False]),
    ],
)
def test_cards_and_bus_are_one_machine(
    program: Path, tmp_path: Path, box: str, driver: str, first: tuple[Any, ...], numa: list[int], is_3d: list[bool]
) -> None:
    """NVML and ``/sys`` show the same cards; a card with a screen is a VGA controller."""
    answer = seen(program, tmp_path, box, driver)

    assert tuple(answer["cards"][0].values()) == first
    assert (answer["numa"], answer["is_3d"], len(answer["addresses"])) == (numa, is_3d, len(answer["cards"]))
