"""nvitop on simulated cards."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.fake_nvml.clients.nvml_client import Client, Node

NVITOP = ("nvitop", "nvitop")


def test_nvitop_shows_cards_memory_and_processes(node: Node, installed: Callable[..., Client]) -> None:
    """The page of nvitop has both cards, and the process on the second one."""
    page = node.ask(installed(*NVITOP), "--once", "--ascii")

    assert f"Driver Version: {node.version}" in page
    assert re.search(r"\|   0  Tesla T4 +Off \| 00000000:04:00\.0 Off \| +0 \|", page)
    assert re.search(rf"N/A +33C +P8 .*\| +0B / {node.total_mib}MiB \| +0% ", page)
    assert re.search(rf"N/A +33C +P0 .*\| +1253MiB / {node.total_mib}MiB \| +40% ", page)
    assert re.search(rf"\|   1 +{node.pid} C +\S+ +1253MiB ", page)
