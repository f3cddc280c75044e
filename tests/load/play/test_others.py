"""Another extender of a run that cannot be asked."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

import pytest
from aiohttp import web

from clusters.certificates import Authority
from clusters.ports import free_port
from clusters.progress import Progress
from load.bench.servers import CannotMeasureError
from load.flags import CLUSTERS
from load.play import others
from load.play.plan import Asked

CLUSTER = CLUSTERS / "nodes-100.yaml"


async def test_one_that_nobody_listens_for_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while in which somebody might start it."""
    monkeypatch.setattr(others, "_LISTEN_SECONDS", 0.5)
    with (
        Progress("load", "", sys.stderr) as progress,
        pytest.raises(CannotMeasureError, match="it cannot be reached: "),
    ):
        await others._until_it_follows(Asked("it", f"http://127.0.0.1:{free_port()}"), CLUSTER, progress)


async def test_a_certificate_that_is_refused_is_said_at_once(tmp_path: Path) -> None:
    """One of an authority that nobody here believes; no wait makes it better."""
    pair = Authority(tmp_path).issue_server("extender", ["127.0.0.1"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    runner, port = web.AppRunner(web.Application()), free_port()
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
        with (
            Progress("load", "", sys.stderr) as progress,
            pytest.raises(CannotMeasureError, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            await others._until_it_follows(Asked("it", f"https://127.0.0.1:{port}"), CLUSTER, progress)
    finally:
        await runner.cleanup()
