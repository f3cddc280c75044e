"""Creating and replacing: versions, preconditions, names, leases that fence leaders, and events."""

from __future__ import annotations

from typing import Any, Final

import pytest

from e2e.parity.parity_objects import config_map, got, made, maps, patched, pod, pods
from e2e.parity.parity_requests import Ask, Cases, compare, delete, each, get, merge, post, put, strategic
from e2e.parity.sides import Both, Side

_OTHER_UID: Final = "00000000-0000-4000-8000-000000000000"
_MAP: Final = config_map("a", {"a": "1"})
_LEASE: Final = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
_SERVERS: Final[dict[str, Any]] = {
    "uid": _OTHER_UID,
    "creationTimestamp": "2020-01-01T00:00:00Z",
    "generation": 7,
    "deletionTimestamp": "2020-01-01T00:00:00Z",
    "deletionGracePeriodSeconds": 5,
    "selfLink": "/x",
}


def written(**metadata: Any) -> dict[str, Any]:
    """The ConfigMap as a writer sends it."""
    return config_map("a", {"a": "3"}, **metadata)


_CASES: Cases = {
    "a PUT of a stale version or another uid is 409, one of neither is unconditional": [
        post("configmaps", _MAP),
        merge("configmaps/a", {"data": {"a": "2"}}),
        put("configmaps/a", written(resourceVersion="${version:0}"), 409),
        put("configmaps/a", written(uid=_OTHER_UID), 409),
        put("configmaps/a", written(uid="${uid:0}")),
        put("configmaps/a", written(resourceVersion="0")),
        put("configmaps/a", written()),
        put("configmaps/a", written(resourceVersion="99999999999"), 409),
    ],
    "a PUT that changes nothing is no write": [
        post("configmaps", _MAP),
        put("configmaps/a", {"${object:0}": {}}, shows={"metadata.resourceVersion": "write 0"}),
    ],
    "a lease needs its version: two leaders cannot both renew": [
        post("leases", _LEASE),
        put("leases/l", _LEASE, 422),
        put("leases/l", {"${object:0}": {"spec": {"holderIdentity": "b"}}}),
        put("leases/l", {"${object:0}": {"spec": {"holderIdentity": "b"}}}, 409),
        put("leases/l", {"${object:0}": {"spec": {"holderIdentity": "c"}}}, 409),
    ],
    "a namespace in the body must be that of the URL, a namespace must be there": [
        post("configmaps", config_map("a", namespace="other"), 400),
        post("configmaps", config_map("a", namespace="${ns}")),
        post("/api/v1/namespaces/missing/configmaps", _MAP, 404),
        put("configmaps/a", config_map("b"), 400),
        put("configmaps/missing", config_map("missing"), 404),
        put("configmaps/a", {"data": {}}, 400),
    ],
    "a dry run answers as if it were done, and nothing is written": [
        post("configmaps", _MAP),
        post("configmaps", config_map("b"), dryRun="All"),
        put("configmaps/a", written(), dryRun="All"),
        merge("configmaps/a", {"data": {"a": "3"}}, dryRun="All"),
        delete("configmaps/a", dryRun="All"),
        post("configmaps", _MAP, 409, dryRun="All"),
        post("configmaps", config_map("b"), 422, dryRun="Some"),
        get("configmaps/a", shows={"metadata.resourceVersion": "write 0"}),
        get("configmaps/b", 404),
    ],
    "uid, times and generation are set again, a version is refused": [
        post("configmaps", config_map("a", **_SERVERS), shows={"metadata.deletionTimestamp": None}),
        post("configmaps", config_map("b", resourceVersion="7"), 500),
    ],
}


_METADATA: Final[list[dict[str, Any]]] = [
    {"labels": {"ok": "value", "example.com/x": ""}},
    {"labels": {"bad key": "v"}},
    {"labels": {"k": "bad value!"}},
    {"labels": {"k": "x" * 64}},
    {"annotations": {"bad key": "v"}},
    {"annotations": {"a": "x" * (256 * 1024)}},
]
_CASES |= {f"metadata {at}": [post("configmaps", config_map("a", **one), None)] for at, one in enumerate(_METADATA)}
_CASES |= {
    f"the name {name[:9]}": [
        post("/api/v1/namespaces", {"metadata": {"name": name}}, None, dryRun="All"),
        post("configmaps", config_map(name), None),
    ]
    for name in ("UPPER", "a_b", "a.b", "x" * 254, "a/b")
}


