"""The stand-in of the original answers as the original was recorded: status, body, and requests to the API server."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from clusters.api.connection import Answer
from e2e.reference import reference_faults
from e2e.reference.reference_api import Api
from e2e.reference.reference_binding import Binder
from e2e.reference.reference_book import Book
from e2e.reference.reference_extender import Routes, Watcher
from tests.servers import Caller, StubApi, kubeconfig, plain_http, serve

RECORDED = Path(__file__).parents[2] / "data" / "upstream"
ORIGINAL = reference_faults.dialect(reference_faults.EXTENDER)
# Bound by the recording itself.
BOUND_LATER = ("six", "sixb")


def dialogue(name: str) -> tuple[StubApi, list[dict[str, Any]]]:
    """The API server before a recorded dialogue, and its steps."""
    document = json.loads((RECORDED / "extender" / f"{name}.json").read_text())
    pods = copy.deepcopy(document["pods"])
    for pod in pods:
        if pod["metadata"]["name"] in BOUND_LATER:
            pod["metadata"]["annotations"] = {}
    return StubApi(nodes=copy.deepcopy(document["nodes"]), pods=pods), document["steps"]


@asynccontextmanager
async def extender(api: StubApi, folder: Path) -> AsyncIterator[Caller]:
    """The reference extender in the original's dialect, in this process."""
    async with serve(api) as url, Api.from_kubeconfig(Path(kubeconfig(folder, url))) as client:
        book = Book(ORIGINAL)
        watcher = Watcher(client, book)
        watching = asyncio.create_task(watcher.run())
        await watcher.is_synced.wait()
        runner = web.AppRunner(Routes(book, Binder(client, book, lambda: 1_700_000_000_000_000_000)).application())
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with plain_http(f"http://127.0.0.1:{runner.addresses[0][1]}") as http:
            yield http
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await runner.cleanup()


async def replayed(http: Caller, step: dict[str, Any]) -> Answer:
    """Ask what the recording asked."""
    asked, body = step["request"], step["request"]["body"]
    content = None if body is None else body if isinstance(body, str) else json.dumps(body)
    return await http.request(asked["method"], asked["path"], content=content)


def plain(body: Any) -> Any:
    """Without what differs between the two: a Node's empty fields, and the texts of errors."""
    if not isinstance(body, dict):
        return body
    nodes = body.get("Nodes")
    if nodes and nodes["items"]:
        body = {**body, "Nodes": [node["metadata"]["name"] for node in nodes["items"]]}
    return {key: bool(value) if key == "Error" else value for key, value in body.items()}


@pytest.mark.parametrize("name", ["filter", "malformed-filter"])
async def test_questions_are_answered_as_recorded(tmp_path: Path, name: str) -> None:
    """Filter, inspect and version: which nodes, full Nodes beside names, one map of failures, its texts."""
    api, steps = dialogue(name)
    seen = {}
    async with extender(api, tmp_path) as http:
        for step in steps:
            answer = await replayed(http, step)
            is_json = step["response"]["content_type"].startswith("application/json")
            seen[step["what"]] = (answer.status_code, plain(answer.json()) if is_json else "")
    expected = {
        step["what"]: (
            step["response"]["status"],
            plain(step["response"]["body"]) if step["response"]["content_type"].startswith("application/json") else "",
        )
        for step in steps
    }
    # A path that ends with a slash is no path here.
    for one in (seen, expected):
        one.pop("inspect all, trailing slash", None)

    assert seen == expected


@pytest.mark.parametrize("name", ["bind", "malformed-bind"])
async def test_binds_are_two_writes_and_refusals_a_500(tmp_path: Path, name: str) -> None:
    """A patch of the annotations and then the Binding; a refusal is a 500 with ``Error``; a bind done before is refused."""
    api, steps = dialogue(name)
    async with extender(api, tmp_path) as http:
        for step in steps:
            if step["request"]["path"].endswith("/version") or "inspect" in step["what"]:
                continue
            before = len(api.calls)
            answer = await replayed(http, step)
            writes = [
                (call["method"], call["path"], sorted(call["body"]["metadata"].get("annotations", {})))
                for call in api.calls[before:]
                if call["method"] != "GET"
            ]

            expected = step["response"]
            assert (answer.status_code, plain(answer.json())) == (expected["status"], plain(expected["body"])), step[
                "what"
            ]
            assert writes == [
                (call["method"], call["path"], sorted(call["body"]["metadata"].get("annotations", {})))
                for call in step["api_calls"]
                if call["method"] != "GET"
            ], step["what"]
