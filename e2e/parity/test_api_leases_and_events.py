"""Leases that fence leaders, and events of both kinds."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from e2e.parity.parity_objects import leases, made
from e2e.parity.parity_requests import Ask, Cases, compare, delete, each, events, get, post, put, strategic
from e2e.parity.sides import Both, Side

_MICRO: Final = "2026-01-01T00:00:00.123456Z"
_NEW: Final = "/apis/events.k8s.io/v1/namespaces/${ns}/events"
_ABOUT: Final = {"kind": "Pod", "namespace": "${ns}", "name": "p"}


def lease(**spec: Any) -> dict[str, Any]:
    """A lease."""
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": spec}


_LEADER: Final[dict[str, Any]] = {
    "holderIdentity": "a",
    "leaseDurationSeconds": 15,
    "acquireTime": _MICRO,
    "renewTime": "2026-01-01T00:00:00.000000Z",
    "leaseTransitions": 0,
}
_RELEASED: Final = {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
_TAKEN: Final = {"spec": {"holderIdentity": "b", "leaseTransitions": 2}}
_LEASES: Final[Cases] = {
    "a record comes back as it was sent, times with six decimals": [
        post("leases", lease(**_LEADER), shows={"spec.holderIdentity": "a"}),
        get("leases/l"),
    ],
    "an empty holder for a second releases it, the next one takes it with one transition more": [
        post("leases", lease(holderIdentity="a", leaseTransitions=1, leaseDurationSeconds=15)),
        put("leases/l", {"${object:0}": _RELEASED}),
        put("leases/l", {"${object:1}": _TAKEN}, shows={"spec.leaseTransitions": 2}),
    ],
}


@pytest.mark.promise("G1-15")
@each(_LEASES)
async def test_a_lease_as_leaders_write_it(bare: Both, asks: list[Ask]) -> None:
    """A leader takes, renews and releases its lease with equal answers on both sides."""
    await compare(bare, *asks)


@pytest.mark.promise("G1-15")
@pytest.mark.parametrize("text", ["2026-01-01T00:00:00Z", "2026-01-01T02:00:00.000001+02:00"])
async def test_times_of_a_lease(bare: Both, text: str) -> None:
    """A lease's times are written in UTC with six decimals, in whatever form they were sent."""

    async def observe(side: Side) -> Any:
        answer = await side.call("POST", leases(side), body=lease(renewTime=text, holderIdentity="a"))
        # Normalised times all look alike: compare the text.
        return [answer.code, answer.body.get("spec", {}).get("renewTime", "").replace("T", " ")]

    await bare.same(observe)


@pytest.mark.promise("G1-15")
async def test_one_of_two_leaders_wins(bare: Both) -> None:
    """One of two leaders that write the same version of a lease gets 409."""

    async def observe(side: Side) -> Any:
        read = await made(side, leases(side), lease(holderIdentity="", leaseDurationSeconds=1))

        async def take(name: str) -> int:
            spec = {**read["spec"], "holderIdentity": name}
            return (await side.call("PUT", leases(side, "l"), body={**read, "spec": spec})).code

        return sorted(await asyncio.gather(take("a"), take("b")))

    assert await bare.same(observe) == [200, 409]


def event(**fields: Any) -> dict[str, Any]:
    """An event of the core kind."""
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": _ABOUT, **fields}


def strict(**fields: Any) -> dict[str, Any]:
    """An event of events.k8s.io."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "eventTime": _MICRO,
        "reportingController": "example.com/c",
        "reportingInstance": "c-1",
        "action": "Bind",
        "reason": "Bound",
        "type": "Normal",
        "note": "a note",
        "regarding": _ABOUT,
        **fields,
    }


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
_EVENTS: Final[Cases] = {
    "a core event is counted up with a patch, as recorders do": [
        post("events", _COUNTED),
        strategic("events/e", {"count": 2, "lastTimestamp": "2026-01-01T00:00:05Z", "message": "other"}),
        get(f"{_NEW}/e"),
    ],
    "created as either kind, an event is read, listed and deleted as the other": [
        post(_NEW, strict()),
        get("events/e"),
        get("events", shows={"items.names": ["e"]}),
        events(_NEW, since=0),
        delete("events/e", 200, {}),
        get(f"{_NEW}/e", 404),
    ],
    "an event about a node has no namespace of its own and stands in default": [
        post("/api/v1/namespaces/default/events", event(involvedObject={"kind": "Node", "name": "n"})),
        delete("/api/v1/namespaces/default/events/e"),
        post("events", event(involvedObject={"kind": "Node", "name": "n"}), 422),
    ],
}


@pytest.mark.promise("G1-14")
@each(_EVENTS)
async def test_an_event_is_one_object_of_two_kinds(bare: Both, asks: list[Ask]) -> None:
    """An event is one object, whichever API group creates, reads or deletes it."""
    await compare(bare, *asks)


@pytest.mark.promise("API-010", "G1-14")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"eventTime": None},
        {"reportingController": ""},
        {"reportingInstance": None},
        {"action": ""},
        {"reason": "x" * 129},
        {"type": "Odd"},
        {"note": "x" * 1025},
        {"regarding": {"kind": "Pod", "namespace": "other", "name": "p"}},
        {"regarding": {"kind": "Node", "name": "n"}},
    ],
)
async def test_newer_events_are_strict(bare: Both, fields: dict[str, Any]) -> None:
    """The reporter and its action are required, within bounds; deprecated fields are refused."""
    await compare(bare, post(_NEW, strict(**fields), None), get("events/e", None))


@pytest.mark.promise("G1-14")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"type": "Odd", "reason": ""},
        {"involvedObject": {"kind": "Pod", "namespace": "other"}},
        {"message": "x" * 5000},
        {"eventTime": _MICRO},
        {"eventTime": _MICRO, "reportingComponent": "c", "reportingInstance": "i", "action": "a", "reason": "r"},
    ],
)
async def test_core_events_are_lenient(bare: Both, fields: dict[str, Any]) -> None:
    """A core event is hardly checked except for the namespace of the object that it is about."""
    await compare(bare, post("events", event(**fields), None))
