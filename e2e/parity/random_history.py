"""A history from a seed: mostly requests that clients send, and a good share of those that they should not send. Pure.

A request may name the version, the uid or the object of an earlier answer. The generator keeps a list of the objects that are
probably there, so that most requests make sense. The list may be wrong: nothing is judged by it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from e2e.parity.parity_objects import JSON_PATCH, MERGE, STRATEGIC, Object
from e2e.parity.parity_requests import Ask, delete, events, get, merge, merged, patch, post, put

_WORDS: Final = ("a", "b", "c", "d")
_OTHER_UID: Final = "11111111-2222-3333-4444-555555555555"
_CONTAINER: Final[Object] = {"name": "main", "image": "example.com/pause:1"}
_READY: Final[Object] = {"type": "Ready", "status": "True", "reason": "Tested", "message": "it is"}


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind: an object, what a new one may have besides, changes as merge patches and as operations of a JSON patch."""

    plural: str
    weight: int
    sample: Object
    new: tuple[Object, ...]
    changes: tuple[Object, ...]
    operations: tuple[tuple[Any, ...], ...] = ()
    status: tuple[Object, ...] = ()
    """Changes of the status; as merge patches and as strategic ones."""
    fields: tuple[str, ...] = ()
    """Field selectors."""

    @property
    def is_nodes(self) -> bool:
        """Nodes have no namespace: their names and a label say of which history they are."""
        return self.plural == "nodes"

    def path(self, word: str, sub: str = "") -> str:
        """The path of an object."""
        return f"{self.plural}/{self.name(word)}{sub}"

    def name(self, word: str) -> str:
        """The name that a word stands for."""
        return f"${{ns}}-{word}" if self.is_nodes else word


_PODS: Final = _Kind(
    "pods",
    10,
    {"spec": {"automountServiceAccountToken": False, "containers": [_CONTAINER]}},
    (
        {"spec": {"nodeName": "${ns}-a"}},
        {"spec": {"nodeName": "${ns}-b", "terminationGracePeriodSeconds": 5}},
        {"spec": {"schedulingGates": [{"name": "example.com/gate"}]}},
        {"spec": {"restartPolicy": "Never", "nodeSelector": {"disk": "fast"}}},
    ),
    (
        {"spec": {"containers": [{"name": "main", "image": "example.com/pause:2"}]}},
        {"spec": {"containers": [{**_CONTAINER, "command": ["x"]}]}},
        {"spec": {"containers": [{"name": "extra", "image": "x"}]}},
        {"spec": {"activeDeadlineSeconds": 60}},
        {"spec": {"nodeName": "${ns}-c"}},
        {"spec": {"schedulingGates": None}},
        {"spec": {"schedulingGates": [{"name": "example.com/more"}]}},
        {"spec": {"tolerations": [{"key": "new", "operator": "Exists"}]}},
        {"status": {"phase": "Failed"}},
    ),
    (
        ("replace", "/spec/containers/0/image", "example.com/pause:5"),
        ("test", "/spec/containers/0/name", "main"),
        ("remove", "/spec/schedulingGates"),
        ("add", "/spec/nodeName", "${ns}-a"),
        ("add", "/spec/containers/7/image", "x"),
        ("add", "/spec/tolerations/-", {"key": "z", "operator": "Exists"}),
    ),
    (
        {"phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]},
        {"phase": "Failed", "reason": "Evicted", "message": "for a test"},
        {"phase": "Succeeded"},
        {"conditions": [_READY]},
        {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}]},
        {"conditions": None},
    ),
    ("spec.nodeName=", "spec.nodeName=${ns}-a", "spec.nodeName!=${ns}-a", "status.phase=Running", "metadata.name=a"),
)
_NODES: Final = _Kind(
    "nodes",
    5,
    {
        "metadata": {"labels": {"history": "${ns}"}},
        # Admission puts it onto every new node, and only controllers take it off again.
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "example.com/thing": "2"}},
    },
    ({"spec": {"unschedulable": True}}, {"status": {"capacity": {"cpu": "1500m"}, "allocatable": {"cpu": "1"}}}),
    (
        {"spec": {"unschedulable": True}},
        {"spec": {"unschedulable": None}},
        {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}},
        {"spec": {"taints": None}},
        {"spec": {"providerID": "test://one"}},
        {"status": {"capacity": {"cpu": "8"}}},
    ),
    (
        ("add", "/spec/unschedulable", True),
        ("remove", "/spec/unschedulable"),
        ("add", "/spec/taints", [{"key": "j", "effect": "NoSchedule"}]),
    ),
    (
        {"capacity": {"example.com/thing": "7"}},
        {"capacity": {"memory": "1024Ki", "example.com/other": "2e3"}, "allocatable": {"example.com/thing": None}},
        {"capacity": {"example.com/thing": "1.5"}},
        {"conditions": [_READY, {"type": "MemoryPressure", "status": "False"}]},
        {"conditions": [{"type": "Ready", "status": "Unknown"}]},
        {"addresses": [{"type": "Hostname", "address": "h"}]},
    ),
    ("spec.unschedulable=true", "spec.unschedulable!=true", "metadata.name!=${ns}-a"),
)
_MAPS: Final = _Kind(
    "configmaps",
    4,
    {"data": {"key": "value"}},
    ({"binaryData": {"raw": "AAEC"}}, {"immutable": True}),
    ({"data": {"key": "other"}}, {"data": None}, {"immutable": True}, {"data": {"key": None, "x": "y"}}),
    (("add", "/data/j", "1"), ("remove", "/data/key"), ("replace", "/data", {"only": "this"})),
    fields=("metadata.name=a", "metadata.name!=a", "metadata.namespace=${ns}"),
)
_LEASES: Final = _Kind(
    "leases",
    2,
    {"spec": {"holderIdentity": "first", "leaseDurationSeconds": 15, "renewTime": "2001-02-03T04:05:06.700000Z"}},
    ({"spec": {"holderIdentity": ""}}, {"spec": {"leaseTransitions": 3}}),
    ({"spec": {"holderIdentity": "second"}}, {"spec": None}),
    (("replace", "/spec/holderIdentity", "third"), ("test", "/spec/holderIdentity", "first")),
    fields=("metadata.name=b",),
)
_KINDS: Final = (_PODS, _NODES, _MAPS, _LEASES)
_WEIGHTS: Final = [kind.weight for kind in _KINDS]

