"""DELETE: grace, marks, preconditions, finalizers, collections."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.parity.parity_objects import binding, brief, config_map, got, made, maps, patched, pod, pods, short, watching
from e2e.parity.sides import Both, Side

_OTHER_UID = "00000000-0000-4000-8000-000000000000"


async def bound_pod(side: Side, name: str = "p", **spec: Any) -> dict[str, Any]:
    """A pod on a node."""
    await made(side, pods(side), pod(name, spec))
    await side.call("POST", pods(side, name, "binding"), body=binding(name))
    return await got(side, pods(side, name))


async def test_a_pod_without_a_node_goes_at_once(bare: Both) -> None:
    """D3: 200 with the pod; a watch sees it marked, then gone."""

    async def observe(side: Side) -> Any:
        created = await made(side, pods(side), pod("p"))
        version = created["metadata"]["resourceVersion"]
        answer = short(await side.call("DELETE", pods(side, "p")))
        async with watching(side, pods(side), resourceVersion=version, timeoutSeconds="1") as watch:
            events = await watch.rest()
        return [answer, events, (await side.call("GET", pods(side, "p"))).code]

    answer, events, code = await bare.same(observe)
    assert (answer[0], answer[1]["kind"], code) == (200, "Pod", 404)
    assert [each["type"] for each in events][-1] == "DELETED"


async def test_a_bound_pod_is_marked(bare: Both) -> None:
    """D3: it stays for its kubelet, for its own grace period; the kubelet's DELETE with 0 takes it away."""

    async def observe(side: Side) -> Any:
        created = await bound_pod(side)
        version = created["metadata"]["resourceVersion"]
        found = [short(await side.call("DELETE", pods(side, "p")))]
        found.append(short(await side.call("GET", pods(side, "p"))))
        found.append(short(await side.call("DELETE", pods(side, "p"), body={"gracePeriodSeconds": 0})))
        async with watching(side, pods(side), resourceVersion=version, timeoutSeconds="1") as watch:
            events = await watch.rest()
        return [found, events]

    found, events = await bare.same(observe)
    assert [code for code, _ in found] == [200, 200, 200]
    assert found[1][1]["metadata"]["deletionGracePeriodSeconds"] == 30
    assert [each["type"] for each in events] == ["MODIFIED", "MODIFIED", "DELETED"]


@pytest.mark.parametrize("seconds", [0, 1, 7, -1, None])
async def test_the_grace_of_a_request(bare: Both, seconds: int | None) -> None:
    """D3: wins over the pod's own; 0 is immediately."""

    async def observe(side: Side) -> Any:
        await bound_pod(side, terminationGracePeriodSeconds=5)
        body = {"gracePeriodSeconds": seconds} if seconds is not None else {}
        answer = short(await side.call("DELETE", pods(side, "p"), body=body))
        return [answer, (await side.call("GET", pods(side, "p"))).code]

    await bare.same(observe)


async def test_a_second_delete_only_shortens(bare: Both) -> None:
    """D3: a longer grace changes nothing, a shorter one does."""

    async def observe(side: Side) -> Any:
        await bound_pod(side)
        found = []
        for seconds in (20, 60, None, 10, 10):
            body = {"gracePeriodSeconds": seconds} if seconds is not None else None
            answer = await side.call("DELETE", pods(side, "p"), body=body)
            found.append([answer.code, answer.body["metadata"]["deletionGracePeriodSeconds"]])
        return [found, await got(side, pods(side, "p"))]

    found, _ = await bare.same(observe)
    assert found == [[200, 20], [200, 20], [200, 20], [200, 10], [200, 10]]


async def test_a_pod_that_has_ended_goes_at_once(bare: Both) -> None:
    """D3: no kubelet has to stop it."""

    async def observe(side: Side) -> Any:
        found = []
        for phase in ("Succeeded", "Failed", "Running"):
            name = phase.lower()
            await bound_pod(side, name)
            await patched(side, pods(side, name, "status"), {"status": {"phase": phase}})
            await side.call("DELETE", pods(side, name))
            found.append((await side.call("GET", pods(side, name))).code)
        return found

    assert await bare.same(observe) == [404, 404, 200]


