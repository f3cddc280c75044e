"""What an API server makes of requests: the groups of ``api_cases.yaml``, and what takes more than requests in a row."""

from __future__ import annotations

from typing import Any, Final

import pytest

from clusters.api.waiting import eventually
from e2e.parity.parity_requests import (
    JSON,
    MERGE,
    STRATEGIC,
    Ask,
    compare,
    config_map,
    container,
    each,
    got,
    made,
    maps,
    node_of,
    patched,
    place,
    pod,
    pods,
    short,
)
from e2e.parity.sides import Both, Side


@pytest.mark.promise("API-008", "G1-07", "G1-09")
@each("bindings")
async def test_what_a_binding_does(bare: Both, asks: list[Ask]) -> None:
    """A binding writes node, condition and annotations at once; 409 for a pod's state, 400 for another name."""
    await compare(bare, *asks)


@each("deletions")
async def test_what_a_delete_does(bare: Both, asks: list[Ask]) -> None:
    """A delete obeys the grace of the pod or the request, finalizers and preconditions."""
    await compare(bare, *asks)


@pytest.mark.promise("API-007", "G1-10")
@each("nodes")
async def test_what_becomes_of_a_node(bare: Both, asks: list[Ask]) -> None:
    """A Node is filled in alike, a senseless one is refused, its status is written apart, and a plugin patches it."""
    await compare(bare, *asks)


@pytest.mark.promise("G1-13")
@each("patches")
async def test_what_a_patch_does(bare: Both, asks: list[Ask]) -> None:
    """A patch merges, replaces or edits maps and lists as its type demands."""
    await compare(bare, *asks)


@each("pods")
async def test_what_becomes_of_a_pod(bare: Both, asks: list[Ask]) -> None:
    """A pod is filled in alike, refused with path and reason of each wrong field, and few of its fields can change."""
    await compare(bare, *asks)


@pytest.mark.promise("G1-11")
@each("pod_status")
async def test_a_status_is_written_apart(bare: Both, asks: list[Ask]) -> None:
    """A pod's status and the rest of it are each written through their own path."""
    await compare(bare, *asks)


@pytest.mark.promise("API-012", "G1-02", "G1-03", "G1-12")
@each("reads")
async def test_lists_and_past_events(bare: Both, asks: list[Ask]) -> None:
    """Lists come in pages and by selectors, and a watch shows all changes since an old version."""
    await compare(bare, *asks)


@pytest.mark.promise("API-004", "G1-08")
@each("refusals")
async def test_requests_that_cannot_be_answered(bare: Both, asks: list[Ask]) -> None:
    """A missing path is 404, an unknown method 405, a version that is not reached 504, and a senseless one 400."""
    await compare(bare, *asks)


@each("workloads")
async def test_what_becomes_of_a_workload(bare: Both, asks: list[Ask]) -> None:
    """A workload is filled in, scaled and changed alike, and a senseless one refused with the path of each wrong field."""
    await compare(bare, *asks)


@pytest.mark.promise("API-010", "G1-15")
@each("writes")
async def test_what_a_write_does(bare: Both, asks: list[Ask]) -> None:
    """A write obeys version and uid as preconditions; wrong names, labels, annotations and events are refused."""
    await compare(bare, *asks)


_HELD: Final = "example.com/x"


