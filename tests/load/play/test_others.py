"""Another extender of a run that cannot be asked."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from clusters.processes.ports import free_port
from clusters.processes.progress import Progress
from load.load_commands import CLUSTERS, CannotMeasureError
from load.play import others
from load.play.load_plan import Asked

CLUSTER = CLUSTERS / "nodes-100.yaml"


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
