"""Whatever comes to whichever path: the right status, and the book is as it was."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from e2e import spec
from e2e.extender.extender_under_test import Caller, ExtenderUnderTest

pytestmark = pytest.mark.stand_in_only("no kubelet has a part in it")

# Below the extender's path; the others are asked of a target that declares them.
VERBS: Final = (spec.FILTER, spec.BIND)
BOOKS: Final = (spec.INSPECT, f"{spec.INSPECT}/a1")
DECLARED: Final = {"prioritize": spec.PRIORITIZE, "preempt": spec.PREEMPT, "explain": spec.EXPLAIN}
# Beside them, at the root.
PROBES: Final = ("/version", "/healthz", "/readyz")
ANONYMOUS: Final = Caller()
HUNDRED_MB: Final = 100_000_000


@pytest_asyncio.fixture(loop_scope="session")
async def book(stage: ExtenderUnderTest, name: str) -> AsyncIterator[ExtenderUnderTest]:
    """A book with something in it, which is the same in the end; and the extender goes on."""
    # A node of its own: the others may show what cases before this one found.
    await stage.node(name, 14)
    await stage.booked("there", name, 0, 3)
    await stage.used(name, 3)
    before = await stage.observer.booked()
    yield stage
    assert await stage.observer.booked() == before
    assert await stage.fits(stage.pod("p", 11), name) == [name]


def posts(stage: ExtenderUnderTest) -> tuple[str, ...]:
    """The paths to which a scheduler posts."""
    return (*VERBS, *(path for name, path in DECLARED.items() if name in stage.claims))


def gets(stage: ExtenderUnderTest) -> tuple[str, ...]:
    """The paths that are read."""
    explained = (f"{spec.EXPLAIN}/nobody/p",) if "explain" in stage.claims else ()
    return (*BOOKS, *explained, *(PROBES if "probes" in stage.claims else ()))


def of(stage: ExtenderUnderTest, path: str) -> str:
    """The address of a path below the verbs', or of one at the root."""
    url = stage.cluster.extender_url()
    if path not in PROBES:
        return url + path
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{path}"


@pytest.mark.promise("EXT-012")
async def test_a_wrong_method_is_405(book: ExtenderUnderTest) -> None:
    """On every path, whatever the method."""
    asked = [
        (path, method)
        for path in (*posts(book), *gets(book))
        for method in ("PUT", "DELETE", "PATCH", "GET" if path in posts(book) else "POST")
    ]

    assert {(path, method): await ANONYMOUS.status(of(book, path), method) for path, method in asked} == dict.fromkeys(
        asked, 405
    )


@pytest.mark.promise("EXT-011")
async def test_an_unknown_path_is_404(book: ExtenderUnderTest) -> None:
    """Whatever is asked there; some that begin as known ones do."""
    paths = ("/", "/nope", "/filter/x", "/filters", "/inspect/a/b", "/explain/x", "/explain//", "/bind%00")
    asked = [(path, method) for path in paths for method in ("GET", "POST", "DELETE")]

    assert {(path, method): await ANONYMOUS.status(of(book, path), method) for path, method in asked} == dict.fromkeys(
        asked, 404
    )


@pytest.mark.promise("EXT-010")
async def test_a_body_is_read_as_json_or_refused(book: ExtenderUnderTest, tmp_path: Path) -> None:
    """The extender reads a body of another content type as JSON, as a program in Go does, or refuses what a web page can send."""
    question = {"Pod": book.pod("p", 1), "Nodes": None, "NodeNames": ["a1"]}
    (tmp_path / "body").write_text(json.dumps(question))
    types = ("text/plain", "application/x-www-form-urlencoded", "nonsense")

    for verb in (spec.FILTER, *((spec.PRIORITIZE,) if "prioritize" in book.claims else ())):
        assert {await ANONYMOUS.status(of(book, verb), "POST", tmp_path / "body", one) for one in types} <= {200, 415}


@pytest.mark.promise("EXT-010")
async def test_a_caller_that_leaves_in_the_middle_changes_nothing(book: ExtenderUnderTest) -> None:
    """Less comes than was announced, then the connection ends; the extender does not wait for the rest."""
    for path in posts(book):
        parts = urlsplit(of(book, path))
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(f"POST {parts.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{{".encode())
        await writer.drain()
        writer.write_eof()
        # A client that has gone is owed no answer; the case waits for the end of the connection.
        await asyncio.wait_for(reader.read(), 60)
        writer.close()


@pytest.mark.promise("EXT-032")
async def test_a_body_of_a_hundred_megabytes_gets_its_status(book: ExtenderUnderTest, tmp_path: Path) -> None:
    """A body as large as a scheduler without a node cache sends of a large cluster is read whole and found to be nonsense."""
    with (tmp_path / "body").open("wb") as file:
        file.write(b'{"Pod": {"metadata": {"name": "')
        file.write(b"x" * HUNDRED_MB)

    status = await ANONYMOUS.status(of(book, spec.FILTER), "POST", tmp_path / "body")
    assert 400 <= status < 500 or status == 200