async def test_a_namespace_that_ends(both: Both) -> None:
    """A namespace that ends refuses new objects, loses all its own, and is then gone."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("held", finalizers=[_HELD]))
        await made(side, pods(side), pod("p"))
        path = f"/api/v1/namespaces/{side.namespace}"
        answer = await side.call("DELETE", path)
        marked = [answer.code, answer.body["status"]["phase"], answer.body["spec"]]
        refused = short(await side.call("POST", maps(side), body=config_map("new")))
        held = await got(side, path)
        await patched(side, maps(side, "held"), {"metadata": {"finalizers": None}})
        async with side.watch("/api/v1/namespaces", fieldSelector=f"metadata.name={side.namespace}") as watch:
            while (await anext(watch))["type"] != "DELETED":
                pass
        return [marked, refused, held["status"]["phase"], (await side.call("GET", path)).code]

    marked, refused, phase, code = await both.same(observe)
    assert marked[:2] == [200, "Terminating"]
    assert (refused[0], phase, code) == (403, "Terminating", 404)


_TIME: Final = "2026-01-01T00:00:00Z"
_MINE: Final = {"key": "example.com/mine", "value": "x", "effect": "NoExecute"}
# A condition and its bad status, with the end of the taint's key; or a cordon.
_NEEDS: Final = {
    "not-ready": ("Ready", "False"),
    "memory-pressure": ("MemoryPressure", "True"),
    "disk-pressure": ("DiskPressure", "True"),
    "pid-pressure": ("PIDPressure", "True"),
    "network-unavailable": ("NetworkUnavailable", "True"),
    "unschedulable": None,
}


@pytest.mark.promise("G1-17")
@pytest.mark.parametrize("end", _NEEDS)
async def test_a_node_in_need_is_tainted(both: Both, end: str) -> None:
    """A Node has a taint for a bad condition or a cordon, with the time of its addition, and those of others stay."""

    async def observe(side: Side) -> Any:
        path = f"/api/v1/nodes/{node_of(side)}"
        await made(side, "/api/v1/nodes", {"metadata": {"name": node_of(side)}, "spec": {"taints": [_MINE]}})

        async def tainted(kind: str, status: str, *ends: str) -> list[Any]:
            times = dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), _TIME)
            change: Any = {"status": {"conditions": [{"type": kind, "status": status, **times}]}}
            if kind:
                await patched(side, f"{path}/status", change, STRATEGIC)
            else:
                await patched(side, path, {"spec": {"unschedulable": True}})
            keys = [_MINE["key"], *(f"node.kubernetes.io/{one}" for one in ends)]

            async def look() -> list[Any]:
                return sorted((await got(side, path))["spec"].get("taints", []), key=lambda taint: str(taint["key"]))

            return await eventually(look, lambda seen: [one["key"] for one in seen] == keys, f"taints {keys}")

        seen = [await tainted("Ready", "True"), await tainted(*(_NEEDS[end] or ("", "")), end)]
        await side.call("DELETE", path)
        return seen

    await both.same(observe)


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


_PLURALS = {
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
}


_TEMPLATE: Final = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [container()]}}


@pytest.mark.parametrize("kind", _PLURALS)
async def test_a_selector_does_not_change(bare: Both, kind: str) -> None:
    """A change of a workload's selector is 422, and one of its template is counted by the generation."""

    async def observe(side: Side) -> Any:
        path = place(side, _PLURALS[kind], root="/apis/apps/v1")
        more = {"serviceName": "s"} if kind == "StatefulSet" else {}
        spec = {"selector": {"matchLabels": {"app": "w"}}, "template": _TEMPLATE, **more}
        await made(side, path, {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": spec})
        labels = {"app": "w", "more": "x"}
        patch = {"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}}
        refused = await patched(side, f"{path}/w", patch)
        causes = [[each["field"], each["reason"]] for each in refused.body.get("details", {}).get("causes", [])]
        change = {"spec": {"template": {"metadata": {"annotations": {"a": "1"}}}}}
        return [refused.code, causes, short(await patched(side, f"{path}/w", change))]

    code, _, changed = await bare.same(observe)
    assert (code, changed[0], changed[1]["metadata"]["generation"]) == (422, 200, 2)


async def test_how_a_job_fails(both: Both) -> None:
    """A Job fails with its last pod, with an equal status on both sides."""

    async def observe(side: Side) -> Any:
        path = place(side, "jobs", root="/apis/batch/v1")
        spec = {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [container()]}}}
        await made(side, path, {"metadata": {"name": "w"}, "spec": spec})
        found = await eventually(lambda: got(side, pods(side)), lambda found: len(found["items"]) == 1, "a pod")
        await patched(
            side, pods(side, found["items"][0]["metadata"]["name"], "status"), {"status": {"phase": "Failed"}}
        )

        def has_failed(found: Any) -> bool:
            return any(each["type"] == "Failed" for each in found["status"].get("conditions", []))

        return (await eventually(lambda: got(side, f"{path}/w"), has_failed, "the Job fails", seconds=30))["status"]

    await both.same(observe)


async def test_an_object_without_its_owner_is_deleted(both: Both) -> None:
    """An object is deleted if no object with its owner's uid exists, even if one has the name."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("owner"))
        uid = "00000000-0000-4000-8000-000000000000"
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        await made(side, maps(side), config_map("child", ownerReferences=[reference]))
        gone = await eventually(
            lambda: side.call("GET", maps(side, "child")), lambda found: found.code == 404, "child gone", seconds=30
        )
        return [gone.code, (await side.call("GET", maps(side, "owner"))).code]

    assert await both.same(observe) == [404, 200]


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


_LIMIT: Final = 3 * 1024 * 1024
_BIG: Final = b'{"metadata":{"name":"b"},"data":{"x":"' + b"x" * _LIMIT + b'"}}'
_FITS: Final = b" " * (_LIMIT - 100) + b'{"metadata":{"name":"fits"}}'
# Method, name in the path, content type or what is accepted, body; and the code.
_BODIES: Final = (
    ("POST", "", JSON, _BIG, 413),
    ("PUT", "c", JSON, _BIG, 413),
    ("PATCH", "c", MERGE, _BIG, 413),
    ("GET", "c", JSON, _BIG, 200),
    ("POST", "", JSON, _FITS, 201),
    ("POST", "", "application/xml", b"<x/>", 415),
    ("PUT", "c", "text/plain", b"<x/>", 415),
    ("PATCH", "c", JSON, b"<x/>", 415),
    ("GET", "c", "application/xml", None, 406),
    ("GET", "c", "application/json;as=Odd;v=v1;g=meta.k8s.io", None, 406),
    *(("POST", "", JSON, body, 400) for body in (b"this is not JSON", b"", b"[]", b"\xff\xfe")),
    *(("POST", "", JSON, body, 422) for body in (b"{}", b"null")),
    ("DELETE", "c", JSON, b"this is not JSON", 400),
)


@pytest.mark.promise("G1-08")
async def test_bodies_that_cannot_be_taken(both: Both) -> None:
    """A body above 3 MiB is 413, of an unknown type 415, none of an object 400, and an answer that is not had is 406."""

    async def observe(side: Side) -> Any:
        await side.call("POST", maps(side), body=config_map("c"))
        found = []
        for method, name, media, raw, _ in _BODIES:
            named = {"accept" if raw is None else "content-type": media}
            answer = await side.call(method, maps(side, name), raw=raw, headers=named)
            # The texts of 400 and 422 are a parser's own.
            body = answer.body if answer.code in (406, 413, 415) else None
            found.append([answer.code, answer.body.get("reason"), body])
        return found

    assert [code for code, *_ in await both.same(observe)] == [code for *_, code in _BODIES]
