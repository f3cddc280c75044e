"""glances on simulated cards. Its page of cards has no processes."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tests.fake_nvml.clients.nvml_client import Client, Node

GLANCES = ("glances", "glances")
# Only the page of cards, once, and nothing that asks the network.
ARGUMENTS = (
    *("--stdout", "gpu", "--stop-after", "1", "--time", "1"),
    *("--disable-check-update", "--disable-plugin", "all", "--enable-plugin", "gpu"),
)


def test_glances_shows_cards_and_memory(node: Node, installed: Callable[..., Client]) -> None:
    """Names, memory, temperature and load are those of the state file."""
    (line,) = node.ask(installed(*GLANCES), *ARGUMENTS).splitlines()

    cards = ast.literal_eval(line.removeprefix("gpu: "))

    # The oldest way to ask for memory counts what the driver keeps as used.
    used = [node.reserved_mib, node.reserved_mib + 1253]
    assert [card["name"] for card in cards] == ["Tesla T4"] * 2
    assert [card["mem"] for card in cards] == pytest.approx([100 * mib / node.total_mib for mib in used])
    assert [(card["temperature"], card["proc"]) for card in cards] == [(33, 0), (33, 40)]
