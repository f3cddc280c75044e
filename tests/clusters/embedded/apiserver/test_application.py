"""Promises of clusters.embedded.apiserver.application, over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from clusters.api.api_client import JSON_PATCH, MERGE_PATCH, ApiClient
from clusters.api.resources import CONFIG_MAPS, NODES, PODS
from clusters.embedded.apiserver.server import EmbeddedApi
from tests.clusters.embedded.apiserver.samples import binding, config_map, node, pod
from tests.servers import Caller, plain_http

PODS_PATH = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def http(embedded: EmbeddedApi) -> AsyncIterator[Caller]:
    """Any HTTP client."""
    async with plain_http(await embedded.start()) as connected:
        yield connected


async def test_an_object_lives_and_goes(client: ApiClient) -> None:
    """Create, read, replace, patch, list, delete."""
    created = await client.create(config_map(x="1"))
    path = CONFIG_MAPS.path("default", "c")
    assert await client.request("GET", path) == created
    replaced = await client.request("PUT", path, body={**created, "data": {"x": "2"}})
    patched = await client.patch(CONFIG_MAPS, "c", {"data": {"y": "3"}}, "default", content_type=MERGE_PATCH)
    assert (replaced["data"], patched["data"]) == ({"x": "2"}, {"x": "2", "y": "3"})
    assert [item["metadata"]["name"] for item in await client.list(CONFIG_MAPS)] == ["c"]
    gone = await client.request("DELETE", path)
    assert (gone["status"], gone["details"]["uid"]) == ("Success", created["metadata"]["uid"])

    assert await client.list(CONFIG_MAPS) == []


async def test_a_created_object_is_201(http: Caller) -> None:
    """The answer to a creation is 201, and items of a list carry no kind, as on the real server."""
    assert (await http.post(PODS_PATH, json=pod())).status_code == 201
    answer = (await http.get(PODS_PATH)).json()

    assert answer["kind"] == "PodList"
    assert "kind" not in answer["items"][0]


@pytest.mark.parametrize(
    ("method", "path", "content", "content_type", "code"),
    [
        ("POST", PODS_PATH, b"{", "application/json", 400),
        ("POST", PODS_PATH, b"[]", "application/json", 400),
        ("POST", PODS_PATH, b"", "application/json", 400),
        ("POST", PODS_PATH, b"\xff\xfe", "application/json", 400),
        ("POST", PODS_PATH, b'{"metadata":' * 600 + b"1" + b"}" * 600, "application/json", 422),
        ("POST", PODS_PATH, b"k8s\x00", "application/vnd.kubernetes.protobuf", 415),
        ("POST", PODS_PATH, b" " * (3 * 1024 * 1024 + 1), "application/json", 413),
        ("POST", "/api/v1/pods", b"{}", "application/json", 405),
        ("POST", PODS_PATH + "/p", b"{}", "application/json", 405),
        ("PUT", PODS_PATH, b"{}", "application/json", 405),
        ("DELETE", "/api/v1/pods", b"", "", 405),
        ("GET", PODS_PATH + "/missing", b"", "", 404),
        ("GET", "/api/v1/persistentvolumes", b"", "", 404),
        ("GET", "/api/nothing", b"", "", 404),
        ("GET", "/apis/apps/nothing", b"", "", 404),
        ("POST", PODS_PATH + "/p/log", b"{}", "application/json", 405),
        ("POST", PODS_PATH + "/there/exec", b"", "", 501),
        ("GET", PODS_PATH + "/missing/log", b"", "", 404),
        ("PATCH", PODS_PATH + "/missing", b"{}", MERGE_PATCH, 404),
        ("PATCH", PODS_PATH + "/there", b"{}", "application/apply-patch+yaml", 501),
        ("PATCH", PODS_PATH + "/there", b"[]", MERGE_PATCH, 400),
        ("PATCH", PODS_PATH + "/there", b'{"metadata":null}', MERGE_PATCH, 400),
        ("PATCH", PODS_PATH + "/there", b'{"metadata":{"labels":[1]}}', MERGE_PATCH, 422),
        ("PATCH", PODS_PATH + "/there", b'[{"op":"replace","path":"","value":1}]', JSON_PATCH, 400),
        ("PATCH", PODS_PATH + "/there", b'{"kind":"Node"}', MERGE_PATCH, 422),
        ("DELETE", PODS_PATH + "/there", b"nonsense", "application/json", 400),
        ("GET", PODS_PATH + "?watch=1&timeoutSeconds=abc", b"", "", 400),
        ("GET", PODS_PATH + "?resourceVersion=99999", b"", "", 504),
        ("GET", PODS_PATH + "?watch=1&sendInitialEvents=true", b"", "", 422),
        ("GET", PODS_PATH + "?fieldSelector=spec.image%3Dx", b"", "", 400),
        ("POST", PODS_PATH + "/there/binding", b'{"metadata":{"name":"other"},"target":{"name":"n"}}', "", 400),
        ("POST", PODS_PATH + "/there/binding", b'{"target":{"name":"n"}}', "", 400),
        ("POST", PODS_PATH + "/missing/binding", b'{"metadata":{"name":"missing"},"target":{"name":"n"}}', "", 404),
        ("POST", PODS_PATH + "/there/binding", b'{"target":"n"}', "", 400),
    ],
)
async def test_a_bad_request_is_refused_with_a_status(
    http: Caller, method: str, path: str, content: bytes, content_type: str, code: int
) -> None:
    """Whatever it is, the server lives on and nothing is lost."""
    await http.post(PODS_PATH, json=pod("there"))
    answer = await http.request(method, path, content=content, headers={"Content-Type": content_type})

    assert answer.status_code == code, answer.text
    status = answer.json()
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", code)
    assert status["reason"]
    assert status["message"]
    assert (await http.get(PODS_PATH + "/there")).json()["spec"].get("nodeName") is None


@pytest.mark.parametrize(
    ("method", "path", "content", "message"),
    [
        ("GET", "?watch=1&resourceVersion=abc", b"", 'resourceVersion: Invalid value: "abc"'),
        ("POST", "/there/binding", b'{"metadata":{"name":"there"}}', "target.name: Required value"),
        ("POST", "", b'{"metadata":{"name":"new","resourceVersion":"7"}}', "resourceVersion should not be set"),
    ],
)
async def test_few_client_mistakes_are_500_as_in_released_servers(
    http: Caller, method: str, path: str, content: bytes, message: str
) -> None:
    """A few client mistakes are answered with 500 and a Status without a reason."""
    await http.post(PODS_PATH, json=pod("there"))
    answer = await http.request(method, PODS_PATH + path, content=content)

    assert answer.status_code == 500
    assert message in answer.json()["message"]
    assert "reason" not in answer.json()


async def test_a_client_without_json_is_406(http: Caller) -> None:
    """One that would take anything gets JSON."""
    proto = {"Accept": "application/vnd.kubernetes.protobuf"}
    assert (await http.get(PODS_PATH, headers=proto)).status_code == 406
    assert (await http.get(PODS_PATH, headers={"Accept": "application/vnd.kubernetes.protobuf,*/*"})).status_code == 200


async def test_health_is_ok(http: Caller) -> None:
    """While it answers at all; other paths are no checks."""
    paths = ("/healthz", "/livez", "/readyz", "/readyz/ping", "/livez/things")
    assert [(await http.get(path)).text for path in paths] == ["ok"] * 4 + ["404 page not found\n"]


async def test_discovery_leads_to_every_kind(http: Caller) -> None:
    """The discovery leads kubectl from the groups to every kind and its short names."""
    assert (await http.get("/api")).json()["versions"] == ["v1"]
    groups = [group["name"] for group in (await http.get("/apis")).json()["groups"]]
    assert {"apps", "authorization.k8s.io", "coordination.k8s.io", "rbac.authorization.k8s.io"} <= set(groups)
    assert (await http.get("/apis/apps")).json()["preferredVersion"]["groupVersion"] == "apps/v1"
    core = (await http.get("/api/v1")).json()["resources"]
    names = {entry["name"] for entry in core}
    assert {"pods", "pods/binding", "pods/log", "pods/status", "nodes", "nodes/status", "bindings"} <= names
    apps = {entry["name"]: entry for entry in (await http.get("/apis/apps/v1")).json()["resources"]}
    assert apps["deployments"]["shortNames"] == ["deploy"]
    assert apps["deployments/scale"]["kind"] == "Scale"
    assert (await http.get("/version")).json()["major"] == "1"


async def test_a_binding_is_201_with_a_status(http: Caller) -> None:
    """The server answers a binding by either path with 201 and a Status, not with a Binding."""
    for name, path in [("a", PODS_PATH + "/a/binding"), ("b", "/api/v1/namespaces/default/bindings")]:
        await http.post(PODS_PATH, json=pod(name))
        answer = await http.post(path, json=binding(name, "n1", annotations={"k": "v"}))
        assert (answer.status_code, answer.json()["kind"], answer.json()["status"]) == (201, "Status", "Success")
        bound = (await http.get(f"{PODS_PATH}/{name}")).json()
        assert (bound["spec"]["nodeName"], bound["metadata"]["annotations"]) == ("n1", {"k": "v"})
    assert (await http.get("/api/v1/namespaces/default/bindings")).status_code == 405


async def test_an_eviction_deletes(http: Caller) -> None:
    """An eviction deletes the pod, with the options that it carries."""
    await http.post(PODS_PATH, json=pod())
    body = {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 0}}

    assert (await http.post(PODS_PATH + "/p/eviction", json=body)).status_code == 201
    assert (await http.get(PODS_PATH + "/p")).status_code == 404


async def test_a_collection_is_deleted_by_selection(client: ApiClient) -> None:
    """The answer lists what was there."""
    for name in "abc":
        await client.create({**config_map(name), "metadata": {"name": name, "labels": {"name": name}}})
    params = {"labelSelector": "name in (a,b)"}
    gone = await client.request("DELETE", CONFIG_MAPS.path("default"), params=params)

    assert [item["metadata"]["name"] for item in gone["items"]] == ["a", "b"]
    assert [item["metadata"]["name"] for item in await client.list(CONFIG_MAPS)] == ["c"]


async def test_a_thousand_nodes_and_five_thousand_pods_are_listed(embedded: EmbeddedApi, http: Caller) -> None:
    """A thousand nodes and five thousand pods are listed, filtered and paged; the time is not limited."""
    for number in range(1000):
        embedded.writes.create(NODES, "", node(f"n{number}", capacity={"cpu": "4"}))
    for number in range(5000):
        embedded.writes.create(PODS, "default", pod(f"p{number}", nodeName=f"n{number % 1000}"))

    assert len((await http.get("/api/v1/nodes")).json()["items"]) == 1000
    assert len((await http.get("/api/v1/pods")).json()["items"]) == 5000
    of_node = await http.get("/api/v1/pods", params={"fieldSelector": "spec.nodeName=n7"})
    assert len(of_node.json()["items"]) == 5
    pages = json.loads((await http.get("/api/v1/pods?limit=500")).content)
    assert pages["metadata"]["remainingItemCount"] == 4500
