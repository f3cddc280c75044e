"""Promises of the device plugin's program: its start, its words, its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_nvml.box import Box
from fake_nvml.state import State
from tests.gpushare.deviceplugin.plugin_program import run
from tests.servers import kubeconfig


async def test_without_a_node_name_it_says_where_to_get_one() -> None:
    """Exit code 2."""
    code, log = await run("gpushare-device-plugin")

    assert (code, "NODE_NAME" in log, "Traceback" in log) == (2, True, False)


async def test_a_missing_driver_ends_it_only_where_it_was_asked_to(tmp_path: Path) -> None:
    """--fail-on-init-error, as NVIDIA's plugin names it: exit code 1 and what to do."""
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    code, log = await run("gpushare-device-plugin", "--fail-on-init-error", NODE_NAME="n", KUBECONFIG=config)

    assert (code, "install the NVIDIA driver" in log, "Traceback" in log) == (1, True, False)


async def test_without_a_driver_it_waits_and_words_are_skipped(tmp_path: Path) -> None:
    """One line names what is missing, another the words that are no Xids of NVIDIA's two variables; SIGTERM ends it with 0."""
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    code, log = await run(
        "gpushare-device-plugin",
        until_log="no cards to share",
        NODE_NAME="n",
        KUBECONFIG=config,
        DP_DISABLE_HEALTHCHECKS="48,forty",
        DP_ENABLE_HEALTHCHECKS="-5",
    )

    assert (code, log.count("no cards to share"), "entries=forty,-5" in log, "Traceback" in log) == (0, 1, True, False)


@pytest.mark.parametrize(
    ("seconds", "until_log"), [(0, "cannot read node=n"), (3600, "starting")], ids=["API server", "driver"]
)
async def test_what_does_not_answer_does_not_keep_it_from_ending(tmp_path: Path, seconds: int, until_log: str) -> None:
    """SIGTERM while the API server is away, as the node may boot before it, or while NVML does not answer: exit code 0."""
    state = tmp_path / "nvml"
    with State.create(state, Box.load("t4x2", seed="n", driver="535.104")) as cards:
        if seconds:
            cards.add_fault("nvmlInitWithFlags", seconds=seconds)
        code, log = await run(
            *("fake-nvml", "exec", "--", "gpushare-device-plugin"),
            until_log=until_log,
            NODE_NAME="n",
            KUBECONFIG=kubeconfig(tmp_path, "http://127.0.0.1:1"),
            FAKENVML_STATE=str(state),
        )

    assert (code, "Traceback" in log) == (0, False)