async def test_preconditions_of_a_delete(bare: Both) -> None:
    """D3: 409 for another uid or version; its own go."""

    async def observe(side: Side) -> Any:
        created = await made(side, maps(side), config_map("a"))
        changed = (await patched(side, maps(side, "a"), {"data": {"a": "1"}})).body
        found = []
        for preconditions in (
            {"uid": _OTHER_UID},
            {"resourceVersion": created["metadata"]["resourceVersion"]},
            {"uid": created["metadata"]["uid"], "resourceVersion": changed["metadata"]["resourceVersion"]},
        ):
            found.append(short(await side.call("DELETE", maps(side, "a"), body={"preconditions": preconditions})))
        return found

    assert [code for code, _ in await bare.same(observe)] == [409, 409, 200]


async def test_deleting_answers_with_a_status(bare: Both) -> None:
    """D3: a Status with the uid for what is gone; 404 for what was not there."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("a"))
        return [short(await side.call("DELETE", maps(side, "a"))) for _ in range(2)]

    seen = await bare.same(observe)
    assert [code for code, _ in seen] == [200, 404]
    assert seen[0][1]["details"] == {"name": "a", "kind": "configmaps", "uid": "<uid>"}


async def test_a_finalizer_holds_an_object(bare: Both) -> None:
    """D3: it is marked and stays, can be changed, gets no more finalizers, and goes with its last one."""

    async def observe(side: Side) -> Any:
        created = await made(side, maps(side), config_map("a", finalizers=["example.com/x", "example.com/y"]))
        version = created["metadata"]["resourceVersion"]
        found = [short(await side.call("DELETE", maps(side, "a"))) for _ in range(2)]
        for patch in (
            {"data": {"a": "1"}},
            {"metadata": {"finalizers": ["example.com/x", "example.com/z"]}},
            {"metadata": {"deletionTimestamp": None}},
            {"metadata": {"finalizers": ["example.com/x"]}},
            {"metadata": {"finalizers": None}},
        ):
            found.append(short(await patched(side, maps(side, "a"), patch)))
        async with watching(side, maps(side), resourceVersion=version, timeoutSeconds="1") as watch:
            events = await watch.rest()
        return [found, events, (await side.call("GET", maps(side, "a"))).code]

    found, events, code = await bare.same(observe)
    assert [each[0] for each in found] == [200, 200, 200, 422, 200, 200, 200]
    assert events[-1]["type"] == "DELETED"
    assert code == 404


async def test_a_pod_with_a_finalizer(bare: Both) -> None:
    """D3: the kubelet's last DELETE leaves it, marked with no time left, until the finalizer goes."""

    async def observe(side: Side) -> Any:
        await made(side, pods(side), pod("p", finalizers=["example.com/x"]))
        await side.call("POST", pods(side, "p", "binding"), body=binding("p"))
        found = [
            short(await side.call("DELETE", pods(side, "p"), body={"gracePeriodSeconds": seconds}))
            for seconds in (5, 0, 0)
        ]
        found.append(short(await patched(side, pods(side, "p"), {"metadata": {"finalizers": None}})))
        return [found, (await side.call("GET", pods(side, "p"))).code]

    found, code = await bare.same(observe)
    assert found[1][1]["metadata"]["deletionGracePeriodSeconds"] == 0
    assert code == 404


@pytest.mark.parametrize("policy", ["Foreground", "Background", "Orphan", "Wrong"])
async def test_propagation_policies(bare: Both, policy: str) -> None:
    """D3: two of them are finalizers for the garbage collector; an unknown one is refused."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("a"))
        answer = short(await side.call("DELETE", maps(side, "a"), body={"propagationPolicy": policy}))
        after = await side.call("GET", maps(side, "a"))
        return [answer, after.code, after.body["metadata"] if after.code == 200 else None]

    _, code, metadata = await bare.same(observe)
    if policy in ("Foreground", "Orphan"):
        assert metadata["finalizers"] == [{"Foreground": "foregroundDeletion", "Orphan": "orphan"}[policy]]
    else:
        assert code == (200 if policy == "Wrong" else 404)


@pytest.mark.parametrize(
    "body",
    [
        {"orphanDependents": True},
        {"orphanDependents": False},
        {"orphanDependents": True, "propagationPolicy": "Orphan"},
        {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0},
        {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"},
        {"kind": "Pod", "apiVersion": "v1"},
        {"gracePeriodSeconds": "soon"},
        {"preconditions": "none"},
    ],
)
async def test_options_of_a_delete(bare: Both, body: dict[str, Any]) -> None:
    """D3: what a body may say, and what is no body for a DELETE."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("a"))
        answer = await side.call("DELETE", maps(side, "a"), body=body)
        # A decoder's text is its own.
        text = None if answer.code == 400 else answer.body
        return [answer.code, answer.body.get("reason"), text, (await side.call("GET", maps(side, "a"))).code]

    await bare.same(observe)


