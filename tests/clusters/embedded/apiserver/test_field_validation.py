"""Unknown fields and wrong types."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusters.api.api_client import ApiClient
from clusters.api.connection import Answer
from clusters.api.resources import ALL, Resource
from clusters.embedded.apiserver.field_validation import message_name, messages

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
    """Unknown fields are dropped, with a warning for each unless the client wants none."""
    answer = await send(client, mode)
    assert answer.status_code == 201
    assert "size" not in answer.json()
    assert "colour" not in answer.json()["metadata"]
    assert len(answer.headers.getall("warning", [])) == count


async def test_a_warning_is_quoted(client: ApiClient) -> None:
    """A warning has quotes around its text in the form that kubectl reads."""
    assert (await send(client, "Warn")).headers.getall("warning")[1] == '299 - "unknown field \\"size\\""'


async def test_an_unknown_mode_is_refused(client: ApiClient) -> None:
    """422."""
    assert (await send(client, "Sometimes")).status_code == 422


@pytest.mark.parametrize("media", ["application/merge-patch+json", "application/strategic-merge-patch+json"])
async def test_a_patch_is_looked_at_as_well(client: ApiClient, media: str) -> None:
    """A patch is validated, but its directives and the fields that it deletes are not unknown fields."""
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
        ({"name": 7}, "name: expected string, found 7"),
        ({"ports": {"a": 1}}, 'ports: expected a list, found {"a":1}'),
        ({"stdin": "yes"}, 'stdin: expected boolean, found "yes"'),
        ({"ports": [{"containerPort": 1.5}]}, "ports[0].containerPort: expected integer:int32, found 1.5"),
        ({"ports": [{"containerPort": 2**40}]}, "ports[0].containerPort: expected integer:int32, found 1099511627776"),
        ({"ports": [{"containerPort": True}]}, "ports[0].containerPort: expected integer:int32, found true"),
        ({"resources": {"limits": {"cpu": True}}}, "resources.limits.cpu: expected string|number, found true"),
        ({"resources": []}, "resources: expected an object, found []"),
    ],
)
async def test_a_value_of_another_type_is_refused(client: ApiClient, container: Any, text: str) -> None:
    """The message names the field, in a new object and in the result of a patch."""
    body = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    answer = await client.http.request("POST", "/api/v1/namespaces/default/pods", content=json.dumps(body))
    start = 'Pod in version "v1" cannot be handled as a Pod: spec.containers[0].'
    assert (answer.status_code, answer.json()["message"]) == (400, start + text)


async def test_a_patch_makes_no_value_of_another_type(client: ApiClient) -> None:
    """Whatever type the patch has."""
    await send(client, "Ignore")
    headers = {"Content-Type": "application/json-patch+json"}
    body = b'[{"op":"add","path":"/data/n","value":7}]'
    answer = await client.http.request("PATCH", f"{PODS}/odd", content=body, headers=headers)
    assert (answer.status_code, "data.n: expected string" in answer.json()["message"]) == (422, True)


@pytest.mark.parametrize("resource", ALL, ids=lambda resource: f"{resource.api_version}-{resource.kind}")
def test_every_kind_has_its_fields(resource: Resource) -> None:
    """No kind is served without a schema."""
    assert "metadata" in messages()[message_name(resource.api_version, resource.kind)]
