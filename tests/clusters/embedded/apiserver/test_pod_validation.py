"""Promises of clusters.embedded.apiserver.pod_validation: the errors that a user sees, with the path of the field."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.resources import PODS
from tests.clusters.embedded.apiserver.samples import Object, new_writes, pod, refused

GPU = "aliyun.com/gpu-mem"
WHERE = "spec.containers[0].resources"


def told(body: Object) -> str:
    """The texts of the refusal."""
    return refused(422, lambda: new_writes().create(PODS, "default", body)).message


@pytest.mark.parametrize("amount", ["1.5", "500m", 0.5])
def test_vendors_resources_are_whole(amount: Any) -> None:
    """Half a unit is refused at the field that the user wrote."""
    assert f"{WHERE}.limits[{GPU}]: Invalid value: " in told(pod(limits={GPU: amount}))
    assert "must be an integer" in told(pod(limits={GPU: amount}))


def container(**resources: Object) -> Object:
    """A pod with a container of exactly these resources."""
    body = pod()
    body["spec"]["containers"][0]["resources"] = resources
    return body


def test_vendors_resources_are_never_over_committed() -> None:
    """Requests equal limits; a request alone is refused."""
    assert f'{WHERE}.requests: Invalid value: "1": must be equal to {GPU} limit of 2' in told(
        container(limits={GPU: 2}, requests={GPU: 1})
    )
    assert f"{WHERE}.limits: Required value: Limit must be set for non overcommitable resources" in told(
        container(requests={GPU: 1})
    )
    assert "must be less than or equal to cpu limit of 1" in told(container(limits={"cpu": 1}, requests={"cpu": 2}))


def test_limits_are_requested_where_nothing_else_is() -> None:
    """A limit is also the request if none is given, and both are stored in canonical form."""
    stored = new_writes().create(PODS, "default", pod(limits={GPU: "10000", "memory": "2048Ki"}))
    resources = stored.item["spec"]["containers"][0]["resources"]

    assert resources == {"limits": {GPU: "10k", "memory": "2Mi"}, "requests": {GPU: "10k", "memory": "2Mi"}}


def changed(**spec: Any) -> Object:
    """A pod with other fields in its spec."""
    body = pod()
    body["spec"] |= spec
    return body


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (changed(containers=[]), "spec.containers: Required value"),
        (changed(containers=[{"image": "i"}]), "spec.containers[0].name: Required value"),
        (changed(initContainers=[{"name": "main", "image": "i"}]), "spec.initContainers[0].name: Duplicate value"),
        (changed(nodeName="N!"), "spec.nodeName: Invalid value"),
        (pod(limits={"gpu": 1}), "spec.containers[0].resources.limits[gpu]: Invalid value"),
        (pod("Upper"), 'metadata.name: Invalid value: "Upper"'),
    ],
)
def test_an_invalid_pod_is_refused_with_the_field(body: Object, text: str) -> None:
    """The refusal of an invalid pod names the field; the folder e2e/parity has every rule."""
    assert text in told(body)


def test_all_errors_are_in_one_answer() -> None:
    """The refusal holds all errors, each as a cause with its field."""
    body = changed(containers=[{"name": "c"}, {"image": "i"}])
    refusal = refused(422, lambda: new_writes().create(PODS, "default", body))

    assert refusal.details is not None
    fields = [cause["field"] for cause in refusal.details["causes"]]
    assert fields == ["spec.containers[0].image", "spec.containers[1].name"]
    assert refusal.message.startswith('Pod "p" is invalid: [spec.containers[0].image: ')


def test_a_pods_spec_hardly_changes() -> None:
    """An image may change, a node may not; e2e/parity has every field."""
    writes = new_writes()
    writes.create(PODS, "default", pod())

    def change(**spec: Any) -> Any:
        return writes.patch(PODS, "default", "p", lambda item: {**item, "spec": {**item["spec"], **spec}}).item["spec"]

    container = {**writes.get(PODS, "default", "p").item["spec"]["containers"][0], "image": "new:2"}
    assert change(containers=[container])["containers"][0]["image"] == "new:2"
    refused(422, lambda: change(nodeName="n"))
