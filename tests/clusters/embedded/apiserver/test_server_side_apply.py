"""Server-side apply without owners."""

from __future__ import annotations

import json

import pytest

from clusters.api_client import ApiClient

PATH = "/api/v1/namespaces/default/configmaps/c"
HEADERS = {"Content-Type": "application/apply-patch+yaml"}
WHO = {"fieldManager": "me"}


async def test_it_makes_what_is_not_there_and_merges_into_what_is(client: ApiClient) -> None:
    """201, then 200; a field that the manifest leaves out stays."""
    codes = []
    for data in ({"a": "1"}, {"b": "2"}):
        body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})
        codes.append((await client.http.request("PATCH", PATH, content=body, params=WHO, headers=HEADERS)).status_code)
    assert codes == [201, 200]
    assert (await client.http.request("GET", PATH)).json()["data"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize(("body", "params", "code"), [(b"{}", {}, 422), (b"[]", WHO, 400), (b"a: [", WHO, 400)])
async def test_what_it_refuses(client: ApiClient, body: bytes, params: dict[str, str], code: int) -> None:
    """Fields without an owner, and a value that is no object."""
    assert (await client.http.request("PATCH", PATH, content=body, params=params, headers=HEADERS)).status_code == code
