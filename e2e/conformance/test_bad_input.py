"""Nonsense gets a clear answer, and the programs live on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusters.api.api_client import ApiError
from clusters.api.connection import TransportError
from clusters.targets import Target
from e2e import spec
from e2e.builders import gpu_pod
from e2e.extender.extender_under_test import refusal_in
from e2e.extender.test_strangers import DECLARED
from e2e.observer import Observer


async def still_works(observer: Observer) -> None:
    """The whole path, once more."""
    await observer.run(gpu_pod("afterwards", 1, node="a1"))
    await observer.check_right_cards("afterwards")


@pytest.mark.promise("EXT-010")
@pytest.mark.parametrize(
    "body",
    [
        "", "{not json", "[]", "null", "\x00", "{}", "7", '["Pod"]', '{"Pod":7,"PodName":7,"Node":[],"metadata":7}',
        '{"Pod":{"metadata":{"name":7}},"NodeNames":"a1","PodNamespace":{},"metadata":[],"spec":7}',
        '{"Pod":{"metadata":{"name":"p"}},"NodeNames":["a1"],"PodNa',
    ],
)  # fmt: skip
async def test_a_malformed_body_is_answered_with_an_error(observer: Observer, target: Target, body: str) -> None:
    """A status of 400 to 499, or Error: the scheduler reads that of a 200 only, a stranger reads it too."""
    with_error = {spec.FILTER: 200, spec.BIND: int(target.differences.refused_bind)}
    # An empty object is a question to a verb that takes a bare pod.
    others = [path for name, path in DECLARED.items() if name in target.claims and body != "{}"]
    for verb in (*with_error, *others):
        answer = await observer.post(verb, body)

        if not 400 <= answer.status_code < 500:
            assert verb in with_error, (verb, answer.status_code)
            assert answer.status_code in (200, with_error[verb]), verb
            assert next((text for key, text in answer.json().items() if key.lower() == "error"), ""), verb


@pytest.mark.needs("device_plugin")
@pytest.mark.promise("EXT-010")
async def test_an_object_with_a_deep_field_hides_no_other(observer: Observer) -> None:
    """An API server keeps thousands of levels of ``managedFields``, which the author of an object writes."""
    deep = '{"f:a":' * 9_900 + "{}" + "}" * 9_900
    written = {"manager": "m", "operation": "Update", "apiVersion": "policy/v1", "fieldsType": "FieldsV1"}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "deep", "managedFields": [written | {"fieldsV1": {"f:spec": "DEEP"}}]},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "none"}}},
    }
    path = f"/apis/policy/v1/namespaces/{observer.namespace}/poddisruptionbudgets"
    body = json.dumps(budget).replace('"DEEP"', deep).encode()
    answer = await observer.cluster.api.http.request(
        "POST", path, content=body, headers={"Content-Type": "application/json"}
    )
    if b'"f:a"' not in answer.content:
        pytest.skip("this API server keeps no managedFields of an author, as the embedded one")

    await still_works(observer)


@pytest.mark.promise("EXT-011", "EXT-012")
@pytest.mark.parametrize(
    "path",
    ["/nope", *(f"/inspect/{name}" for name in ("nope", "a/b", "a1%20", "%2e%2e", "a" * 5000, "å")), "/filter"],
    ids=lambda value: str(value)[:20],
)
@pytest.mark.promise("D19")
async def test_an_unknown_path_or_node_is_answered_and_not_fatal(observer: Observer, path: str) -> None:
    """Defect D19, by which the original closes the connection."""
    try:
        answer = await observer.get(observer.cluster.extender_url() + path)
    except TransportError as error:
        pytest.fail(f"no answer: {error}")

    assert 400 <= answer.status_code < 500
    assert (await observer.get(observer.cluster.extender_url() + spec.INSPECT)).status_code == 200


@pytest.mark.parametrize("units", ["1.5", "-1", "1500m", "many"])
async def test_pod_with_a_fractional_quantity_is_refused(observer: Observer, units: str) -> None:
    """The API server refuses it with the field and the value."""
    with pytest.raises(ApiError) as refused:
        await observer.create(gpu_pod("odd", units))

    assert refused.value.code in (400, 422)


@pytest.mark.parametrize("units", ["14.5", "-1"])
async def test_a_filter_for_an_odd_quantity_names_no_node(observer: Observer, units: str) -> None:
    """Asked by hand, past the API server: an error, or a refusal of the node with its card of 14 units."""
    question: dict[str, Any] = {"Pod": gpu_pod("odd", units), "Nodes": None, "NodeNames": ["a1"]}
    answer = await observer.post(spec.FILTER, json.dumps(question))

    if answer.status_code == 200:
        body = {key.lower(): value for key, value in answer.json().items()}
        assert body.get("error") or not body["nodenames"]


@pytest.mark.needs("by-hand", "device_plugin")
@pytest.mark.parametrize("index", ["-1", "one", ""])
async def test_an_annotation_that_is_no_index_is_written_again(observer: Observer, index: str) -> None:
    """A pod bound by hand that names no card at all is one without a card: it gets one that has room."""
    await observer.run(gpu_pod("forged", 1, bound_to="a1", annotations={spec.POD_INDEX: index}))

    await observer.check_all("forged")


@pytest.mark.needs("device_plugin")
@pytest.mark.promise("D04")
async def test_an_annotation_with_a_wrong_index_stops_no_other_pod(observer: Observer) -> None:
    """A pod bound by hand names a card that is not there: it is refused; others go on."""
    await observer.create(gpu_pod("forged", 1, bound_to="a1", annotations={spec.POD_INDEX: "7"}))

    await observer.reaches("forged", "Failed")
    await observer.delete("forged", 0)
    await still_works(observer)


@pytest.mark.promise("EXT-009", "EXT-021")
async def test_bind_refuses_what_is_not_there(observer: Observer, target: Target) -> None:
    """Unknown pod, unknown node, wrong uid: a reason in Error, the pod untouched."""
    await observer.create(gpu_pod("waits", 1, node="nowhere"))
    uid = (await observer.pod("waits"))["metadata"]["uid"]
    orders = [
        {"PodName": "nobody", "PodUID": "", "Node": "a1"},
        {"PodName": "waits", "PodUID": "other", "Node": "a1"},
        {"PodName": "waits", "PodUID": uid, "Node": "nope"},
    ]
    for order in orders:
        answer = await observer.post(spec.BIND, json.dumps({"PodNamespace": observer.namespace, **order}))

        assert refusal_in(answer, target), order
    assert "nodeName" not in (await observer.pod("waits"))["spec"]
