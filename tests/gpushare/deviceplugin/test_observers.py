"""Promises of the device plugin's program about what it observes and serves: a process of its own, as installed."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.gpushare.deviceplugin.plugin_program import plugin
from tests.servers import until


async def test_a_plugin_that_waits_for_cards_is_scraped_all_the_same(tmp_path: Path) -> None:
    """A driver may come later; until then it is alive and has no sample of cards."""
    async with plugin(tmp_path, "--metrics-address=127.0.0.1:0", box="none") as running:
        await running.until("no cards to share")
        metrics = (await running.get("/metrics")).text
        await until(lambda: running.api.nodes[0]["status"].get("conditions"))
        reason = running.api.nodes[0]["status"]["conditions"][0]["reason"]
        code = await running.end()

    assert ("gpushare_cards" in metrics, code, reason) == (False, 0, "NoCards")


async def test_without_an_address_nothing_listens(tmp_path: Path) -> None:
    """Off is the default."""
    async with plugin(tmp_path) as running:
        await running.until("published node=n")
        listening = Path("/proc/net/tcp").read_text().splitlines()
        inodes = {line.split()[9] for line in listening[1:] if line.split()[3] == "0A"}
        own = [link.readlink().name for link in Path(f"/proc/{running.process.pid}/fd").iterdir()]
        code = await running.end()

    assert ([inode for inode in inodes if f"socket:[{inode}]" in own], code) == ([], 0)


async def test_taken_port_ends_with_two_and_publishes_nothing(tmp_path: Path) -> None:
    """Before anything is announced."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with plugin(tmp_path, f"--metrics-address={address}") as running:
            code = await running.process.wait()
            await running.end()

    assert (code, "cannot listen on 127.0.0.1 port" in running.log) == (2, True)
    assert ("published" in running.log, "Traceback" in running.log) == (False, False)
