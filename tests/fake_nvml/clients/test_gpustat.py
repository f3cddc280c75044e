"""gpustat on simulated cards, with the bindings of its day and of today."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.fake_nvml.clients.nvml_client import Client, Node

NEWEST = ("gpustat", "gpustat")
# The last bindings that say of a function which an old driver lacks what gpustat expects to hear.
OLDER = ("gpustat", "gpustat-older")
# The versions that a node of the original's day had.
OF_2019 = ("gpustat", "gpustat-2019")


def test_gpustat_shows_cards_memory_and_processes(node: Node, installed: Callable[..., Client]) -> None:
    """A gpustat whose bindings know the driver shows all: the bindings of 2019 for 418, the newest for the others."""
    client = installed(*(OF_2019 if node.driver == "418" else NEWEST))

    cards = json.loads(node.ask(client, "--json"))["gpus"]

    assert [(card["index"], card["uuid"], card["name"]) for card in cards] == [
        (index, uuid, "Tesla T4") for index, uuid in enumerate(node.uuids())
    ]
    assert [(card["memory.used"], card["memory.total"]) for card in cards] == [
        (0, node.total_mib),
        (1253, node.total_mib),
    ]
    assert [(card["temperature.gpu"], card["utilization.gpu"]) for card in cards] == [(33, 0), (33, 40)]
    assert [[(row["pid"], row["gpu_memory_usage"]) for row in card["processes"]] for card in cards] == [
        [], [(node.pid, 1253)],
    ]  # fmt: skip


def test_gpustat_of_today_shows_an_old_drivers_cards(node: Node, installed: Callable[..., Client]) -> None:
    """The bindings ask for lists of processes that 418 has not, so gpustat reports those as unknown."""
    client = installed(*OLDER)

    page = node.ask(client, "--no-color", "--no-header").splitlines()

    expected = "(Not Supported)" if node.driver == "418" else "(1253M)"
    assert len(page) == 2
    assert f"40 % |  1253 / {node.total_mib} MB |" in page[1]
    assert page[1].endswith(expected)


@pytest.mark.parametrize("node", ["418"], indirect=True)
def test_todays_gpustat_does_not_run_on_the_oldest_driver(node: Node, installed: Callable[..., Client]) -> None:
    """The newest bindings raise an error that gpustat does not catch, as on a real node (README)."""
    client = installed(*NEWEST)

    with pytest.raises(AssertionError, match="Unversioned function called"):
        node.ask(client, "--json")
