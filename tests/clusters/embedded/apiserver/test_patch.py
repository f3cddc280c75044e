"""Promises of clusters.embedded.apiserver.patch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusters.embedded.apiserver.patch import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, apply
from tests.clusters.embedded.apiserver.samples import refused


def patched(content_type: str, old: dict[str, Any], patch: Any) -> dict[str, Any]:
    """The object after a patch; the object before must stay as it was."""
    before = json.dumps(old)
    new = apply(content_type, old, json.dumps(patch).encode())
    assert before == json.dumps(old)
    return new


@pytest.mark.promise("API-007")
def test_a_json_patch_reaches_keys_with_slashes() -> None:
    """`~1` in a path is a slash."""
    old = {"status": {"capacity": {"cpu": "1"}}}
    patch = [{"op": "add", "path": "/status/capacity/aliyun.com~1gpu-count", "value": "4"}]

    assert {"cpu": "1", "aliyun.com/gpu-count": "4"} == patched(JSON_PATCH, old, patch)["status"]["capacity"]


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "test", "path": "/a", "value": 2}],
        [{"op": "remove", "path": "/missing"}],
        [{"op": "add", "path": "/missing/below", "value": 1}],
        [{"op": "add", "path": "/a/b", "value": 1}],
        [{"op": "replace", "path": "/list/7", "value": 1}],
        [{"op": "add", "path": "/list/x", "value": 1}],
        [{"op": "copy", "from": "/nowhere/a", "path": "/b"}],
        [{"op": "fly", "path": "/a"}],
        [{"path": "/a"}],
        [{"op": "test", "path": "/nowhere/b", "value": None}],
    ],
    ids=str,
)
def test_an_operation_that_does_not_fit_is_422(patch: Any) -> None:
    """A failing test too."""
    refused(422, lambda: patched(JSON_PATCH, {"a": 1, "list": []}, patch))


@pytest.mark.parametrize("patch", [{"op": "add"}, ["x"], None], ids=str)
def test_what_is_no_json_patch_is_400(patch: Any) -> None:
    """A JSON patch that is not a list of operations is answered with 400."""
    refused(400, lambda: patched(JSON_PATCH, {"a": 1}, patch))


def test_too_many_operations_are_413() -> None:
    """More than 10,000."""
    operation = {"op": "test", "path": "/a", "value": 1}
    refused(413, lambda: patched(JSON_PATCH, {"a": 1}, [operation] * 10_001))

    assert patched(JSON_PATCH, {"a": 1}, [operation] * 100) == {"a": 1}


def test_a_merge_patch_creates_deletes_and_replaces() -> None:
    """RFC 7386: lists are values, null deletes, maps on the way are made."""
    old = {"a": [1, 2], "b": {"c": 1, "d": 2}}

    assert {"a": [3], "b": {"d": 2}, "m": {"n": "x"}} == patched(
        MERGE_PATCH, old, {"a": [3], "b": {"c": None}, "m": {"n": "x"}}
    )


@pytest.mark.parametrize("content_type", ["application/json", "", "text/plain"])
def test_other_patch_types_are_415(content_type: str) -> None:
    """In the words of the real server."""
    assert refused(415, lambda: apply(content_type, {}, b"{}")).message == "415: Unsupported Media Type"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"[" * 100_000])
@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_MERGE_PATCH])
def test_bodies_that_are_no_patch_are_400(content_type: str, body: bytes) -> None:
    """However deep the nonsense goes."""
    refused(400, lambda: apply(content_type, {}, body))


def test_a_strategic_patch_that_makes_no_sense_is_500() -> None:
    """A strategic patch that the library cannot understand is answered with 500, as on the real server."""
    refused(500, lambda: patched(STRATEGIC_MERGE_PATCH, {"containers": []}, {"containers": [{"image": "x"}]}))
    refused(500, lambda: patched(STRATEGIC_MERGE_PATCH, {"a": 1}, {"$retainKeys": 7}))
