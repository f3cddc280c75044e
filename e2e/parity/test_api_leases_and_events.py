"""Leases that fence leaders, and events of both kinds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.parity.parity_objects import JSON, MERGE, STRATEGIC, got, leases, made, patched, place, short
from e2e.parity.sides import Both, Side

_MICRO = "2026-01-01T00:00:00.123456Z"


def lease(name: str = "l", **spec: Any) -> dict[str, Any]:
    """A lease."""
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}


@pytest.mark.promise("G1-15")
@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T00:00:00.1Z",
        "2026-01-01T00:00:00Z",
        "2026-01-01T02:00:00.000001+02:00",
        "2026-01-01T00:00:00.123456789Z",
    ],
)
async def test_times_of_a_lease(bare: Both, text: str) -> None:
    """D5: are written in UTC with six decimals, however they were sent."""

    async def observe(side: Side) -> Any:
        answer = await side.call("POST", leases(side), body=lease(renewTime=text, holderIdentity="a"))
        # Normalised times all look alike: compare the text.
        return [answer.code, answer.body.get("spec", {}).get("renewTime", "").replace("T", " ")]

    await bare.same(observe)


@pytest.mark.promise("G1-15")
async def test_one_of_two_leaders_wins(bare: Both) -> None:
    """D5: both read the same version and write: one is 409."""

    async def observe(side: Side) -> Any:
        read = await made(side, leases(side), lease(holderIdentity="", leaseDurationSeconds=1))

        async def take(name: str) -> int:
            spec = {**read["spec"], "holderIdentity": name}
            return (await side.call("PUT", leases(side, "l"), body={**read, "spec": spec})).code

        return sorted(await asyncio.gather(take("a"), take("b")))

    assert await bare.same(observe) == [200, 409]


@pytest.mark.parametrize(
    "spec",
    [
        {"leaseDurationSeconds": 0},
        {"leaseDurationSeconds": -1},
        {"leaseTransitions": -1},
        {"renewTime": "yesterday"},
        {"holderIdentity": 7},
        {"leaseDurationSeconds": "15"},
        {"strategy": "OldestEmulationVersion"},
        {"preferredHolder": "a"},
        {"holderIdentity": ""},
        {},
    ],
)
async def test_a_lease_is_checked(bare: Both, spec: dict[str, Any]) -> None:
    """D5: durations and counts; a decoder's own text for other types."""

    async def observe(side: Side) -> Any:
        code, body = short(await side.call("POST", leases(side), body=lease(**spec)))
        return [code, body]

    await bare.same(observe)


async def test_a_put_makes_a_lease(bare: Both) -> None:
    """D5: 201 if it is not there."""

    async def observe(side: Side) -> Any:
        found = [short(await side.call("PUT", leases(side, "l"), body=lease(holderIdentity="a")))]
        patch = await patched(side, leases(side, "none"), {"spec": {"holderIdentity": "a"}}, MERGE)
        return [*found, short(patch)]

    assert [code for code, _ in await bare.same(observe)] == [201, 404]


def event(name: str = "e", **fields: Any) -> dict[str, Any]:
    """An event of the core kind."""
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, **fields}


