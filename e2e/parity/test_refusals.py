"""Refusals before anything is done: paths, methods, media types, bodies, sizes, versions; and history that is gone."""

from __future__ import annotations

from typing import Any, Final

import pytest

from e2e.parity.parity_objects import config_map, maps
from e2e.parity.parity_requests import compare, delete, get, post
from e2e.parity.sides import Both, Side

_LIMIT: Final = 3 * 1024 * 1024
_JSON: Final = "application/json"
_MERGE: Final = "application/merge-patch+json"
_FAR: Final = "999999999"


@pytest.mark.promise("G1-08")
async def test_paths_and_methods_that_are_not_there(both: Both) -> None:
    """A missing path is 404, a Status in known groups and else plain text, and an unknown method is 405."""
    await compare(
        both,
        get("/nothing", 404),
        get("/apis/example.com/v1/things", 404),
        get("/apis/apps/v1/things", 404),
        get("/api/v1/things", 404),
        get("pods/x/things", 404),
        get("pods/x", 404),
        post("/api/v1/pods", {}, 405),
        delete("/api/v1/pods", 405),
        post("pods/x", {}, 405),
        get("pods/x/binding", 405),
    )


_BIG: Final = b'{"metadata":{"name":"b"},"data":{"x":"' + b"x" * _LIMIT + b'"}}'
_FITS: Final = b" " * (_LIMIT - 100) + b'{"metadata":{"name":"fits"}}'
# Method, name in the path, content type or what is accepted, body; and the code.
_BODIES: Final = (
    ("POST", "", _JSON, _BIG, 413),
    ("PUT", "c", _JSON, _BIG, 413),
    ("PATCH", "c", _MERGE, _BIG, 413),
    ("GET", "c", _JSON, _BIG, 200),
    ("POST", "", _JSON, _FITS, 201),
    ("POST", "", "application/xml", b"<x/>", 415),
    ("PUT", "c", "text/plain", b"<x/>", 415),
    ("PATCH", "c", _JSON, b"<x/>", 415),
    ("GET", "c", "application/xml", None, 406),
    ("GET", "c", "application/json;as=Odd;v=v1;g=meta.k8s.io", None, 406),
    *(("POST", "", _JSON, body, 400) for body in (b"this is not JSON", b"", b"[]", b"\xff\xfe")),
    *(("POST", "", _JSON, body, 422) for body in (b"{}", b"null")),
    ("DELETE", "c", _JSON, b"this is not JSON", 400),
)


@pytest.mark.promise("G1-08")
async def test_bodies_that_cannot_be_taken(both: Both) -> None:
    """A body above 3 MiB is 413, of an unknown type 415, none of an object 400, and an answer that is not had is 406."""

    async def observe(side: Side) -> Any:
        await side.call("POST", maps(side), body=config_map("c"))
        found = []
        for method, name, media, raw, _ in _BODIES:
            named = {"accept" if raw is None else "content-type": media}
            answer = await side.call(method, maps(side, name), raw=raw, headers=named)
            # The texts of 400 and 422 are a parser's own.
            body = answer.body if answer.code in (406, 413, 415) else None
            found.append([answer.code, answer.body.get("reason"), body])
        return found

    assert [code for code, *_ in await both.same(observe)] == [code for *_, code in _BODIES]


@pytest.mark.promise("API-004", "G1-08")
async def test_versions_that_cannot_be(both: Both) -> None:
    """A version that is not reached is 504 with a time to retry, and a senseless one is refused."""
    await compare(
        both,
        post("configmaps", config_map("c")),
        get("configmaps", 504, resourceVersion=_FAR),
        get("configmaps/c", 504, resourceVersion=_FAR),
        get("configmaps", 400, resourceVersion="abc"),
        get("configmaps", 400, limit="abc"),
        get("configmaps", 400, **{"continue": "nonsense"}),
        get("configmaps", 422, resourceVersionMatch="Exact"),
        get("configmaps", 422, sendInitialEvents="true"),
        get("configmaps", 422, watch="1", sendInitialEvents="true"),
        get("configmaps", 422, watch="1", resourceVersionMatch="NotOlderThan"),
        get("configmaps", 400, watch="1", fieldSelector="spec.unknown=x"),
        get("configmaps", 400, watch="1", labelSelector="a in"),
    )
