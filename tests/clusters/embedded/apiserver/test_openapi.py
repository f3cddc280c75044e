"""OpenAPI v3, as far as kubectl asks for it."""

from __future__ import annotations

import json

import pytest

from clusters.embedded.apiserver.openapi import PREFIX, VERSION_2, openapi
from clusters.embedded.apiserver.schemas import message_of, messages
from clusters.resources import ALL, PODS, Resource


def test_the_index_names_every_group() -> None:
    """With a hash, so that clients may keep what they have."""
    found = json.loads(openapi(PREFIX) or b"")["paths"]
    assert set(found) == {resource.root.strip("/") for resource in ALL}
    assert all("?hash=" in one["serverRelativeURL"] for one in found.values())


@pytest.mark.parametrize("resource", ALL, ids=lambda resource: f"{resource.api_version}-{resource.kind}")
def test_every_kind_has_its_fields(resource: Resource) -> None:
    """No kind is served without a schema."""
    assert "metadata" in messages()[message_of(resource)]


def test_a_document_has_what_kubectl_looks_up() -> None:
    """The PATCH of a kind with its queries; schemas by group, version and kind; how lists are merged."""
    document = json.loads(openapi(f"{PREFIX}/api/v1") or b"")
    patch = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": PODS.kind}
    assert "fieldValidation" in [one["name"] for one in patch["parameters"]]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    containers = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"


def test_every_reference_leads_somewhere() -> None:
    """In every document."""
    for resource in ALL:
        text = (openapi(f"{PREFIX}{resource.root}") or b"").decode()
        schemas = json.loads(text)["components"]["schemas"]
        names = {part.partition('"')[0] for part in text.split('"#/components/schemas/')[1:]}
        assert names <= set(schemas)


def test_other_paths_are_not_ours() -> None:
    """Version 2 is an empty document, anything else is none."""
    assert openapi(VERSION_2) == b""
    assert openapi(f"{PREFIX}/apis/example.com/v1") is None
    assert openapi("/api") is None