_LABELS: Final[tuple[Object, ...]] = ({"app": "one"}, {"app": "two", "tier": "back"}, {"number": "5"}, {"app": ""})
_METADATA: Final[tuple[Object, ...]] = (
    {"labels": {"app": "one"}},
    {"labels": {"app": "two", "tier": "back"}},
    {"labels": {"app": None}},
    {"labels": {"bad value": "x"}},
    {"annotations": {"example.com/note": "second"}},
    {"annotations": {"example.com/note": None, "example.com/new": "x"}},
    {"annotations": None},
    {"finalizers": ["example.com/hold"]},
    {"finalizers": None},
    {"name": "another"},
    {"creationTimestamp": None},
    {"generation": 99},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}]},
    {},
)
_OPERATIONS: Final[tuple[tuple[Any, ...], ...]] = (
    ("add", "/metadata/annotations/example.com~1note", "patched"),
    ("replace", "/metadata/annotations/example.com~1note", "replaced"),
    ("remove", "/metadata/annotations/example.com~1note"),
    ("test", "/metadata/annotations/example.com~1note", "first"),
    ("add", "/metadata/annotations", {"example.com/note": "fresh"}),
    ("add", "/metadata/labels/app", "one"),
    ("remove", "/metadata/labels/app"),
    ("test", "/metadata/labels/app", None),
    ("add", "/metadata/finalizers", ["example.com/hold"]),
    ("add", "/metadata/finalizers/-", "example.com/last"),
    ("remove", "/metadata/finalizers/0"),
    ("replace", "/metadata/name", "another"),
    ("test", "/metadata/namespace", "${ns}"),
    ("add", "/metadata/labels/app", 5),
)
# Directives of strategic patches; to others they are fields that there are not.
_STRATEGIC: Final[tuple[Object, ...]] = (
    {"metadata": {"labels": {"$patch": "replace", "only": "this"}}},
    {"metadata": {"annotations": {"$patch": "delete"}}},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/hold"]}},
    {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}},
    {"spec": {"$setElementOrder/containers": [{"name": "main"}], "containers": [{"name": "main", "image": "y"}]}},
)
_DELETES: Final[tuple[Object, ...]] = (
    {},
    {"gracePeriodSeconds": 0},
    {"gracePeriodSeconds": 3},
    {"gracePeriodSeconds": 60},
    {"propagationPolicy": "Background"},
    {"propagationPolicy": "Foreground"},
    {"propagationPolicy": "Orphan"},
    {"gracePeriodSeconds": 0, "propagationPolicy": "Background"},
)
_DELETE_WEIGHTS: Final = (30, 20, 8, 4, 6, 4, 3, 4)
_SELECTORS: Final = ("app=one", "app==two", "app!=one", "app in (one,two)", "app", "!app", "app=one,tier!=back", "app=")


