"""Unknown fields and wrong types, in the words of the real server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusters.api_client import ApiClient
from clusters.connection import Answer
from clusters.embedded.apiserver.field_validation import go_text

PODS = "/api/v1/namespaces/default/configmaps"
ODD = {"metadata": {"name": "odd", "colour": "red"}, "data": {"a": "b"}, "size": 3}
UNKNOWN = 'unknown field "metadata.colour", unknown field "size"'


async def send(client: ApiClient, mode: str, body: Any = ODD) -> Answer:
    """Create a ConfigMap."""
    return await client.http.request("POST", PODS, content=json.dumps(body), params={"fieldValidation": mode})


async def test_unknown_fields_are_refused_when_the_client_is_strict(client: ApiClient) -> None:
    """All of them are named."""
    answer = await send(client, "Strict")
    start = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
    assert (answer.status_code, answer.json()["message"]) == (400, start + UNKNOWN)


@pytest.mark.parametrize(("mode", "count"), [("", 2), ("Warn", 2), ("Ignore", 0)])
async def test_unknown_fields_are_dropped(client: ApiClient, mode: str, count: int) -> None:
    """With a warning for each, unless the client wants none."""
    answer = await send(client, mode)
    assert answer.status_code == 201
    assert "size" not in answer.json()
    assert "colour" not in answer.json()["metadata"]
    assert len(answer.headers.getall("warning", [])) == count


async def test_a_warning_is_quoted(client: ApiClient) -> None:
    """As kubectl reads it."""
    assert (await send(client, "Warn")).headers.getall("warning")[1] == '299 - "unknown field \\"size\\""'


async def test_an_unknown_mode_is_refused(client: ApiClient) -> None:
    """422."""
    assert (await send(client, "Sometimes")).status_code == 422


@pytest.mark.parametrize("media", ["application/merge-patch+json", "application/strategic-merge-patch+json"])
async def test_a_patch_is_looked_at_as_well(client: ApiClient, media: str) -> None:
    """Its directives and the fields that it deletes are not unknown."""
    await send(client, "Ignore")
    body = b'{"colour":"red","nothing":null,"$retainKeys":["data"],"data":{"c":"d"}}'
    headers = {"Content-Type": media}
    strict = await client.http.request(
        "PATCH", f"{PODS}/odd", content=body, params={"fieldValidation": "Strict"}, headers=headers
    )
    assert strict.status_code == 422
    assert strict.json()["message"].endswith('strict decoding error: unknown field "colour"')


@pytest.mark.parametrize(
    ("container", "text"),
    [
        ({"name": 7}, "number into Go struct field Container.spec.containers.name of type string"),
        ({"ports": {"a": 1}}, "object into Go struct field Container.spec.containers.ports of type []v1.ContainerPort"),
        ({"stdin": "yes"}, "string into Go struct field Container.spec.containers.stdin of type bool"),
        (
            {"ports": [{"containerPort": 1.5}]},
            "number 1.5 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            {"ports": [{"containerPort": 2**40}]},
            "number 1099511627776 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        ({"command": "x"}, "string into Go struct field Container.spec.containers.command of type []string"),
        (
            {"resources": []},
            "array into Go struct field Container.spec.containers.resources of type v1.ResourceRequirements",
        ),
    ],
)
async def test_a_value_of_another_type_is_refused(client: ApiClient, container: Any, text: str) -> None:
    """The message names the field as the real server's decoder does."""
    body = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    answer = await client.http.request("POST", "/api/v1/namespaces/default/pods", content=json.dumps(body))
    start = 'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal '
    assert (answer.status_code, answer.json()["message"]) == (400, start + text)


def test_values_in_messages() -> None:
    """Keys sorted, no quotes."""
    assert go_text({"b": [1, None, True], "a": {"x": "y"}}) == "map[a:map[x:y] b:[1 <nil> true]]"
