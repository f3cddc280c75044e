"""Another extender of a run that cannot be asked."""

from __future__ import annotations

import asyncio
import re
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from itertools import count
from pathlib import Path

import pytest
from aiohttp import web

from clusters.api.certificates import Authority
from clusters.processes.ports import free_port
from clusters.processes.progress import Progress
from load.load_commands import CLUSTERS, CannotMeasureError
from load.play import others
from load.play.load_plan import Asked
from tests.passing_time import pass_time_until

CLUSTER = CLUSTERS / "nodes-100.yaml"


async def test_an_extender_without_a_listener_is_reported() -> None:
    """After a while in which a user might start it."""
    asked = asyncio.Event()
    asked.set()

    assert "it cannot be reached: " in await why_it_does_not_follow(
        Asked("it", f"http://127.0.0.1:{free_port()}"), asked
    )


@asynccontextmanager
async def answering(answer: Callable[[], web.StreamResponse]) -> AsyncIterator[Asked]:
    """An extender that gives this answer to every question."""

    async def handle(request: web.Request) -> web.StreamResponse:
        await request.read()
        return answer()

    application, port = web.Application(), free_port()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield Asked("it", f"http://127.0.0.1:{port}/path")
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            lambda: web.Response(status=307, headers={"Location": "/other"}),
            "answered 307 Temporary Redirect, which begins ''",
        ),
        (lambda: web.Response(status=404, text="no such path"), "answered 404 Not Found, which begins 'no such path'"),
        (lambda: web.Response(text="<html>"), "answered 200 OK, which begins '<html>': no ExtenderFilterResult: "),
        (lambda: web.json_response({"NodeNames": ["x"]}), "answered 200 OK, .*: names nodes twice, or nodes that"),
    ],
    ids=["redirect", "nothing-there", "page", "other-nodes"],
)
async def test_an_answer_that_stays_wrong_is_shown(answer: Callable[[], web.Response], text: str) -> None:
    """The error has the question, the answer and the flags to change, and comes without a second attempt."""
    message = f"it: POST http://127.0.0.1:[0-9]+/path/filter {text}.*; --path and --verbs say where its verbs are"
    async with answering(answer) as it:
        with Progress("load", "", sys.stderr) as progress, pytest.raises(CannotMeasureError, match=message):
            await others.until_it_follows(it, CLUSTER, progress)


async def why_it_does_not_follow(it: Asked, asked: asyncio.Event) -> str:
    """The error in the end, once the extender has been asked."""
    with Progress("load", "", sys.stderr) as progress:
        waiting = asyncio.create_task(others.until_it_follows(it, CLUSTER, progress))
        await asked.wait()
        await pass_time_until(waiting.done)
    with pytest.raises(CannotMeasureError) as caught:
        await waiting
    return str(caught.value)


async def test_an_error_in_the_answer_is_shown_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in an answer may pass, so the question is asked again for a while."""
    monkeypatch.setattr(others, "ANSWER_SECONDS", 1000.0)
    questions, twice = count(1), asyncio.Event()

    def answer() -> web.Response:
        if next(questions) > 1:
            twice.set()
        return web.json_response({"Error": "the database is down"})

    async with answering(answer) as it:
        text = await why_it_does_not_follow(it, twice)

    assert re.search(
        "does not know the 100 nodes .*: POST .*/path/filter answered 200 OK, .*: the database is down", text
    )


async def test_an_extender_that_never_answers_is_named() -> None:
    """A question has a limit of its own, which the error shows."""
    connected = asyncio.Event()

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        with closing(writer):
            await reader.read()

    async with await asyncio.start_server(never, "127.0.0.1", 0) as server:
        it = Asked("it", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        text = await why_it_does_not_follow(it, connected)

    assert text.endswith("no answer in 30 s")


async def test_a_certificate_that_is_refused_is_reported_first(tmp_path: Path) -> None:
    """One of an authority that is not trusted here; no wait makes it better."""
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
            await others.until_it_follows(Asked("it", f"https://127.0.0.1:{port}"), CLUSTER, progress)
    finally:
        await runner.cleanup()
