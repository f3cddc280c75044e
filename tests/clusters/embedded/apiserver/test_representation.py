"""Forms in which objects are shown: whole, tables, metadata only."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusters.api_client import ApiClient
from clusters.connection import Answer
from clusters.embedded.apiserver.representation import clauses

PATH = "/api/v1/namespaces"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"


async def get(client: ApiClient, path: str, accept: str, **params: str) -> Answer:
    """The raw answer of a GET."""
    return await client.http.request("GET", path, params=params, headers={"Accept": accept})


def test_the_most_wanted_clause_comes_first() -> None:
    """By weight; of equals the first."""
    found = clauses("application/yaml;q=0.5, text/plain , application/json;q=0.9;as=Table")
    assert [clause.type for clause in found] == ["text/plain", "application/json", "application/yaml"]


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


@pytest.mark.parametrize(("included", "kind"), [("Object", "Namespace"), ("Metadata", "PartialObjectMetadata")])
async def test_what_a_row_carries(client: ApiClient, included: str, kind: str) -> None:
    """By ``includeObject`` of the query."""
    table = (await get(client, f"{PATH}/default", TABLE, includeObject=included)).json()
    assert table["rows"][0]["object"]["kind"] == kind


async def test_rows_without_objects(client: ApiClient) -> None:
    """``None``: the cells alone."""
    table = (await get(client, f"{PATH}/default", TABLE, includeObject="None")).json()
    assert table["rows"][0]["object"] is None


async def test_another_way_to_include_objects_is_refused(client: ApiClient) -> None:
    """400 with the text of the real server."""
    answer = await get(client, PATH, TABLE, includeObject="All")
    assert (answer.status_code, "includeObject: Invalid value" in answer.json()["message"]) == (400, True)


async def test_metadata_alone(client: ApiClient) -> None:
    """One object and a list, each asked for by its own name; the other name does not fit."""
    one = (await get(client, f"{PATH}/default", METADATA.format(""))).json()
    assert set(one) == {"kind", "apiVersion", "metadata"}
    many = (await get(client, PATH, METADATA.format("List"))).json()
    assert many["kind"] == "PartialObjectMetadataList"
    assert many["items"][0] == one
    assert (await get(client, PATH, METADATA.format(""))).status_code == 406


async def test_an_unknown_form_is_refused_unless_there_is_another(client: ApiClient) -> None:
    """406, or the next that the client takes."""
    unknown = "application/json;as=Picture;v=v1;g=meta.k8s.io"
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
