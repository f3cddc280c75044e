"""All kinds in one document."""

from __future__ import annotations

import pytest

from clusters.embedded.apiserver.aggregated_discovery import aggregated, wanted_version
from clusters.embedded.apiserver.discovery import document

WANTED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        (f"{WANTED.format('v2')},{WANTED.format('v2beta1')},application/json", "v2"),
        (f"{WANTED.format('v3')},{WANTED.format('v2beta1')},application/json", "v2beta1"),
        (f"application/json,{WANTED.format('v2')}", ""),
        ("application/json", ""),
        ("", ""),
    ],
)
def test_the_first_version_that_there_is(accept: str, version: str) -> None:
    """A client that does not know of it gets the older documents."""
    assert wanted_version(accept) == version


def test_it_says_what_the_single_documents_say() -> None:
    """The same kinds, verbs and short names."""
    found = aggregated("/api", "v2") or {}
    resources = {one["resource"]: one for one in found["items"][0]["versions"][0]["resources"]}
    entries = (document("/api/v1", "") or {})["resources"]
    assert sorted(resources) == [entry["name"] for entry in entries if "/" not in entry["name"]]
    pods = resources["pods"]
    assert (pods["scope"], pods["shortNames"], pods["responseKind"]["kind"]) == ("Namespaced", ["po"], "Pod")
    eviction = next(one for one in pods["subresources"] if one["subresource"] == "eviction")
    assert eviction["responseKind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}


def test_every_group_is_there() -> None:
    """And other paths have none."""
    names = [item["metadata"]["name"] for item in (aggregated("/apis", "v2") or {})["items"]]
    assert {"apps", "policy", "coordination.k8s.io"} <= set(names)
    assert aggregated("/version", "v2") is None
