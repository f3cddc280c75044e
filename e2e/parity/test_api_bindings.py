"""The binding subresource: one write that puts a pod on its node, and everything that makes it refuse."""

from __future__ import annotations

from typing import Any, Final

import pytest

from e2e.parity.parity_objects import binding, pod
from e2e.parity.parity_requests import Ask, Cases, compare, delete, each, events, get, json_patch, merge, post
from e2e.parity.sides import Both

_OTHER_UID: Final = "00000000-0000-4000-8000-000000000000"


def bind(name: str = "p", code: int | None = 201, *, node: str = "n1", url: str = "", **metadata: Any) -> Ask:
    """A Binding of a pod, posted to that pod or to another one's URL."""
    return post(f"pods/{url or name}/binding", binding(name, node, **metadata), code)


_WAITING: Final = {
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes"},
        {"type": "example.com/other", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ],
    "nominatedNodeName": "n9",
}
_GATED: Final = {"schedulingGates": [{"name": "example.com/wait"}]}


@pytest.mark.promise("API-008", "G1-09")
async def test_a_binding_is_one_write_of_node_and_metadata(bare: Both) -> None:
    """201 and a Status; a watch shows a single change with everything in it; the Binding's annotations win."""
    before = pod("p", annotations={"a": "old", "b": "stays"}, labels={"l": "1"})
    words: dict[str, Any] = {
        "annotations": {"a": "new", "aliyun.com/c": "added"},
        "labels": {"topology": "z", "l": "2"},
    }
    _, status, seen = await compare(bare, post("pods", before), bind(**words), events("pods", since=0))

    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert [event["type"] for event in seen] == ["MODIFIED"]
    assert seen[0]["object"]["metadata"]["annotations"] == {"a": "new", "b": "stays", "aliyun.com/c": "added"}
    assert seen[0]["object"]["spec"]["nodeName"] == "n1"


_CASES: Cases = {
    "PodScheduled becomes True in place, the nominated node goes": [
        post("pods", pod("p")),
        merge("pods/p/status", {"status": _WAITING}),
        bind(),
        get("pods/p", shows={"status.conditions.0.status": "True", "status.nominatedNodeName": None}),
    ],
    "a dry run is checked and not done": [
        post("pods", pod("p")),
        post("pods/p/binding", binding("p"), dryRun="All"),
        get("pods/p", shows={"spec.nodeName": None}),
    ],
    "a pod that names its node itself is as if it were bound, without a condition": [
        post("pods", pod("p", {"nodeName": "n1"}), shows={"spec.nodeName": "n1"}),
        bind(code=409),
    ],
}
_CASES |= {
    # Every later write has to pass the stored annotations.
    f"annotations are not checked: {key}": [post("pods", pod("p")), bind(annotations={key: value}), get("pods/p")]
    for key, value in (("not a key!", "x"), ("big", "x" * 262145))
}


_CASES |= {
    "a pod is bound once, to the same node too": [
        post("pods", pod("p")),
        bind(),
        bind(code=409, node="n2"),
        bind(code=409),
    ],
    "uid and version are preconditions": [
        post("pods", pod("p")),
        merge("pods/p", {"metadata": {"labels": {"a": "b"}}}),
        bind(code=409, uid=_OTHER_UID),
        bind(code=409, resourceVersion="${version:0}"),
        bind(uid="${uid:0}", resourceVersion="${version:1}"),
    ],
    "a pod that is being deleted is not bound": [
        post("pods", pod("p", finalizers=["example.com/hold"])),
        delete("pods/p"),
        bind(code=409),
    ],
    "a gated pod is not bound until its gates are gone": [
        post("pods", pod("p", _GATED), shows={"status.conditions.0.reason": "SchedulingGated"}),
        bind(code=409),
        json_patch("pods/p", {"op": "remove", "path": "/spec/schedulingGates"}),
        bind(),
    ],
    "URL and body name the same pod, which is there": [
        post("pods", pod("p")),
        bind("q", 400, url="p"),
        post("pods/p/binding", {"target": {"name": "n1"}}, 400),
        bind(code=400, namespace="elsewhere"),
        bind("missing", 404),
    ],
}
_TARGETS: Final = [
    ({}, 500),
    ({"kind": "Pod", "name": "n1"}, 500),
    # It needs no kind, and the form of the name does not matter.
    ({"name": "UPPER_case"}, 201),
]
_CASES |= {
    f"a target is a node with a name: {target}": [
        post("pods", pod("p")),
        post("pods/p/binding", {**binding("p"), "target": target}, code),
    ]
    for target, code in _TARGETS
}


@pytest.mark.promise("G1-07")
@each(_CASES)
async def test_what_a_binding_does(bare: Both, asks: list[Ask]) -> None:
    """A binding writes node, condition and annotations; 409 for a pod's state, 400 for another name, 500 for no node."""
    await compare(bare, *asks)
