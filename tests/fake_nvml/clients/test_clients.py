"""gpustat, nvitop and glances on simulated cards: with the bindings of their day and of today."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fake_nvml.box import Box
from fake_nvml.state import State
from tests.fake_nvml.clients.nvml_client import Node, NotInstallableError, install

# Only the page of cards, once, and nothing that asks the network.
GLANCES = (
    *("--stdout", "gpu", "--stop-after", "1", "--time", "1"),
    *("--disable-check-update", "--disable-plugin", "all", "--enable-plugin", "gpu"),
)
Installed = Callable[[str], Path]


@pytest.fixture(scope="session")
def installed() -> Installed:
    """Install a client, once; if that is impossible its tests are skipped with pip's error."""
    refused: dict[str, str] = {}

    def find(listed: str) -> Path:
        if listed not in refused:
            try:
                return install(listed)
            except NotInstallableError as error:
                refused[listed] = str(error)
        pytest.skip(f"{listed} cannot be installed here: {refused[listed]}")

    return find


@pytest.fixture(params=["418", "535"])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Node:
    """A node of the original's day, and one of today; this process is on its second card."""
    path = tmp_path / "state"
    with State.create(path, Box.load("t4x2", seed="node-1", driver=request.param)) as state:
        first, second = state.cards()
        state.add_process(second.uuid, os.getpid(), 1253, "trainer")
        state.set_value(second.uuid, "utilization", "40")
        uuids = (first.uuid, second.uuid)
        return Node(path, state.driver(), first.total_mib, first.reserved_mib, uuids, os.getpid())


def is_old(node: Node) -> bool:
    """Is its driver of the original's day?"""
    return node.driver.startswith("418.")


def test_gpustat_shows_cards_memory_and_processes(node: Node, installed: Installed) -> None:
    """A gpustat whose bindings know the driver shows all: the bindings of 2019 for 418, the newest for the others."""
    client = installed("gpustat-2019" if is_old(node) else "gpustat")

    cards = json.loads(node.ask(client, "gpustat", "--json"))["gpus"]

    assert [(card["index"], card["uuid"], card["name"]) for card in cards] == [
        (index, uuid, "Tesla T4") for index, uuid in enumerate(node.uuids)
    ]
    assert [(card["memory.used"], card["memory.total"]) for card in cards] == [
        (used, node.total_mib) for used in (0, 1253)
    ]
    assert [(card["temperature.gpu"], card["utilization.gpu"]) for card in cards] == [(33, 0), (33, 40)]
    assert [[(row["pid"], row["gpu_memory_usage"]) for row in card["processes"]] for card in cards] == [
        [], [(node.pid, 1253)],
    ]  # fmt: skip


def test_gpustat_of_today_shows_an_old_drivers_cards(node: Node, installed: Installed) -> None:
    """The bindings ask for lists of processes that 418 has not, so gpustat reports those as unknown.

    The newest bindings raise an error for them that gpustat does not catch, as on a real node (README).
    """
    page = node.ask(installed("gpustat-older"), "gpustat", "--no-color", "--no-header").splitlines()

    assert len(page) == 2
    assert f"40 % |  1253 / {node.total_mib} MB |" in page[1]
    assert page[1].endswith("(Not Supported)" if is_old(node) else "(1253M)")
    if is_old(node):
        with pytest.raises(AssertionError, match="Unversioned function called"):
            node.ask(installed("gpustat"), "gpustat", "--json")


def test_nvitop_shows_cards_memory_and_processes(node: Node, installed: Installed) -> None:
    """The page of nvitop has both cards, and the process on the second one."""
    page = node.ask(installed("nvitop"), "nvitop", "--once", "--ascii")

    assert f"Driver Version: {node.driver}" in page
    assert re.search(r"\|   0  Tesla T4 +Off \| 00000000:04:00\.0 Off \| +0 \|", page)
    assert re.search(rf"N/A +33C +P8 .*\| +0B / {node.total_mib}MiB \| +0% ", page)
    assert re.search(rf"N/A +33C +P0 .*\| +1253MiB / {node.total_mib}MiB \| +40% ", page)
    assert re.search(rf"\|   1 +{node.pid} C +\S+ +1253MiB ", page)


def test_glances_shows_cards_and_memory(node: Node, installed: Installed) -> None:
    """Names, memory, temperature and load are those of the state file. Its page of cards has no processes."""
    (line,) = node.ask(installed("glances"), "glances", *GLANCES).splitlines()

    cards = ast.literal_eval(line.removeprefix("gpu: "))

    # The oldest way to ask for memory counts what the driver keeps as used.
    used = [node.reserved_mib, node.reserved_mib + 1253]
    assert [card["name"] for card in cards] == ["Tesla T4"] * 2
    assert [card["mem"] for card in cards] == pytest.approx([100 * mib / node.total_mib for mib in used])
    assert [(card["temperature"], card["proc"]) for card in cards] == [(33, 0), (33, 40)]
