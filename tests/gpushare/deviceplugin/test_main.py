"""Promises of the device plugin's program: its start, its words, its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fake_nvml.box import Box
from fake_nvml.state import State
from tests.gpushare.deviceplugin.plugin_program import plugin, run
from tests.servers import StubApi, kubeconfig


async def test_without_a_node_name_it_says_where_to_get_one() -> None:
    """Exit code 2."""
    code, log = await run("gpushare-device-plugin")

    assert (code, "NODE_NAME" in log, "Traceback" in log) == (2, True, False)


async def test_a_node_without_a_driver_is_waited_for(tmp_path: Path) -> None:
    """The driver may come later; until then one line names what is missing; SIGTERM ends it with 0."""
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    code, log = await run("gpushare-device-plugin", until_log="no cards to share", NODE_NAME="n", KUBECONFIG=config)

    assert (code, log.count("no cards to share"), "Traceback" in log) == (0, 1, False)


async def on_fake(
    tmp_path: Path, version: str, *arguments: str, until_log: str = ""
) -> tuple[int | None, str, StubApi]:
    """The plugin on two simulated T4, beside no kubelet."""
    async with plugin(tmp_path, *arguments, version=version) as program:
        return *await program.ended(until_log), program.api


@pytest.mark.promise("DP-003")
@pytest.mark.parametrize("version", ["v1.36.3", "v1.28.2"])
async def test_list_that_the_kubelet_would_refuse_fails_the_start(tmp_path: Path, version: str) -> None:
    """Exit code 1, and which unit would fit; nothing was published. An old kubelet takes these 30,720 ids."""
    waits = "" if version == "v1.36.3" else "published node=n"
    code, log, api = await on_fake(tmp_path, version, "--memory-unit=MiB", until_log=waits)

    patches = [call for call in api.calls if call["method"] == "PATCH" and "metadata" in call["body"]]
    if version == "v1.36.3":
        assert (code, patches) == (1, [])
        assert "--memory-unit MiB makes 30720 ids, more than 4000" in log
        assert "use --memory-unit 8MiB" in log
        assert "Traceback" not in log
    else:
        assert (code, len(patches)) == (0, 1)


async def test_plugin_publishes_its_cards_and_waits_for_its_kubelet(tmp_path: Path) -> None:
    """Each card by its UUID, with true sizes, on the Node."""
    code, log, api = await on_fake(tmp_path, "v1.36.3", until_log="published node=n")

    published = json.loads(api.nodes[0]["metadata"]["annotations"]["aliyun.com/gpushare-cards"])
    assert [(card["index"], card["mib"], card["units"]) for card in published["cards"]] == [
        (0, 15360, 15),
        (1, 15360, 15),
    ]
    assert (published["unit"], published["mode"], code, "Traceback" in log) == ("GiB", "ids", 0, False)
    assert api.nodes[0]["status"]["capacity"] == {"aliyun.com/gpu-count": "2"}


async def test_an_api_server_that_is_away_is_waited_for(tmp_path: Path) -> None:
    """The node may boot before it."""
    state = tmp_path / "nvml"
    State.create(state, Box.load("t4x1", seed="n")).close()
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    code, log = await run(
        *("fake-nvml", "exec", "--", "gpushare-device-plugin"),
        until_log="cannot read node=n",
        NODE_NAME="n",
        KUBECONFIG=config,
        FAKENVML_STATE=str(state),
    )

    assert (code, "Traceback" in log) == (0, False)


async def test_a_missing_driver_ends_it_only_where_it_was_asked_to(tmp_path: Path) -> None:
    """--fail-on-init-error, as NVIDIA's plugin names it: exit code 1 and what to do."""
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    code, log = await run("gpushare-device-plugin", "--fail-on-init-error", NODE_NAME="n", KUBECONFIG=config)

    assert (code, "install the NVIDIA driver" in log, "Traceback" in log) == (1, True, False)


async def test_words_that_are_no_xids_are_named_and_skipped(tmp_path: Path) -> None:
    """DP_DISABLE_HEALTHCHECKS and DP_ENABLE_HEALTHCHECKS, as NVIDIA's plugin reads them."""
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    code, log = await run(
        "gpushare-device-plugin",
        until_log="no cards to share",
        NODE_NAME="n",
        KUBECONFIG=config,
        DP_DISABLE_HEALTHCHECKS="48,forty",
        DP_ENABLE_HEALTHCHECKS="-5",
    )

    assert (code, "entries=forty,-5" in log) == (0, True)


async def test_a_driver_that_hangs_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    """SIGTERM while NVML is asked and does not answer: still exit code 0."""
    state = tmp_path / "nvml"
    with State.create(state, Box.load("t4x2", seed="n", driver="535.104")) as cards:
        cards.add_fault("nvmlInitWithFlags", seconds=3600)
        config = kubeconfig(tmp_path, "http://127.0.0.1:1")
        code, _ = await run(
            *("fake-nvml", "exec", "--", "gpushare-device-plugin"),
            until_log="starting",
            NODE_NAME="n",
            KUBECONFIG=config,
            FAKENVML_STATE=str(state),
        )

    assert code == 0
