"""Promises of the device plugin's program, a process of its own as installed: its start, its metrics, its end."""

from __future__ import annotations

import logging
import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clusters.processes.program import Program
from fake_nvml.box import Box
from fake_nvml.state import State
from gpushare.deviceplugin import metrics_exposition
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.metrics_exposition import PluginExposition
from gpushare.serving.http_connection import HttpRequest
from tests.servers import StubApi, kubeconfig, plain_http, serve, until

BIN = Path(sys.executable).parent


async def logged(program: Program, pattern: str) -> re.Match[str]:
    """Wait until the program's log matches ``pattern``."""
    await until(lambda: re.search(pattern, program.log()) is not None or program.pid is None)
    found = re.search(pattern, program.log())
    assert found is not None, f"{pattern} is not in the log:\n{program.log()}"
    return found


async def ended(program: Program, until_log: str = "") -> tuple[int | None, str]:
    """Wait for its end, or end it when its log matches ``until_log``. Returns exit code and log."""
    if until_log:
        await logged(program, until_log)
    else:
        await program.ended()
    return await program.stop(), program.log()


@asynccontextmanager
async def started(folder: Path, *argv: str, **environment: str) -> AsyncIterator[Program]:
    """A program with only PATH and these variables in its environment."""
    variables = {"PATH": f"{BIN}:/usr/bin:/bin", **environment}
    program = Program(argv[0], argv, variables, folder / "log", is_measured=True)

    async def runs() -> bool:
        return True

    await program.launch(runs)
    try:
        yield program
    finally:
        await program.kill()


async def run(folder: Path, *argv: str, until_log: str = "", **environment: str) -> tuple[int | None, str]:
    """Run a program to its end, or until its log matches ``until_log``. Returns exit code and log."""
    async with started(folder, *argv, **environment) as program:
        return await ended(program, until_log)


def node(version: str) -> dict[str, Any]:
    """A node with a kubelet of that version."""
    return {"metadata": {"name": "n"}, "status": {"capacity": {}, "nodeInfo": {"kubeletVersion": version}}}


@asynccontextmanager
async def plugin(
    folder: Path, *argv: str, api: StubApi | None = None, box: str = "t4x2", init_seconds: float = 0, **more: Any
) -> AsyncIterator[Program]:
    """The plugin on a simulated node without a kubelet; NVML's init takes that long, and ``more`` are variables."""
    state = folder / "nvml"
    with State.create(state, Box.load(box, seed="n", driver="535.104")) as cards:
        if init_seconds:
            cards.add_fault("nvmlInitWithFlags", seconds=init_seconds)
    words = ("fake-nvml", "exec", "--", "gpushare-device-plugin", "--device-plugin-path", str(folder), *argv)
    async with serve(api or StubApi()) as url:
        config = kubeconfig(folder, url if api is not None else "http://127.0.0.1:1")
        variables = {"NODE_NAME": "n", "KUBECONFIG": config, "FAKENVML_STATE": str(state), **more}
        async with started(folder, *words, **variables) as program:
            yield program


async def test_a_missing_driver_ends_it_only_if_it_was_asked_to(tmp_path: Path) -> None:
    """--fail-on-init-error, as NVIDIA's plugin names it: exit code 1 and what to do."""
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    code, log = await run(tmp_path, "gpushare-device-plugin", "--fail-on-init-error", NODE_NAME="n", KUBECONFIG=config)

    assert (code, "install the NVIDIA driver" in log, "Traceback" in log) == (1, True, False)


async def test_a_plugin_that_waits_for_cards_can_be_scraped(tmp_path: Path) -> None:
    """A driver may come later; until then it is alive, has no sample of cards, and logs words that are no Xids once."""
    words: dict[str, Any] = {"DP_DISABLE_HEALTHCHECKS": "48,forty", "DP_ENABLE_HEALTHCHECKS": "-5"}
    api = StubApi(nodes=[node("v1.36.3")])
    async with plugin(tmp_path, "--metrics-address=127.0.0.1:0", api=api, box="none", **words) as running:
        await logged(running, "no cards to share")
        port = (await logged(running, r"metrics at address=127\.0\.0\.1 port=(\d+)"))[1]
        async with plain_http(f"http://127.0.0.1:{port}") as client:
            alive, metrics = [await client.get(path) for path in ("/healthz", "/metrics")]
        await until(lambda: api.nodes[0]["status"].get("conditions"))
        reason = api.nodes[0]["status"]["conditions"][0]["reason"]
        code, log = await ended(running, "no cards to share")

    assert (code, reason, log.count("entries=forty,-5")) == (0, "NoCards", 1)
    assert (alive.status_code, alive.text) == (200, "ok")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert ("\ngpushare_held_containers 0.0\n" in metrics.text, "gpushare_cards" in metrics.text) == (True, False)


def test_a_failing_scrape_is_an_error_without_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """The traceback is the log's and not the scraper's, and nothing but two paths can be read."""
    metrics = PluginMetrics()

    def broken() -> dict[str, str]:
        raise ZeroDivisionError("secret")

    metrics.held = broken
    asked = (("GET", "/metrics"), ("POST", "/metrics"), ("GET", "/"))
    with caplog.at_level(logging.CRITICAL):
        answers = [
            metrics_exposition.answer(PluginExposition(metrics), HttpRequest(method, path, b"", True))
            for method, path in asked
        ]

    assert ([one.status for one in answers], b"secret" in answers[0].body) == ([500, 405, 404], False)


async def test_without_an_address_nothing_listens(tmp_path: Path) -> None:
    """Off is the default."""
    async with plugin(tmp_path, api=StubApi(nodes=[node("v1.36.3")])) as running:
        await logged(running, "published node=n")
        listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        sockets = {f"socket:[{fields[9]}]" for fields in listening if fields[3] == "0A"}
        own = {link.readlink().name for link in Path(f"/proc/{running.pid}/fd").iterdir()}

    assert sockets & own == set()


async def test_taken_port_ends_with_two_and_publishes_nothing(tmp_path: Path) -> None:
    """Before anything is announced."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with plugin(tmp_path, f"--metrics-address={address}") as running:
            code, log = await ended(running)

    assert (code, "cannot listen on 127.0.0.1 port" in log) == (2, True)
    assert ("published" in log, "Traceback" in log) == (False, False)


@pytest.mark.parametrize(
    ("seconds", "until_log"), [(0, "cannot read node=n"), (3600, "starting")], ids=["API server", "driver"]
)
async def test_what_does_not_answer_does_not_keep_it_from_ending(tmp_path: Path, seconds: int, until_log: str) -> None:
    """SIGTERM while the API server is away, as the node may boot before it, or while NVML does not answer: exit code 0."""
    async with plugin(tmp_path, init_seconds=seconds) as running:
        code, log = await ended(running, until_log)

    assert (code, "Traceback" in log) == (0, False)