_MICRO: Final = "2026-01-01T00:00:00.123456Z"
_TIMED: Final = {
    "eventTime": _MICRO, "reportingComponent": "c", "reportingInstance": "i", "action": "a", "reason": "r",
}  # fmt: skip
_ABOUT: Final = {"kind": "Pod", "namespace": "${ns}", "name": "p"}


_LEADER: Final[dict[str, Any]] = {
    "holderIdentity": "a",
    "leaseDurationSeconds": 15,
    "acquireTime": _MICRO,
    "renewTime": "2026-01-01T00:00:00.000000Z",
    "leaseTransitions": 0,
}
_RELEASED: Final = {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
_TAKEN: Final = {"spec": {"holderIdentity": "b", "leaseTransitions": 2}}
_CASES |= {
    "a record comes back as it was sent, times with six decimals": [
        post("leases", {**_LEASE, "spec": _LEADER}, shows={"spec.holderIdentity": "a"}),
        get("leases/l"),
    ],
    "an empty holder for a second releases it, the next one takes it with one transition more": [
        post("leases", {**_LEASE, "spec": {"holderIdentity": "a", "leaseTransitions": 1, "leaseDurationSeconds": 15}}),
        put("leases/l", {"${object:0}": _RELEASED}),
        put("leases/l", {"${object:1}": _TAKEN}, shows={"spec.leaseTransitions": 2}),
    ],
}


def event(**fields: Any) -> dict[str, Any]:
    """An event of the core kind."""
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": _ABOUT, **fields}


_COUNTED: Final = event(
    involvedObject={**_ABOUT, "uid": "u", "fieldPath": "spec.containers{a}"},
    reason="R",
    message="m",
    type="Warning",
    count=1,
    source={"component": "c", "host": "h"},
    firstTimestamp="2026-01-01T00:00:00Z",
    lastTimestamp="2026-01-01T00:00:00Z",
)
_CASES |= {
    "a core event is counted up with a patch, as recorders do": [
        post("events", _COUNTED),
        strategic("events/e", {"count": 2, "lastTimestamp": "2026-01-01T00:00:05Z", "message": "other"}),
        get("events/e"),
    ],
    "an event about a node has no namespace of its own and stands in default": [
        post("/api/v1/namespaces/default/events", event(involvedObject={"kind": "Node", "name": "n"})),
        delete("/api/v1/namespaces/default/events/e"),
        post("events", event(involvedObject={"kind": "Node", "name": "n"}), 422),
    ],
}


_EVENT_RULES: Final[list[dict[str, Any]]] = [
    {"type": "Odd", "reason": ""},
    {"involvedObject": {"kind": "Pod", "namespace": "other"}},
    {"message": "x" * 5000},
    {"eventTime": _MICRO},
    _TIMED,
    {**_TIMED, "reportingComponent": ""},
    {**_TIMED, "reason": "x" * 129},
    {**_TIMED, "message": "x" * 1025},
]
_CASES["an event without an eventTime is hardly checked, one with it is kept within bounds"] = [
    post("events", event(metadata={"name": f"e{at}"}, **fields), None) for at, fields in enumerate(_EVENT_RULES)
]


@pytest.mark.promise("API-010", "G1-15")
@each(_CASES)
async def test_what_a_write_does(bare: Both, asks: list[Ask]) -> None:
    """A write obeys version and uid as preconditions; wrong names, labels, annotations and events are refused."""
    await compare(bare, *asks)


@pytest.mark.promise("G1-01")
async def test_each_write_has_a_version_of_its_own(bare: Both) -> None:
    """Versions only grow, over all kinds, and a list is as new as the newest write."""

    async def observe(side: Side) -> Any:
        first = await made(side, maps(side), config_map("a"))
        second = await made(side, pods(side), pod("p"))
        third = await patched(side, maps(side, "a"), {"data": {"a": "1"}})
        listed = await got(side, maps(side))
        versions = [int(each["metadata"]["resourceVersion"]) for each in (first, second, third.body, listed)]
        return versions == sorted(versions) and len(set(versions[:3])) == 3

    assert await bare.same(observe) is True
