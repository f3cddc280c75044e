"""A bind that waits for the API server holds up no question (defect D24)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
import yaml

from clusters.api.connection import TransportError
from clusters.api.readiness import is_up
from clusters.api.waiting import until
from clusters.providers import Choices
from clusters.targets import Target
from e2e import spec
from e2e.extender import schedulers
from e2e.extender.extender_stage import ExtenderStage

pytestmark = pytest.mark.stand_in_only("no kubelet has a part in it")

_PIECE: Final = 1 << 16


class Road:
    """A road to the API server; while it ``is_open`` is not set nothing that is sent there arrives, and answers do."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.held = 0

    @contextlib.asynccontextmanager
    async def begun(self) -> AsyncIterator[int]:
        """The port at which it begins, on loopback."""
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            # The tasks of connections that came last begin, so that they are known here.
            await asyncio.sleep(0)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.closing(writer), contextlib.suppress(OSError):
            there_reader, there_writer = await asyncio.open_connection(self._host, self._port)
            await asyncio.gather(
                self._pump(reader, there_writer, waits=True), self._pump(there_reader, writer, waits=False)
            )

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, waits: bool) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            while piece := await reader.read(_PIECE):
                if waits and not self.is_open.is_set():
                    self.held += 1
                    await self.is_open.wait()
                writer.write(piece)
                await writer.drain()


@pytest.mark.promise("D24", "EXT-025")
async def test_d24_a_held_bind_holds_up_no_question(
    stage: ExtenderStage, target: Target, choices: Choices, tmp_path: Path
) -> None:
    """D24: one lock was held over a bind's requests and taken for each node of a question; then the bind goes on."""
    document = yaml.safe_load((await stage.cluster.kubeconfig_of(target.extender.account)).read_text())
    (entry,) = document["clusters"]
    server = urlsplit(entry["cluster"]["server"])
    assert server.hostname is not None
    road = Road(server.hostname, server.port or 443)
    (pod,) = await stage.create(stage.pod("p", 3))
    async with road.begun() as port:
        entry["cluster"]["server"] = f"{server.scheme}://127.0.0.1:{port}"
        account = tmp_path / "kubeconfig"
        account.write_text(yaml.safe_dump(document))
        program, own_port = await schedulers.extender_beside(
            "the extender on a slow road", target, stage.cluster, choices, tmp_path / "log", {}, account=account
        )
        url = f"http://127.0.0.1:{own_port}"
        try:
            await program.launch(lambda: is_up(url, target.extender.ready))
            road.is_open.clear()
            bind = asyncio.create_task(stage.bind(pod, "a2", url + target.extender.path))
            await until(lambda: road.held, bool, "the bind's request is on the road")
            question = json.dumps({"Pod": stage.pod("q", 1), "Nodes": None, "NodeNames": ["a1", "nowhere"]})
            try:
                answer = await stage.observer.post_to(url + target.extender.path + spec.FILTER, question)
            except TransportError as error:
                pytest.fail(f"no answer while the bind is held: {error}")

            assert answer.json()["NodeNames"] == ["a1"]
            assert not bind.done()
            road.is_open.set()
            assert await bind == ""
        finally:
            road.is_open.set()
            await program.stop()