def generate(seed: int, requests: int) -> list[Ask]:
    """The history of a seed: this number of requests, then watches of all that has happened."""
    generator = _Generator(random.Random(seed))
    for _ in range(requests):
        generator.step()
    return generator.finished()


@dataclass
class _Generator:
    """Draws requests; ``shown``: the requests that may have answered an object."""

    randomness: random.Random
    history: list[Ask] = field(default_factory=list)
    shown: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    pages: list[tuple[str, int]] = field(default_factory=list)

    def step(self) -> None:
        """One more request, or two."""
        verbs: dict[Callable[[_Kind], None], int] = {
            self._create: 24,
            self._patch: 34,
            self._put: 12,
            self._delete: 10,
            self._delete_collection: 2,
            self._bind: 7,
            self._get: 5,
            self._list: 9,
        }
        verb = self.randomness.choices(list(verbs), list(verbs.values()))[0]
        verb(self.randomness.choices(_KINDS, _WEIGHTS)[0])

    def finished(self) -> list[Ask]:
        """The history with two watches of each kind from its beginning; nodes are taken away, which all could see."""
        for kind in _KINDS:
            first = next((found[0] for (plural, _), found in self.shown.items() if plural == kind.plural), None)
            if first is not None:
                for params in (self._own(kind), self._selection(kind)):
                    self.history += [self._settled(kind), events(kind.plural, first, code=None, **params)]
        for word in _WORDS:
            path = _NODES.path(word)
            self.history += [merge(path, {"metadata": {"finalizers": None}}, None), delete(path, None)]
        return self.history

    def _chance(self, share: float) -> bool:
        return self.randomness.random() < share

    def _word(self, kind: _Kind) -> str:
        known = [word for plural, word in self.shown if plural == kind.plural]
        return self.randomness.choice(known if known and self._chance(0.9) else _WORDS)

    def _add(self, one: Ask, kind: _Kind | None = None, word: str = "") -> None:
        if kind is not None:
            self.shown.setdefault((kind.plural, word), []).append(len(self.history))
        self.history.append(one)

    def _seen(self, kind: _Kind, word: str) -> int:
        """A request that answered this object: mostly the newest, else one that may be stale."""
        found = self.shown.get((kind.plural, word), [0])
        return found[-1] if self._chance(0.7) else self.randomness.choice(found)

    def _dry(self) -> dict[str, str]:
        return {"dryRun": "All"} if self._chance(0.03) else {}

    def _condition(self, seen: int) -> Object:
        """A demand on what a write changes: a version or a uid, right or wrong."""
        right = ({"resourceVersion": f"${{version:{seen}}}"}, {"uid": f"${{uid:{seen}}}"})
        return dict(self.randomness.choice((*right, *right, {"resourceVersion": "1"}, {"uid": _OTHER_UID})))

    def _change(self, kind: _Kind, sub: str) -> Object:
        change: Object = {}
        if sub and self._chance(0.85):
            change = {"status": self.randomness.choice(kind.status)}
        elif self._chance(0.55):
            change = self.randomness.choice(kind.changes)
        if not change or self._chance(0.3):
            change = {**change, "metadata": dict(self.randomness.choice(_METADATA))}
        return change

    def _sub(self, kind: _Kind) -> str:
        return "/status" if kind.status and self._chance(0.4) else ""

    def _create(self, kind: _Kind) -> None:
        word = self.randomness.choice(_WORDS)
        metadata: Object = {"name": kind.name(word)}
        if self._chance(0.6):
            metadata["labels"] = self.randomness.choice(_LABELS)
        if self._chance(0.12):
            metadata["finalizers"] = ["example.com/hold"]
        body = merged(kind.sample, {"metadata": metadata})
        if self._chance(0.5):
            body = merged(body, self.randomness.choice(kind.new))
        self._add(post(kind.plural, body, None, **self._dry()), kind, word)

    def _put(self, kind: _Kind) -> None:
        word, sub = self._word(kind), self._sub(kind)
        change = self._change(kind, sub)
        if self._chance(0.4):
            demands = ({"resourceVersion": None}, {"uid": None}, {"resourceVersion": "1"}, {"uid": _OTHER_UID})
            change = merged(change, {"metadata": self.randomness.choice(demands)})
        body = {f"${{object:{self._seen(kind, word)}}}": change}
        self._add(put(kind.path(word, sub), body, None, **self._dry()), kind, word)

    def _patch(self, kind: _Kind) -> None:
        word, sub = self._word(kind), self._sub(kind)
        content_type = self.randomness.choice((JSON_PATCH, MERGE, STRATEGIC))
        demand = self._condition(self._seen(kind, word)) if self._chance(0.15) else {}
        body: Any
        if content_type == JSON_PATCH:
            wanted = [(self.randomness.choice(("test", "replace")), f"/metadata/{key}", demand[key]) for key in demand]
            choices = (*_OPERATIONS, *kind.operations, *kind.operations)
            wanted += [self.randomness.choice(choices) for _ in range(self.randomness.choice((1, 1, 2, 3)))]
            body = [dict(zip(("op", "path", "value"), one, strict=False)) for one in wanted]
        else:
            directed = content_type == STRATEGIC and self._chance(0.3)
            body = (
                self.randomness.choice(_STRATEGIC[: 5 if kind == _PODS else 3]) if directed else self._change(kind, sub)
            )
            body = merged(body, {"metadata": demand}) if demand else body
        self._add(patch(content_type, kind.path(word, sub), body, None, **self._dry()), kind, word)

    def _delete(self, kind: _Kind) -> None:
        word = self._word(kind)
        options: Object = self.randomness.choices(_DELETES, _DELETE_WEIGHTS)[0]
        if self._chance(0.25):
            options = {**options, "preconditions": self._condition(self._seen(kind, word))}
        self._add(delete(kind.path(word), None, options or None, **self._dry()), kind, word)

    def _delete_collection(self, kind: _Kind) -> None:
        params = {"labelSelector": "history=${ns},tier=back"} if kind.is_nodes else self._selection(kind)
        self._add(delete(kind.plural, None, {"gracePeriodSeconds": 0} if self._chance(0.5) else None, **params))

    def _bind(self, _: _Kind) -> None:
        word = self._word(_PODS)
        metadata: Object = {"name": word, "annotations": {"example.com/note": "bound"}} if self._chance(0.5) else {}
        demand = self._condition(self._seen(_PODS, word)) if self._chance(0.3) else {}
        body = {"metadata": {"name": word, **metadata, **demand}, "target": {"kind": "Node", "name": "${ns}-a"}}
        self._add(post(_PODS.path(word, "/binding"), body, None, **self._dry()))

    def _get(self, kind: _Kind) -> None:
        word = self._word(kind)
        if self._chance(0.2):
            self._add(self._settled(kind))
            self._add(get(kind.path(word), None, resourceVersion="0"), kind, word)
        else:
            self._add(get(kind.path(word), None), kind, word)

    def _list(self, kind: _Kind) -> None:
        if self.pages and self._chance(0.25):
            plural, page = self.randomness.choice(self.pages)
            self._add(get(plural, None, limit="2", **{"continue": f"${{continue:{page}}}"}))
            return
        params = self._selection(kind) if self._chance(0.6) else self._own(kind)
        versions = [at for (plural, _), found in self.shown.items() if plural == kind.plural for at in found]
        if versions and self._chance(0.3):
            params["resourceVersion"] = f"${{version:{self.randomness.choice(versions)}}}"
            params["resourceVersionMatch"] = self.randomness.choice(("Exact", "NotOlderThan"))
            self._add(self._settled(kind))
        elif not kind.is_nodes and self._chance(0.3):
            # Pages of nodes would show how many there are of others.
            params["limit"] = "2"
            self.pages.append((kind.plural, len(self.history)))
        self._add(get(kind.plural, None, **params))

    def _settled(self, kind: _Kind) -> Ask:
        """A list of no version, before what the real server answers from its cache: it lets the cache catch up."""
        return get(kind.plural, 200, labelSelector="in=nothing")

    def _own(self, kind: _Kind) -> dict[str, str]:
        return {"labelSelector": "history=${ns}"} if kind.is_nodes else {}

    def _selection(self, kind: _Kind) -> dict[str, str]:
        params = self._own(kind)
        if self._chance(0.6):
            params["labelSelector"] = ",".join([*params.values(), self.randomness.choice(_SELECTORS)])
        if self._chance(0.5):
            params["fieldSelector"] = self.randomness.choice(kind.fields)
        return params
