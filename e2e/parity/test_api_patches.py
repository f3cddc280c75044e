"""The patch types, and what each of them makes of an object."""

from __future__ import annotations

from typing import Any, Final

import pytest

from e2e.parity.parity_objects import JSON_PATCH, MERGE, STRATEGIC, config_map, container
from e2e.parity.parity_requests import Ask, Cases, compare, each, get, json_patch, merge, patch, post, strategic
from e2e.parity.sides import Both

_MAP: Final = config_map("c", {"a": "1"})
_UIDS: Final = ["00000000-0000-4000-8000-00000000000" + one for one in "12"]
_OWNERS: Final = [{"apiVersion": "v1", "kind": "Pod", "name": f"o{one[-1]}", "uid": one} for one in _UIDS]
_LABELS: Final = {"app": "d"}
_DEPLOYMENT: Final[dict[str, Any]] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {
                "containers": [
                    container(
                        "a",
                        env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                        ports=[{"containerPort": 80}],
                    ),
                    container("b"),
                ],
                "tolerations": [{"key": "k", "operator": "Exists"}],
            },
        },
    },
}

_CASES: Cases = {
    "a JSON patch is done in order; ~1 is a slash": [
        post("configmaps", config_map("c", {"a": "1"}, annotations={"aliyun.com/x": "1"})),
        json_patch(
            "configmaps/c",
            {"op": "test", "path": "/data/a", "value": "1"},
            {"op": "replace", "path": "/metadata/annotations/aliyun.com~1x", "value": "2"},
            {"op": "add", "path": "/metadata/labels", "value": {}},
            {"op": "add", "path": "/metadata/labels/l", "value": "v"},
            {"op": "copy", "from": "/data/a", "path": "/data/b"},
            {"op": "move", "from": "/data/a", "path": "/data/c"},
            {"op": "remove", "path": "/data/b"},
            shows={"data": {"c": "1"}, "metadata.annotations": {"aliyun.com/x": "2"}},
        ),
    ],
    "a merge patch merges and makes maps, null deletes, lists are replaced": [
        post("configmaps", config_map("c", {"a": "1", "b": "2"}, finalizers=["example.com/a", "example.com/b"])),
        merge(
            "configmaps/c",
            {
                "data": {"a": None, "c": "3"},
                "metadata": {"annotations": {"new": "x", "never": None}, "finalizers": ["example.com/c"]},
            },
            shows={"data": {"b": "2", "c": "3"}, "metadata.finalizers": ["example.com/c"]},
        ),
        merge("configmaps/c", {"data": None, "metadata": {"finalizers": None}}, shows={"data": None}),
    ],
    "a strategy that changes retains only its own keys": [
        post("deployments", _DEPLOYMENT),
        strategic(
            "deployments/d",
            {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
            shows={"spec.strategy": {"type": "Recreate"}},
        ),
    ],
    "finalizers are a set to a strategic patch": [
        post("configmaps", config_map("c", finalizers=["example.com/a"])),
        strategic("configmaps/c", {"metadata": {"finalizers": ["example.com/b", "example.com/a"]}}),
        strategic(
            "configmaps/c",
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}},
            shows={"metadata.finalizers": ["example.com/b"]},
        ),
        strategic("configmaps/c", {"metadata": {"finalizers": None}}),
    ],
    "owners are merged by their uid": [
        post("configmaps", config_map("c", ownerReferences=_OWNERS)),
        strategic(
            "configmaps/c",
            {
                "metadata": {
                    "ownerReferences": [{"uid": _UIDS[0], "controller": True}, {"uid": _UIDS[1], "$patch": "delete"}]
                }
            },
            shows={"metadata.ownerReferences.0.name": "o1"},
        ),
    ],
}
for _type in (JSON_PATCH, MERGE, STRATEGIC):
    _same: Any = {"data": {"a": "1"}}
    if _type == JSON_PATCH:
        _same = [{"op": "replace", "path": "/data/a", "value": "1"}]
    _CASES[f"a patch that changes nothing is no write: {_type}"] = [
        post("configmaps", _MAP),
        patch(_type, "configmaps/c", _same, shows={"metadata.resourceVersion": "write 0"}),
        patch(_type, "configmaps/missing", _same, 404),
    ]


_FAILING: Final[list[dict[str, Any]]] = [
    {"op": "test", "path": "/data/a", "value": "2"},
    {"op": "add", "path": "/metadata/annotations/a", "value": "below nothing"},
    {"op": "remove", "path": "/data/missing"},
    {"op": "wrong", "path": "/data/a"},
]
_CASES |= {
    f"an operation that fails is 422 and changes nothing: {at}": [
        post("configmaps", _MAP),
        json_patch("configmaps/c", {"op": "add", "path": "/data/done", "value": "x"}, operation, code=422),
        get("configmaps/c", shows={"metadata.resourceVersion": "write 0"}),
    ]
    for at, operation in enumerate(_FAILING)
}
_TEMPLATES: Final[list[dict[str, Any]]] = [
    {"containers": [{"name": "a", "$patch": "delete"}]},
    {"containers": [container("c", "other")]},
    {
        "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
        "containers": [container("c", "other")],
    },
    {"containers": [{"name": "a", "env": [{"name": "A", "$patch": "delete"}, {"name": "C", "value": "3"}]}]},
    {"containers": [{"name": "a", "ports": [{"containerPort": 81}]}]},
    {"containers": [{"name": "a", "$retainKeys": ["name", "image"], "image": "kept"}]},
    {"nodeSelector": {"a": "b", "c": None}},
]
_CASES |= {
    f"lists of a template are merged by their keys: {at}": [
        post("deployments", _DEPLOYMENT),
        strategic("deployments/d", {"spec": {"template": {"spec": spec}}}, None),
    ]
    for at, spec in enumerate(_TEMPLATES)
}
_CASES |= {
    f"names and what the server writes stay: {metadata}": [
        post("configmaps", config_map("c", {"a": "1"}, annotations={"a": "1"})),
        merge("configmaps/c", {"metadata": metadata}, None),
    ]
    for metadata in (
        *({"name": "other"}, {"namespace": "other"}, None, {"creationTimestamp": "2026-01-01T00:00:00Z"}),
        # An annotation is a text; null takes it away.
        *({"annotations": {"a": value}} for value in (7, None)),
    )
}


@pytest.mark.promise("G1-13")
@each(_CASES)
async def test_what_a_patch_does(bare: Both, asks: list[Ask]) -> None:
    """A patch merges, replaces or edits maps and lists as its type demands."""
    await compare(bare, *asks)
