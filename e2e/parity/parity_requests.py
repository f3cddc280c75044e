"""Cases of the API server as data: the requests that both sides get, and the code that answers each.

Paths begin with the plural of a kind (``pods/p/binding``) or with a slash. References to earlier answers are those of
``histories.operations``: ``${ns}`` is the namespace of the case, ``${version:0}`` the version that the first request answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from clusters.api.resources import ALL
from e2e.parity.histories.operations import WATCH, Operation, resolve
from e2e.parity.parity_objects import JSON, JSON_PATCH, MERGE, STRATEGIC
from e2e.parity.sides import Both, Side

# Of kinds with one plural the first counts: events are those of the core group.
_KINDS: Final = {resource.plural: resource for resource in reversed(ALL)}


@dataclass(frozen=True, slots=True)
class Ask:
    """One request; ``code`` None: whatever the real server answers. ``shows``: values of its answer, by their paths (``a.0.b``)."""

    operation: Operation
    code: int | None
    shows: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


Cases = dict[str, list[Ask]]
Around = Callable[[Side], AbstractAsyncContextManager[object]]


def ask(
    method: str,
    path: str,
    code: int | None = 200,
    body: Any = None,
    *,
    content_type: str = JSON,
    shows: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    **params: str,
) -> Ask:
    """A request with any method."""
    sent = Operation(0, method, _whole(path), params=params, content_type=content_type, body=body)
    return Ask(sent, code, shows or {}, headers or {})


def get(path: str, code: int | None = 200, **more: Any) -> Ask:
    """A GET."""
    return ask("GET", path, code, **more)


def post(path: str, body: Any, code: int | None = 201, **more: Any) -> Ask:
    """A POST."""
    return ask("POST", path, code, body, **more)


def put(path: str, body: Any, code: int | None = 200, **more: Any) -> Ask:
    """A PUT."""
    return ask("PUT", path, code, body, **more)


def delete(path: str, code: int | None = 200, body: Any = None, **more: Any) -> Ask:
    """A DELETE."""
    return ask("DELETE", path, code, body, **more)


def patch(content_type: str, path: str, body: Any, code: int | None = 200, **more: Any) -> Ask:
    """A PATCH of that type."""
    return ask("PATCH", path, code, body, content_type=content_type, **more)


def merge(path: str, body: Any, code: int | None = 200, **more: Any) -> Ask:
    """A merge patch."""
    return patch(MERGE, path, body, code, **more)


def strategic(path: str, body: Any, code: int | None = 200, **more: Any) -> Ask:
    """A strategic merge patch."""
    return patch(STRATEGIC, path, body, code, **more)


def json_patch(path: str, *operations: Any, code: int | None = 200, **more: Any) -> Ask:
    """A JSON patch."""
    return patch(JSON_PATCH, path, list(operations), code, **more)


def events(path: str, since: int, **shows: Any) -> Ask:
    """The events of a collection after the version that an earlier request answered, as a list."""
    return ask(WATCH, path, resourceVersion=f"${{version:{since}}}", timeoutSeconds="1", **shows)


def each(cases: Cases) -> pytest.MarkDecorator:
    """The parameter ``asks`` of a test: a case after the other."""
    return pytest.mark.parametrize("asks", cases.values(), ids=cases)


async def compare(both: Both, *asks: Ask, around: Around | None = None, before: int = 0) -> list[Any]:
    """Send the requests to both sides; the answers, normalised. Raises AssertionError if they differ or are not as expected.

    ``around``: what is at work on a side during the requests, but for the first ones (``before``: how many).
    """
    seen: list[Any] = await both.same(lambda side: _answers(side, asks, around, before))
    for number, (wanted, (code, body, *_)) in enumerate(zip(asks, seen, strict=True)):
        assert wanted.code in (None, code), f"request {number}: {code} {body}"
        for path, value in wanted.shows.items():
            assert _at(body, path) == value, f"request {number}: {path} of {body}"
    return [body for _, body, *_ in seen]


async def _answers(side: Side, asks: tuple[Ask, ...], around: Around | None, before: int) -> list[Any]:
    """Code, body, and the headers that clients read."""
    found: list[list[Any]] = []

    def answer(number: int) -> Any:
        return found[number][1]

    async with AsyncExitStack() as stack:
        for number, one in enumerate(asks):
            if around is not None and number == before:
                await stack.enter_async_context(around(side))
            found.append(await _answer(side, resolve(one.operation, side.namespace, answer), one.headers))
    versions: list[str] = []
    return [[code, _numbered(body, versions), *told] for code, body, *told in found]


async def _answer(side: Side, sent: Operation, headers: Mapping[str, str]) -> list[Any]:
    if sent.method == WATCH:
        async with side.watch(sent.path, sent.params) as watch:
            return [200, [event async for event in watch]]
    got = await side.call(
        sent.method,
        sent.path,
        body=sent.body,
        params=sent.params,
        content_type=sent.content_type,
        headers={name: value.replace("${ns}", side.namespace) for name, value in headers.items()},
    )
    return [got.code, got.body, *(got.headers.get(name) for name in ("content-type", "retry-after"))]


def _numbered(body: Any, versions: list[str]) -> Any:
    """An object with the number of its write among all writes that the case shows in the place of its version."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(metadata, dict) or not {"uid", "resourceVersion"} <= metadata.keys():
        return body
    if (version := metadata["resourceVersion"]) not in versions:
        versions.append(version)
    return {**body, "metadata": {**metadata, "resourceVersion": f"write {versions.index(version)}"}}


def _whole(path: str) -> str:
    if path.startswith("/"):
        return path
    resource = _KINDS[path.partition("/")[0]]
    return f"{resource.root}{'/namespaces/${ns}' if resource.namespaced else ''}/{path}"


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        if isinstance(value, list):
            value = value[int(key)] if key != "names" else [one["metadata"]["name"] for one in value]
        else:
            value = (value or {}).get(key)
    return value
