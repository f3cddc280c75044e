"""Pods: what is filled in, what is refused, what can change, and their status apart."""

from __future__ import annotations

from typing import Any, Final

import pytest

from e2e.parity.parity_objects import MEMORY, container, pod, pods, short
from e2e.parity.parity_requests import Ask, Cases, compare, each, get, merge, post, put, strategic
from e2e.parity.sides import Both, Side


def with_resources(limits: Any = None, requests: Any = None) -> dict[str, Any]:
    """The spec of a pod with a container that asks for this amount."""
    resources = {key: value for key, value in (("limits", limits), ("requests", requests)) if value is not None}
    return {"containers": [container(resources=resources)]}


_SPECS: dict[str, dict[str, Any]] = {
    "minimal": {},
    "latest": {
        "containers": [container(image="a"), container("b", "a:latest"), container("c", "a@sha256:" + "0" * 64)]
    },
    "init": {"initContainers": [container("i"), container("s", restartPolicy="Always")]},
    "tolerations": {"tolerations": [{"key": "a", "operator": "Exists"}, {"operator": "Exists", "effect": "NoExecute"}]},
    "gates": {"schedulingGates": [{"name": "example.com/a"}, {"name": "example.com/b"}]},
    "amounts": with_resources({"cpu": "0.5", "memory": "1024Ki", MEMORY: "10000"}, {"cpu": "1e-1", "memory": "1e3"}),
    "extended": with_resources({MEMORY: "1e3", "nvidia.com/gpu": 1}),
    "limits only": {
        "containers": [
            container(resources={"limits": {"cpu": "1"}}),
            container("b", resources={"requests": {"memory": "5M"}}),
        ]
    },
}


@pytest.mark.parametrize("name", _SPECS)
async def test_what_is_filled_in(bare: Both, name: str) -> None:
    """A created pod is equal on both sides, and a PUT of it is no write."""
    same = put("pods/p", {"${object:0}": {}}, shows={"metadata.resourceVersion": "write 0"})
    await compare(bare, post("pods", pod("p", _SPECS[name])), same)


_WRONG: dict[str, dict[str, Any]] = {
    "no containers": {"containers": []},
    "no name": {"containers": [{"image": "a"}]},
    "no image": {"containers": [{"name": "a"}]},
    "bad name": {"containers": [container("A_b")]},
    "same names": {"containers": [container("a"), container("a")]},
    "pull policy": {"containers": [container(imagePullPolicy="Sometimes")]},
    "restart policy": {"restartPolicy": "Maybe"},
    "port": {"containers": [container(ports=[{"containerPort": 0}, {"containerPort": 70000}])]},
    # One of a map at a time: the real one names several in whatever order.
    "node selector key": {"nodeSelector": {"bad key": "v"}},
    "node name": {"nodeName": "Bad_Name"},
    "toleration effect": {"tolerations": [{"key": "a", "operator": "Exists", "effect": "Never"}]},
    "volume name": {"volumes": [{"name": "A_b", "emptyDir": {}}, {"emptyDir": {}}]},
    "mount of nothing": {"containers": [container(volumeMounts=[{"name": "none", "mountPath": "/x"}])]},
    "account": {"serviceAccountName": "missing"},
    "priority": {"priority": 7},
}
_AMOUNTS: dict[str, tuple[Any, Any]] = {
    "extended: request alone": (None, {MEMORY: "1"}),
    "extended: request below limit": ({MEMORY: "2"}, {MEMORY: "1"}),
    "extended: fraction": ({MEMORY: "1.5"}, None),
    "extended: negative": ({MEMORY: "-1"}, None),
    "extended: zero": ({MEMORY: "0"}, None),
    "extended: no number": ({MEMORY: "many"}, None),
    "extended: bad name": ({"bad name/x": "1"}, None),
    "kubernetes.io": ({"kubernetes.io/x": "1"}, None),
    "native: unknown": ({"gpu": "1"}, None),
    "native: request above limit": ({"cpu": "1"}, {"cpu": "2"}),
    "native: negative": (None, {"memory": "-1"}),
    "native: fraction of a byte": (None, {"memory": "500m"}),
    "native: unit": ({"memory": "1GB"}, None),
}
_QUANTITIES: Final = (
    *("10k", "0.5", "1Ki", "1e3", "100m", "1000m", "0", "1024Mi", "1023Mi", "1M", "1000000", "1n", "1.25k", "1000Ki"),
)
_REFUSED: Final = (
    _WRONG
    | {name: with_resources(*amounts) for name, amounts in _AMOUNTS.items()}
    | {text: with_resources(None, {"cpu": text, "memory": text}) for text in _QUANTITIES}
)


