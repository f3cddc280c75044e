"""Promises of clusters.embedded.apiserver.discovery: OpenAPI v3, as far as kubectl asks for it."""

from __future__ import annotations

import json

from clusters.api.resources import ALL, PODS
from clusters.embedded.apiserver.discovery import PREFIX, VERSION_2, openapi


def test_the_index_names_every_group() -> None:
    """The index has every group, each with a hash so that clients may keep a copy."""
    found = json.loads(openapi(PREFIX) or b"")["paths"]
    assert set(found) == {resource.root.strip("/") for resource in ALL}
    assert all("?hash=" in one["serverRelativeURL"] for one in found.values())


def test_a_document_has_what_kubectl_looks_up() -> None:
    """The PATCH of a kind with its queries; no strategic patch, as there are no schemas to merge by."""
    document = json.loads(openapi(f"{PREFIX}/api/v1") or b"")
    patch = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": PODS.kind}
    assert "fieldValidation" in [one["name"] for one in patch["parameters"]]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]


def test_other_paths_are_not_ours() -> None:
    """Version 2 is an empty document, anything else is none."""
    assert openapi(VERSION_2) == b""
    assert openapi(f"{PREFIX}/apis/example.com/v1") is None
    assert openapi("/api") is None