async def test_a_collection_is_deleted(bare: Both) -> None:
    """D3: everything that the selectors select, as a list of what was there; the rest stays."""

    async def observe(side: Side) -> Any:
        for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
            await made(side, maps(side), config_map(name, labels={"app": app}))
        answer = await side.call("DELETE", maps(side), params={"labelSelector": "app=x"})
        left = [each["metadata"]["name"] for each in (await got(side, maps(side)))["items"]]
        return [short(answer), left]

    answer, left = await bare.same(observe)
    assert [each["metadata"]["name"] for each in answer[1]["items"]] == ["a", "b"]
    assert left == ["c"]


async def test_a_name_is_free_again(bare: Both) -> None:
    """D3: 409 AlreadyExists while the old pod is leaving, then another uid."""

    async def observe(side: Side) -> Any:
        first = await bound_pod(side)
        await side.call("DELETE", pods(side, "p"))
        refused = short(await side.call("POST", pods(side), body=pod("p")))
        await side.call("DELETE", pods(side, "p"), body={"gracePeriodSeconds": 0})
        second = await made(side, pods(side), pod("p"))
        return [refused, first["metadata"]["uid"] != second["metadata"]["uid"]]

    refused, other = await bare.same(observe)
    assert (refused[0], other) == (409, True)


async def test_a_marked_pod_can_still_be_written(bare: Both) -> None:
    """D3: its status and annotations, while it ends; its mark stays."""

    async def observe(side: Side) -> Any:
        await bound_pod(side)
        await side.call("DELETE", pods(side, "p"))
        return [
            short(await patched(side, pods(side, "p"), {"metadata": {"annotations": {"a": "1"}}})),
            short(await patched(side, pods(side, "p", "status"), {"status": {"phase": "Failed"}})),
            short(await patched(side, pods(side, "p"), {"metadata": {"deletionTimestamp": None}})),
            short(await patched(side, pods(side, "p"), {"metadata": {"deletionGracePeriodSeconds": 99}})),
            short(await side.call("DELETE", pods(side, "p"))),
        ]

    await bare.same(observe)


async def test_a_namespace_that_ends(both: Both) -> None:
    """D3: everything in it goes, nothing new comes in, then it is gone."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("held", finalizers=["example.com/x"]))
        await made(side, pods(side), pod("p"))
        path = f"/api/v1/namespaces/{side.namespace}"
        answer = await side.call("DELETE", path)
        marked = [answer.code, answer.body["status"]["phase"], answer.body["spec"]]
        refused = short(await side.call("POST", maps(side), body=config_map("new")))
        held = await got(side, path)
        await patched(side, maps(side, "held"), {"metadata": {"finalizers": None}})
        async with watching(side, "/api/v1/namespaces", fieldSelector=f"metadata.name={side.namespace}") as watch:
            while (event := await watch.next())["type"] != "DELETED":
                pass
        return [marked, refused, held["status"]["phase"], brief(event)[:1], (await side.call("GET", path)).code]

    marked, refused, phase, _, code = await both.same(observe)
    assert marked[:2] == [200, "Terminating"]
    assert (refused[0], phase, code) == (403, "Terminating", 404)


async def test_grace_in_the_query(bare: Both) -> None:
    """D3: as kubectl's older forms send it; a body wins."""

    async def observe(side: Side) -> Any:
        found = []
        for number, (params, body) in enumerate(
            (
                ({"gracePeriodSeconds": "3"}, None),
                ({"gracePeriodSeconds": "3"}, {"gracePeriodSeconds": 4}),
                ({"gracePeriodSeconds": "x"}, None),
            )
        ):
            await bound_pod(side, f"p{number}")
            found.append(short(await side.call("DELETE", pods(side, f"p{number}"), params=params, body=body)))
        return found

    await bare.same(observe)


async def test_a_collection_of_pods_is_deleted(bare: Both) -> None:
    """D3: each pod as its own DELETE would do it."""

    async def observe(side: Side) -> Any:
        await bound_pod(side, "bound")
        await made(side, pods(side), pod("free"))
        answer = await side.call("DELETE", pods(side), body={"gracePeriodSeconds": 9})
        left = await got(side, pods(side))
        return [short(answer), left]

    _, left = await bare.same(observe)
    assert [each["metadata"]["deletionGracePeriodSeconds"] for each in left["items"]] == [9]
