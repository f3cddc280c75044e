"""The content of a history's requests: new objects, patches, conditions, options; sensible ones and wrong ones. Pure.

A new object is always sensible: tables of what is refused are in the cases of its kind (``test_api_pods`` and others).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from e2e.parity.histories.history_samples import NOT_READY, Kind, Object
from e2e.parity.histories.operations import FUTURE, JSON_PATCH, merged

_NS: Final = "${ns}"
_WRONG_UID: Final = "11111111-2222-3333-4444-555555555555"

INITIAL_EVENTS: Final[tuple[dict[str, str], ...]] = (
    {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"},
    {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"},
    {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"},
    {"sendInitialEvents": "true"},
    {"resourceVersionMatch": "NotOlderThan"},
    {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
)

_LABELS: Final[tuple[Object, ...]] = ({"app": "one"}, {"app": "two", "tier": "back"}, {"number": "5"}, {"app": ""})
_ANNOTATIONS: Final[tuple[Object, ...]] = ({"example.com/note": "first"}, {"PLAIN_KEY": "1", "example.com/x": "2"})
_FINALIZERS: Final = (["example.com/hold"], ["example.com/hold", "example.com/other"])


def new_object(randomness: random.Random, kind: Kind, word: str) -> Object:
    """An object that is mostly accepted."""
    body = kind.sample(_NS, word)
    metadata = body["metadata"]
    if randomness.random() < 0.6:
        metadata["labels"] = {**metadata.get("labels", {}), **randomness.choice(_LABELS)}
    if randomness.random() < 0.4:
        metadata["annotations"] = dict(randomness.choice(_ANNOTATIONS))
    if randomness.random() < 0.12:
        metadata["finalizers"] = list(randomness.choice(_FINALIZERS))
    if randomness.random() < 0.5:
        body = merged(body, _new_body(randomness, kind))
    return body


def _new_body(randomness: random.Random, kind: Kind) -> Object:
    more = _NEW.get(kind.key)
    return randomness.choice(more) if more else {}


def _containers(**container: Any) -> list[Object]:
    return [{"name": "main", "image": "example.com/pause:1", **container}]


_NEW: Final[dict[str, tuple[Object, ...]]] = {
    "pods": (
        {"spec": {"nodeName": "${ns}-a"}},
        {"spec": {"nodeName": "${ns}-b", "terminationGracePeriodSeconds": 5}},
        {"spec": {"schedulingGates": [{"name": "example.com/gate"}]}},
        {"spec": {"schedulerName": "another", "restartPolicy": "Never"}},
        {"spec": {"containers": _containers(resources={"limits": {"example.com/thing": "1", "cpu": "0.5"}})}},
        {"spec": {"containers": _containers(resources={"requests": {"memory": "1024Mi", "cpu": "1500m"}})}},
        {"spec": {"containers": [*_containers(env=[{"name": "A", "value": "1"}]), {"name": "two", "image": "x"}]}},
        {"spec": {"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]}},
        {"spec": {"nodeSelector": {"disk": "fast"}, "hostNetwork": True}},
        {"status": {"phase": "Running"}},
    ),
    "nodes": (
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}, NOT_READY]}},
        {"status": {"capacity": {"cpu": "2000m", "example.com/thing": "3"}, "allocatable": {"cpu": "1"}}},
    ),
    "configmaps": ({"data": {"a": "1", "b": "2"}}, {"binaryData": {"raw": "AAEC"}}, {"immutable": True}),
    "leases": ({"spec": {"holderIdentity": ""}}, {"spec": {"leaseTransitions": 3}}),
    "events": ({"type": "Warning", "reason": "Other"}, {"involvedObject": {"name": "b", "kind": "Node"}}),
    "events.v1": ({"type": "Warning", "reason": "Other"}, {"regarding": {"name": "b"}}),
}

_METADATA_CHANGES: Final[tuple[Object, ...]] = (
    {"labels": {"app": "one"}},
    {"labels": {"app": "two", "tier": "back"}},
    {"labels": {"app": None}},
    {"labels": {"number": "2"}},
    {"labels": {"bad value": "x"}},
    {"annotations": {"example.com/note": "second"}},
    {"annotations": {"example.com/note": None, "example.com/new": "x"}},
    {"annotations": None},
    {"finalizers": ["example.com/hold"]},
    {"finalizers": None},
    {"finalizers": []},
    {"name": "another"},
    {"creationTimestamp": None},
    {"generation": 99},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}]},
    {},
)
# Changes of the rest of an object, as merge patches.
_SPEC_CHANGES: Final[dict[str, tuple[Object, ...]]] = {
    "pods": (
        {"spec": {"containers": _containers(image="example.com/pause:2")}},
        {"spec": {"containers": _containers(command=["x"])}},
        {"spec": {"activeDeadlineSeconds": 60}},
        {"spec": {"nodeName": "${ns}-c"}},
        {"spec": {"schedulingGates": None}},
        {"spec": {"schedulingGates": [{"name": "example.com/more"}]}},
        {"spec": {"tolerations": [{"key": "new", "operator": "Exists"}]}},
        {"spec": {"terminationGracePeriodSeconds": 1}},
        {"spec": {"nodeSelector": {"disk": "slow"}}},
        {"status": {"phase": "Failed"}},
    ),
    "nodes": (
        {"spec": {"unschedulable": True}},
        {"spec": {"unschedulable": None}},
        {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}},
        {"spec": {"providerID": "test://one"}},
        {"spec": {"podCIDR": "10.1.0.0/24"}},
        {"status": {"capacity": {"cpu": "8"}}},
    ),
    "configmaps": ({"data": {"key": "other"}}, {"data": None}, {"immutable": True}, {"data": {"key": None, "x": "y"}}),
    "leases": ({"spec": {"holderIdentity": "second"}}, {"spec": {"leaseDurationSeconds": -1}}, {"spec": None}),
    "events": ({"count": 2, "lastTimestamp": "2001-02-03T05:05:07Z"}, {"reason": "Changed"}),
    "events.v1": (
        {"series": {"count": 2, "lastObservedTime": "2001-02-03T05:05:06.000007Z"}},
        {"note": "changed"},
        {"reason": "Changed"},
    ),
}
_CONDITION: Final[Object] = {
    "type": "Ready",
    "status": "True",
    "reason": "Tested",
    "message": "it is",
    "lastTransitionTime": "2001-02-03T04:05:06Z",
}
_STATUS_CHANGES: Final[dict[str, tuple[Object, ...]]] = {
    "pods": (
        {"phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]},
        {"phase": "Failed", "reason": "Evicted", "message": "for a test"},
        {"phase": "Succeeded"},
        {"conditions": [_CONDITION]},
        {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}]},
        {"nominatedNodeName": "${ns}-b"},
        {"nominatedNodeName": None},
        {"conditions": None},
    ),
    "nodes": (
        {"capacity": {"example.com/thing": "7"}},
        {"allocatable": {"example.com/thing": None}},
        {"capacity": {"memory": "1024Ki", "example.com/other": "2e3"}},
        {"conditions": [_CONDITION]},
        {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
        {"capacity": {"example.com/thing": "1.5"}},
    ),
}


def put_change(randomness: random.Random, kind: Kind, word: str, *, status: bool) -> Object:
    """The changes of a PUT, as a merge patch of the object that was read."""
    change = _change(randomness, kind, "status" if status else "")
    if change.get("metadata", {}).get("name"):
        # Another name than that of the URL is refused immediately; seldom is enough.
        change["metadata"]["name"] = kind.name(_NS, word if randomness.random() < 0.7 else "elsewhere")
    return change


def put_conditions(randomness: random.Random) -> Object:
    """The conditions of a PUT on the object that it replaces, beside the version that was read."""
    return randomness.choices(
        ({}, {"metadata": {"resourceVersion": None}}, {"metadata": {"uid": None}}, *_CONDITIONS),
        (60, 14, 6, *([5] * len(_CONDITIONS))),
    )[0]


_CONDITIONS: Final[tuple[Object, ...]] = (
    {"metadata": {"uid": _WRONG_UID}},
    {"metadata": {"resourceVersion": FUTURE}},
    {"metadata": {"resourceVersion": "1"}},
    {"metadata": {"resourceVersion": "0"}},
    {"metadata": {"resourceVersion": "x"}},
    {"metadata": {"uid": _WRONG_UID, "resourceVersion": None}},
)


def _change(randomness: random.Random, kind: Kind, sub: str) -> Object:
    change: Object = {}
    if sub == "status" and randomness.random() < 0.85:
        change["status"] = randomness.choice(_STATUS_CHANGES[kind.key])
    elif randomness.random() < 0.55:
        change |= randomness.choice(_SPEC_CHANGES[kind.key])
    if not change or randomness.random() < 0.3:
        change["metadata"] = dict(randomness.choice(_METADATA_CHANGES))
    return change


def merge_patch(randomness: random.Random, kind: Kind, sub: str) -> Any:
    """A merge patch; now and then one that is none."""
    if randomness.random() < 0.03:
        return randomness.choice(([], "text", {"metadata": 5}, {"metadata": None}, {"spec": []}))
    return _change(randomness, kind, sub)


def strategic_patch(randomness: random.Random, kind: Kind, sub: str) -> Any:
    """A strategic merge patch: lists by key, directives."""
    own = _STRATEGIC.get(f"{kind.key}/{sub}" if sub else kind.key, ()) + _STRATEGIC_ANY
    if randomness.random() < 0.5:
        return randomness.choice(own)
    return merge_patch(randomness, kind, sub)


_STRATEGIC_ANY: Final[tuple[Object, ...]] = (
    {"metadata": {"finalizers": ["example.com/added"]}},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/hold"]}},
    {"metadata": {"labels": {"$patch": "replace", "only": "this"}}},
    {"metadata": {"annotations": {"$patch": "delete"}}},
    {"metadata": {"labels": {"$retainKeys": ["app"], "app": "one"}}},
    {"$patch": "unknown"},
    {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u2"}]}},
    {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "u2"}]}},
)
_STRATEGIC: Final[dict[str, tuple[Object, ...]]] = {
    "pods": (
        {"spec": {"containers": [{"name": "main", "image": "example.com/pause:4"}]}},
        {"spec": {"containers": [{"name": "extra", "image": "x"}]}},
        {"spec": {"containers": [{"image": "nameless"}]}},
        {"spec": {"tolerations": [{"key": "more", "operator": "Exists"}]}},
        {"spec": {"$setElementOrder/containers": [{"name": "main"}], "containers": [{"name": "main", "image": "y"}]}},
    ),
    "pods/status": (
        {"status": {"conditions": [_CONDITION]}},
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}},
        {
            "status": {
                "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Other", "status": "Unknown"}]
            }
        },
        {"status": {"$setElementOrder/conditions": [{"type": "Other"}, {"type": "Ready"}], "phase": "Running"}},
        {"status": {"conditions": [{"$patch": "replace"}, {"type": "Only", "status": "True"}]}},
    ),
    "nodes": (
        {"spec": {"taints": [{"key": "one", "effect": "NoSchedule"}]}},
        {"spec": {"taints": [{"key": "two", "effect": "NoExecute"}, {"key": "one", "effect": "NoSchedule"}]}},
        {"spec": {"taints": None}},
    ),
    "nodes/status": (
        {"status": {"conditions": [_CONDITION, {"type": "MemoryPressure", "status": "False"}]}},
        {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
        {"status": {"addresses": [{"type": "Hostname", "address": "h"}]}},
        {"status": {"capacity": {"example.com/thing": "4"}, "allocatable": {"example.com/thing": "4"}}},
        {"status": {"capacity": {"example.com/thing": None}}},
    ),
}


def json_patch(randomness: random.Random, kind: Kind, sub: str) -> Any:
    """A JSON patch of one to three operations, some of which cannot be carried out."""
    if randomness.random() < 0.03:
        return randomness.choice(({"op": "add"}, [{"op": "jump", "path": "/x"}], [5], [{"op": "add", "value": 1}], []))
    choices = _JSON_PATCH + _JSON_PATCH_KINDS.get(f"{kind.key}/{sub}" if sub else kind.key, ()) * 2
    return [dict(randomness.choice(choices)) for _ in range(randomness.choice((1, 1, 1, 2, 3)))]


def _op(op: str, path: str, *value: Any, **more: Any) -> Object:
    return {"op": op, "path": path, **({"value": value[0]} if value else {}), **more}


_JSON_PATCH: Final[tuple[Object, ...]] = (
    _op("add", "/metadata/annotations/example.com~1note", "patched"),
    _op("replace", "/metadata/annotations/example.com~1note", "replaced"),
    _op("remove", "/metadata/annotations/example.com~1note"),
    _op("test", "/metadata/annotations/example.com~1note", "first"),
    _op("add", "/metadata/annotations", {"example.com/note": "fresh"}),
    _op("add", "/metadata/labels", {"app": "two", "history": _NS}),
    _op("add", "/metadata/labels/app", "one"),
    _op("remove", "/metadata/labels/app"),
    _op("test", "/metadata/labels/app", "one"),
    _op("test", "/metadata/labels/app", None),
    _op("add", "/metadata/finalizers", ["example.com/hold"]),
    _op("add", "/metadata/finalizers/-", "example.com/last"),
    _op("add", "/metadata/finalizers/0", "example.com/first"),
    _op("remove", "/metadata/finalizers/0"),
    _op("remove", "/metadata/finalizers"),
    _op("copy", "/metadata/labels/copied", **{"from": "/metadata/labels/app"}),
    _op("move", "/metadata/labels/moved", **{"from": "/metadata/labels/app"}),
    _op("replace", "/metadata/name", "another"),
    _op("test", "/metadata/namespace", _NS),
    _op("replace", "/metadata/uid", _WRONG_UID),
    _op("add", "/metadata/labels/app", 5),
)
_JSON_PATCH_KINDS: Final[dict[str, tuple[Object, ...]]] = {
    "pods": (
        _op("replace", "/spec/containers/0/image", "example.com/pause:5"),
        _op("test", "/spec/containers/0/name", "main"),
        _op("remove", "/spec/schedulingGates"),
        _op("add", "/spec/nodeName", "${ns}-a"),
        _op("add", "/spec/containers/7/image", "x"),
        _op("add", "/spec/tolerations/-", {"key": "z", "operator": "Exists"}),
    ),
    "pods/status": (
        _op("replace", "/status/phase", "Running"),
        _op("add", "/status/conditions", [_CONDITION]),
        _op("add", "/status/conditions/-", {"type": "More", "status": "True"}),
        _op("test", "/status/phase", "Pending"),
        _op("replace", "/status", {"phase": "Failed"}),
    ),
    "nodes": (
        _op("add", "/spec/unschedulable", True),
        _op("remove", "/spec/unschedulable"),
        _op("add", "/spec/taints", [{"key": "j", "effect": "NoSchedule"}]),
    ),
    "nodes/status": (
        _op("add", "/status/capacity/example.com~1count", "4"),
        _op("replace", "/status/capacity/example.com~1thing", "9"),
        _op("remove", "/status/capacity/example.com~1thing"),
        _op("test", "/status/capacity/example.com~1thing", "2"),
        _op("add", "/status/allocatable/example.com~1count", 4),
    ),
    "configmaps": (_op("add", "/data/j", "1"), _op("remove", "/data/key"), _op("replace", "/data", {"only": "this"})),
    "leases": (_op("replace", "/spec/holderIdentity", "third"), _op("test", "/spec/holderIdentity", "first")),
}


def with_condition(randomness: random.Random, content_type: str, body: Any, seen: int) -> Any:
    """The patch with a demand on what it changes: a version or a uid, right or wrong."""
    field, value = randomness.choice(
        (
            ("resourceVersion", f"${{version:{seen}}}"),
            ("resourceVersion", f"${{version:{seen}}}"),
            ("resourceVersion", "1"),
            ("resourceVersion", "0"),
            ("uid", f"${{uid:{seen}}}"),
            ("uid", _WRONG_UID),
        )
    )
    if content_type == JSON_PATCH:
        word = randomness.choice(("test", "replace", "add"))
        return [_op(word, f"/metadata/{field}", value), *body] if isinstance(body, list) else body
    return merged(body, {"metadata": {field: value}}) if isinstance(body, dict) else body


def delete_options(randomness: random.Random, seen: int | None) -> Any:
    """The body of a DELETE: grace, preconditions, what becomes of dependents; mostly one or none of them."""
    options: Object = randomness.choices(_DELETES, _DELETE_WEIGHTS)[0]
    if seen is not None and randomness.random() < 0.25:
        options = {**options, "preconditions": _PRECONDITIONS[randomness.randrange(len(_PRECONDITIONS))](seen)}
    return options or None


_DELETES: Final[tuple[Object, ...]] = (
    {},
    {"gracePeriodSeconds": 0},
    {"gracePeriodSeconds": 3},
    {"gracePeriodSeconds": 60},
    {"gracePeriodSeconds": -1},
    {"propagationPolicy": "Background"},
    {"propagationPolicy": "Foreground"},
    {"propagationPolicy": "Orphan"},
    {"propagationPolicy": "Sideways"},
    {"orphanDependents": True},
    {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Background"},
)
_DELETE_WEIGHTS: Final = (30, 20, 8, 4, 2, 6, 4, 3, 1, 1, 4)
_PRECONDITIONS: Final[tuple[Callable[[int], Object], ...]] = (
    lambda seen: {"uid": f"${{uid:{seen}}}"},
    lambda seen: {"resourceVersion": f"${{version:{seen}}}"},
    lambda seen: {"uid": f"${{uid:{seen}}}", "resourceVersion": f"${{version:{seen}}}"},
    lambda _: {"uid": _WRONG_UID},
    lambda _: {"resourceVersion": "1"},
)


def binding(randomness: random.Random, word: str, seen: int | None) -> Object:
    """A Binding; one in three demands something or is wrong."""
    metadata: Object = {"name": word, "namespace": _NS}
    if randomness.random() < 0.5:
        metadata["annotations"] = {"example.com/note": "bound", "example.com/card": "0"}
    if seen is not None and randomness.random() < 0.3:
        metadata |= randomness.choice(
            ({"uid": f"${{uid:{seen}}}"}, {"resourceVersion": f"${{version:{seen}}}"}, {"uid": _WRONG_UID})
        )
    if randomness.random() < 0.06:
        metadata |= randomness.choice(({"name": "another"}, {"namespace": "another"}, {"labels": {"app": "bound"}}))
    target: Object = {"apiVersion": "v1", "kind": "Node", "name": "${ns}-a"}
    if randomness.random() < 0.08:
        target |= randomness.choice(({"name": ""}, {"kind": "Pod"}, {"kind": ""}, {"name": "Not_A_Name"}))
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
