"""Forms in which objects are shown: whole, or as tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusters.api.api_client import ApiClient
from clusters.api.connection import Answer

PATH = "/api/v1/namespaces"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def get(client: ApiClient, path: str, accept: str, **params: str) -> Answer:
    """The raw answer of a GET."""
    return await client.http.request("GET", path, params=params, headers={"Accept": accept})


async def test_a_list_as_a_table(client: ApiClient) -> None:
    """Columns, a row for each object with its metadata, the list's version."""
    listed: dict[str, Any] = (await get(client, PATH, "application/json")).json()
    table = (await get(client, PATH, f"{TABLE},application/json")).json()
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"] == listed["metadata"]
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Status", "Age"]
    assert table["rows"][0]["cells"][:2] == ["default", "Active"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert table["rows"][0]["object"]["metadata"] == listed["items"][0]["metadata"]


@pytest.mark.parametrize(
    ("included", "kind"), [("Object", "Namespace"), ("Metadata", "PartialObjectMetadata"), ("None", None)]
)
async def test_what_a_row_carries(client: ApiClient, included: str, kind: str | None) -> None:
    """By ``includeObject`` of the query; another word is refused."""
    table = (await get(client, f"{PATH}/default", TABLE, includeObject=included)).json()
    assert (table["rows"][0]["object"] or {}).get("kind") == kind
    assert (await get(client, PATH, TABLE, includeObject="All")).status_code == 400


async def test_an_unknown_form_is_refused_unless_there_is_another(client: ApiClient) -> None:
    """406, or the next that the client takes."""
    unknown = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    assert (await get(client, PATH, unknown)).status_code == 406
    assert (await get(client, PATH, f"{unknown},application/json")).json()["kind"] == "NamespaceList"


async def test_only_the_first_row_of_a_watch_names_the_columns(client: ApiClient) -> None:
    """Each event is a table of one row."""
    params = {"watch": "1", "timeoutSeconds": "1"}
    async with client.http.stream("GET", PATH, params=params, headers={"Accept": TABLE}) as answer:
        lines = answer.lines()
        first, second = json.loads(await anext(lines)), json.loads(await anext(lines))
    assert [event["object"]["kind"] for event in (first, second)] == ["Table", "Table"]
    assert [bool(event["object"]["columnDefinitions"]) for event in (first, second)] == [True, False]