@pytest.mark.parametrize("name", _REFUSED)
async def test_what_is_refused(bare: Both, name: str) -> None:
    """A pod is refused with path and reason of each wrong field, such as a fraction of a vendor's resource."""
    await compare(bare, post("pods", pod("p", _REFUSED[name]), None))


_CHANGES: dict[str, Any] = {
    "image": {"spec": {"containers": [{"name": "main", "image": "new:1"}]}},
    "command": {"spec": {"containers": [{"name": "main", "command": ["x"]}]}},
    "add container": {"spec": {"containers": [{"name": "new", "image": "new:1"}]}},
    "node name": {"spec": {"nodeName": "n1"}},
    "node selector": {"spec": {"nodeSelector": {"a": "b"}}},
    "more tolerations": {"spec": {"tolerations": [{"key": "new", "operator": "Exists"}]}},
    "deadline": {"spec": {"activeDeadlineSeconds": 5}},
    "gates": {"spec": {"schedulingGates": [{"name": "example.com/new"}]}},
    "bad image": {"spec": {"containers": [{"name": "main", "image": ""}]}},
    "labels": {"metadata": {"labels": {"a": "b"}}},
}


@pytest.mark.parametrize("name", _CHANGES)
async def test_what_can_change(bare: Both, name: str) -> None:
    """A pod's images, deadline, further tolerations and metadata can change, and all else is 422."""
    await compare(bare, post("pods", pod("p")), strategic("pods/p", _CHANGES[name], None))


_TIME: Final = "2026-01-01T00:00:00Z"
_RUNNING: Final = {
    "phase": "Running",
    "startTime": _TIME,
    "hostIP": "10.0.0.1",
    "hostIPs": [{"ip": "10.0.0.1"}],
    "podIP": "10.1.0.1",
    "podIPs": [{"ip": "10.1.0.1"}],
    "qosClass": "BestEffort",
    "observedGeneration": 1,
    "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": _TIME, "observedGeneration": 1},
        {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": _TIME},
    ],
    "containerStatuses": [
        {
            "name": "main",
            "image": "busybox:1.36",
            "imageID": "x",
            "containerID": "c://1",
            "ready": True,
            "restartCount": 0,
            "started": True,
            "state": {"running": {"startedAt": _TIME}},
            "lastState": {},
        }
    ],
}
_EVERYTHING: Final = {
    "metadata": {"annotations": {"a": "1"}, "labels": {"l": "1"}},
    "spec": {"activeDeadlineSeconds": 7},
    "status": {"phase": "Running", "message": "m"},
}
_OTHER: Final = {"spec": {"containers": [container("wholly", "other")]}, "status": {"phase": "Running"}}
_STATUS: Final[Cases] = {
    "through /status only the status, through the pod only the rest": [
        post("pods", pod("p")),
        merge("pods/p/status", _EVERYTHING, shows={"status.phase": "Running", "spec.activeDeadlineSeconds": None}),
        merge("pods/p", _EVERYTHING, shows={"spec.activeDeadlineSeconds": 7}),
        get("pods/p/status", shows={"metadata.resourceVersion": "write 2"}),
    ],
    "conditions, container statuses and times come back as a kubelet sends them": [
        post("pods", pod("p", {"nodeName": "n1"})),
        strategic("pods/p/status", {"status": _RUNNING}),
        merge("pods/p/status", {"status": {"phase": "Odd"}}, None),
        merge("pods/p/status", {"status": None}, None),
    ],
    "a PUT with a version is fenced, the rest of the body is not looked at": [
        post("pods", pod("p")),
        put("pods/p/status", {"${object:0}": _OTHER}),
        put("pods/p/status", {"${object:0}": _OTHER}, 409),
        put("pods/p/status", {"${object:0}": {**_OTHER, "metadata": {"resourceVersion": None}}}),
    ],
}


@pytest.mark.promise("G1-11")
@each(_STATUS)
async def test_a_status_is_written_apart(bare: Both, asks: list[Ask]) -> None:
    """A pod's status and the rest of it are each written through their own path."""
    await compare(bare, *asks)


async def test_fields_that_a_pod_does_not_have(bare: Both) -> None:
    """Unknown fields are dropped, dropped with a warning, or refused, as fieldValidation demands."""

    async def observe(side: Side) -> Any:
        body = pod("p", {"unknown": 1, "containers": [{"name": "main", "image": "a:1", "odd": True}]})
        found = []
        for mode in ("Ignore", "Warn", "Strict"):
            name = mode.lower()
            sent = {**body, "metadata": {"name": name}}
            answer = await side.call("POST", pods(side), body=sent, params={"fieldValidation": mode})
            found.append([*short(answer), answer.headers.get("warning")])
        return found

    assert [code for code, *_ in await bare.same(observe)] == [201, 201, 400]