def strict(side: Side, name: str = "e", **fields: Any) -> dict[str, Any]:
    """An event of events.k8s.io."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": _MICRO,
        "reportingController": "example.com/c",
        "reportingInstance": "c-1",
        "action": "Bind",
        "reason": "Bound",
        "type": "Normal",
        "note": "a note",
        "regarding": {"kind": "Pod", "namespace": side.namespace, "name": "p"},
        **fields,
    }


def old(side: Side, name: str = "") -> str:
    """Core events of the case."""
    return place(side, "events", name)


def new(side: Side, name: str = "") -> str:
    """Events of events.k8s.io of the case."""
    return place(side, "events", name, root="/apis/events.k8s.io/v1")


@pytest.mark.promise("G1-14")
async def test_a_core_event(bare: Both) -> None:
    """D6: is lenient; it is counted up with a patch, as recorders do."""

    async def observe(side: Side) -> Any:
        about = {"kind": "Pod", "namespace": side.namespace, "name": "p", "uid": "u", "fieldPath": "spec.containers{a}"}
        body = event(
            involvedObject=about,
            reason="R",
            message="m",
            type="Warning",
            count=1,
            source={"component": "c", "host": "h"},
            firstTimestamp="2026-01-01T00:00:00Z",
            lastTimestamp="2026-01-01T00:00:00Z",
        )
        created = await made(side, old(side), body)
        change = {"count": 2, "lastTimestamp": "2026-01-01T00:00:05Z", "message": "other"}
        return [created, short(await patched(side, old(side, "e"), change, STRATEGIC)), await got(side, new(side, "e"))]

    await bare.same(observe)


_STRICT: dict[str, dict[str, Any]] = {
    "whole": {},
    "no time": {"eventTime": None},
    "no controller": {"reportingController": ""},
    "bad controller": {"reportingController": "not qualified!"},
    "no instance": {"reportingInstance": None},
    "long instance": {"reportingInstance": "x" * 129},
    "no action": {"action": ""},
    "long action": {"action": "x" * 129},
    "no reason": {"reason": ""},
    "long reason": {"reason": "x" * 129},
    "type": {"type": "Odd"},
    "no type": {"type": None},
    "note": {"note": "x" * 1024},
    "long note": {"note": "x" * 1025},
    "series": {"series": {"count": 2, "lastObservedTime": _MICRO}},
    "short series": {"series": {"count": 1, "lastObservedTime": _MICRO}},
    "series without time": {"series": {"count": 2}},
    "count": {"deprecatedCount": 1},
    "source": {"deprecatedSource": {"component": "c"}},
    "first time": {"deprecatedFirstTimestamp": "2026-01-01T00:00:00Z"},
    "other namespace": {"regarding": {"kind": "Pod", "namespace": "other", "name": "p"}},
    "no namespace": {"regarding": {"kind": "Node", "name": "n"}},
    "nothing": {"regarding": None},
    "related": {"related": {"kind": "Node", "name": "n"}},
}


@pytest.mark.promise("API-010", "G1-14")
@pytest.mark.parametrize("name", _STRICT)
async def test_newer_events_are_strict(bare: Both, name: str) -> None:
    """The reporter and its action are required, within bounds; deprecated fields are refused."""

    async def observe(side: Side) -> Any:
        code, body = short(await side.call("POST", new(side), body=strict(side, **_STRICT[name])))
        return [code, body, short(await side.call("GET", old(side, "e")))]

    await bare.same(observe)


@pytest.mark.promise("API-010")
@pytest.mark.parametrize(
    "change",
    [
        {"series": {"count": 5, "lastObservedTime": _MICRO}},
        {"note": "other"},
        {"reason": "Other"},
        {"metadata": {"labels": {"a": "b"}}},
        {"type": "Warning"},
        {"regarding": {"name": "q"}},
    ],
)
async def test_a_newer_event_does_not_change(bare: Both, change: dict[str, Any]) -> None:
    """Except for its series and metadata."""

    async def observe(side: Side) -> Any:
        await made(side, new(side), strict(side))
        return short(await patched(side, new(side, "e"), change, MERGE))

    await bare.same(observe)


@pytest.mark.promise("G1-14")
async def test_an_event_is_one_object_of_two_kinds(bare: Both) -> None:
    """D6: created as either, it is read, listed and deleted as the other."""

    async def observe(side: Side) -> Any:
        await made(side, new(side), strict(side))
        seen = await got(side, old(side, "e"))
        body = (await side.call("GET", old(side))).body
        gone = short(await side.call("DELETE", old(side, "e"), body={}, content_type=JSON))
        return [seen, len(body["items"]), gone, (await side.call("GET", new(side, "e"))).code]

    _, count, _, code = await bare.same(observe)
    assert (count, code) == (1, 404)


@pytest.mark.promise("G1-15")
async def test_a_lease_as_leaders_write_it(bare: Both) -> None:
    """D5: times keep their six decimals; the record comes back as it was sent."""

    async def observe(side: Side) -> Any:
        spec: dict[str, Any] = {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": _MICRO,
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 0,
        }
        created = await made(side, leases(side), lease(**spec))
        return [created, await got(side, leases(side, "l"))]

    created, _ = await bare.same(observe)
    assert created["spec"]["holderIdentity"] == "a"


@pytest.mark.promise("G1-15")
async def test_a_lease_is_released(bare: Both) -> None:
    """D5: an empty holder, for a second; the next one takes it with one transition more."""

    async def observe(side: Side) -> Any:
        found = [await made(side, leases(side), lease(holderIdentity="a", leaseTransitions=1, leaseDurationSeconds=15))]
        for change in (
            {"holderIdentity": "", "leaseDurationSeconds": 1},
            {"holderIdentity": "b", "leaseTransitions": 2},
        ):
            last = found[-1]
            answer = await side.call("PUT", leases(side, "l"), body={**last, "spec": {**last["spec"], **change}})
            found.append(answer.body)
        return found

    seen = await bare.same(observe)
    assert seen[2]["spec"]["leaseTransitions"] == 2


@pytest.mark.promise("G1-14")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"type": "Odd", "reason": ""},
        {"involvedObject": {"kind": "Pod", "namespace": "other"}},
        {"involvedObject": {"kind": "Node", "name": "n"}},
        {"message": "x" * 5000},
        {"reason": "x" * 500},
        {"series": {"count": 1}},
        {"eventTime": _MICRO},
        {"eventTime": _MICRO, "reportingComponent": "c", "reportingInstance": "i", "action": "a", "reason": "r"},
    ],
)
async def test_core_events_are_lenient(bare: Both, fields: dict[str, Any]) -> None:
    """D6: all but the namespace of what they are about."""

    async def observe(side: Side) -> Any:
        about = {"kind": "Pod", "namespace": side.namespace, "name": "p"}
        return short(await side.call("POST", old(side), body=event(**{"involvedObject": about, **fields})))

    await bare.same(observe)


async def test_an_event_about_a_node(bare: Both) -> None:
    """D6: has no namespace of its own and stands in default."""

    async def observe(side: Side) -> Any:
        about = {"kind": "Node", "name": "n"}
        found = []
        for namespace in ("default", side.namespace):
            path = f"/api/v1/namespaces/{namespace}/events"
            body = event(side.namespace, involvedObject=about, reason="R", type="Normal")
            found.append((await side.call("POST", path, body=body)).code)
            await side.call("DELETE", f"{path}/{side.namespace}")
        return found

    assert await bare.same(observe) == [201, 422]
