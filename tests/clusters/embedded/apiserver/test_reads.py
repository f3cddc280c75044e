"""Promises of clusters.embedded.apiserver.reads: lists, pages, versions."""

from __future__ import annotations

import json
from typing import Any

from clusters.api.resources import CONFIG_MAPS
from clusters.embedded.apiserver.api_routes import Route
from clusters.embedded.apiserver.deletion import DeleteOptions
from clusters.embedded.apiserver.reads import list_objects
from clusters.embedded.apiserver.requests import Request
from clusters.embedded.apiserver.writes import Writes
from tests.clusters.embedded.apiserver.samples import config_map, new_writes, refused


def listed(writes: Writes, **params: str) -> Any:
    """The decoded list."""
    request = Request("GET", "", {key.replace("_", ""): value for key, value in params.items()}, "", "", b"")
    return json.loads(list_objects(writes.store, request, Route(CONFIG_MAPS, "default")))


def names(answer: Any) -> list[str]:
    """The names of the items."""
    return [item["metadata"]["name"] for item in answer["items"]]


def filled(history: int = 1000) -> Writes:
    """A server with seven ConfigMaps."""
    writes = new_writes(history)
    for name in "gfedcba":
        writes.create(CONFIG_MAPS, "default", config_map(name))
    return writes


def test_a_list_is_sorted_and_says_its_version() -> None:
    """Where a watch goes on."""
    writes = filled()
    answer = listed(writes)

    assert (answer["kind"], answer["apiVersion"]) == ("ConfigMapList", "v1")
    assert names(answer) == list("abcdefg")
    assert answer["metadata"] == {"resourceVersion": str(writes.store.version)}


def test_pages_show_one_version_whatever_happens_between_them() -> None:
    """An object deleted after the first page is on the second; one created then is not."""
    writes = filled()
    first = listed(writes, limit="3")
    assert (names(first), first["metadata"]["remainingItemCount"]) == (["a", "b", "c"], 4)
    writes.delete(CONFIG_MAPS, "default", "d", DeleteOptions())
    writes.create(CONFIG_MAPS, "default", config_map("dd"))
    second = listed(writes, limit="3", **{"continue": first["metadata"]["continue"]})
    third = listed(writes, limit="3", **{"continue": second["metadata"]["continue"]})

    assert names(second) + names(third) == ["d", "e", "f", "g"]
    assert "continue" not in third["metadata"]
    assert third["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_page_that_is_too_old_is_410_with_a_token_that_goes_on() -> None:
    """In the newest state."""
    writes = filled(history=3)
    first = listed(writes, limit="3")
    for number in range(5):
        writes.create(CONFIG_MAPS, "default", config_map(f"x{number}"))
    refusal = refused(410, lambda: listed(writes, **{"continue": first["metadata"]["continue"]}))

    assert names(listed(writes, **{"continue": refusal.status()["metadata"]["continue"]})) == [
        *"defg",
        *(f"x{number}" for number in range(5)),
    ]


def test_an_exact_version_is_shown_while_it_is_remembered() -> None:
    """Any older one gives the newest."""
    writes = filled(history=3)
    version = str(writes.store.version)
    writes.delete(CONFIG_MAPS, "default", "a", DeleteOptions())
    exact = listed(writes, resourceVersion=version, resourceVersionMatch="Exact")
    assert (names(exact)[0], exact["metadata"]["resourceVersion"]) == ("a", version)
    assert names(listed(writes, resourceVersion=version))[0] == "b"
    assert names(listed(writes, resourceVersion="0"))[0] == "b"
    refused(410, lambda: listed(writes, resourceVersion="1", resourceVersionMatch="Exact"))
