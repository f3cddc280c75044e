"""Promises of clusters.embedded.apiserver.pod_validation: the errors that a user sees, with the path of the field."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.resources import NODES, PODS
from tests.clusters.embedded.apiserver.samples import Object, new_writes, node, pod, refused

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


def test_amounts_are_not_negative() -> None:
    """Neither vendors' nor others."""
    text = f'{WHERE}.limits[{GPU}]: Invalid value: "-1": must be greater than or equal to 0'

    assert text in told(pod(limits={GPU: -1}))
    assert "must be greater than or equal to 0" in told(pod(limits={"cpu": "-100m"}))


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
    """And stored in canonical form."""
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
        (changed(containers=[{"name": "c"}]), "spec.containers[0].image: Required value"),
        (changed(containers=[{"name": "C_", "image": "i"}]), 'spec.containers[0].name: Invalid value: "C_"'),
        (changed(containers=[{"name": "c", "image": "i"}] * 2), 'spec.containers[1].name: Duplicate value: "c"'),
        (changed(initContainers=[{"name": "main", "image": "i"}]), "spec.initContainers[0].name: Duplicate value"),
        (changed(restartPolicy="Sometimes"), 'spec.restartPolicy: Unsupported value: "Sometimes"'),
        (changed(nodeSelector={"a b": "c"}), "spec.nodeSelector: Invalid value"),
        (changed(nodeName="N!"), "spec.nodeName: Invalid value"),
        (changed(volumes=[{"emptyDir": {}}]), "spec.volumes[0].name: Required value"),
        (
            changed(containers=[{"name": "c", "image": "i", "ports": [{"containerPort": 0}]}]),
            "containerPort: Required value",
        ),
        (changed(containers=[{"name": "c", "image": "i", "env": [{"value": "x"}]}]), "env[0].name: Required value"),
        (
            changed(containers=[{"name": "c", "image": "i", "imagePullPolicy": "X"}]),
            "imagePullPolicy: Unsupported value",
        ),
        (changed(schedulingGates=[{"name": "g"}], nodeName="n"), "cannot be set until all schedulingGates"),
        (container(limits={"gpu": 1}), "must be a standard resource for containers"),
        (pod("Upper"), 'metadata.name: Invalid value: "Upper"'),
        (pod("x" * 254), "must be no more than 253 characters"),
    ],
)
def test_an_invalid_pod_is_refused_with_the_field(body: Object, text: str) -> None:
    """In the words of the API."""
    assert text in told(body)


def test_all_errors_are_in_one_answer() -> None:
    """With their causes."""
    body = changed(containers=[{"name": "c"}, {"image": "i"}])
    refusal = refused(422, lambda: new_writes().create(PODS, "default", body))

    assert refusal.details is not None
    fields = [cause["field"] for cause in refusal.details["causes"]]
    assert fields == ["spec.containers[0].image", "spec.containers[1].name"]
    assert refusal.message.startswith('Pod "p" is invalid: [spec.containers[0].image: ')


def test_a_nodes_amounts_are_checked_too() -> None:
    """The amounts that a device plugin patches by hand."""
    refusal = refused(422, lambda: new_writes().create(NODES, "", node(capacity={"aliyun.com/gpu-count": "1500m"})))

    assert "status.capacity.aliyun.com/gpu-count" in refusal.message
