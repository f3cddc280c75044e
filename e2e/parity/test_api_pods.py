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


# A PUT of what was answered is no write.
_SAME: Final = put("pods/p", {"${object:0}": {}}, shows={"metadata.resourceVersion": "write 0"})
_CASES: Cases = {f"filled in: {name}": [post("pods", pod("p", spec)), _SAME] for name, spec in _SPECS.items()}
_CASES |= {f"refused, or not: {name}": [post("pods", pod("p", spec), None)] for name, spec in _REFUSED.items()}
_CASES |= {
    f"changed, or not: {name}": [post("pods", pod("p")), strategic("pods/p", change, None)]
    for name, change in _CHANGES.items()
}


@each(_CASES)
async def test_what_becomes_of_a_pod(bare: Both, asks: list[Ask]) -> None:
    """A pod is filled in alike, refused with path and reason of each wrong field, and few of its fields can change."""
    await compare(bare, *asks)


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
