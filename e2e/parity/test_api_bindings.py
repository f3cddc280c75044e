"""The binding subresource: one write that puts a pod on its node, and everything that makes it refuse."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.parity.parity_objects import binding, brief, got, made, patched, pod, pods, short, watching
from e2e.parity.sides import Both, Side

_OTHER_UID = "00000000-0000-4000-8000-000000000000"


async def bind(side: Side, name: str, body: dict[str, Any]) -> list[Any]:
    """Send a Binding."""
    return short(await side.call("POST", pods(side, name, "binding"), body=body))


@pytest.mark.promise("API-008", "G1-09")
async def test_a_binding_is_one_write_of_node_annotations_and_labels(bare: Both) -> None:
    """201 and a Status; a watch shows a single change with everything in it; the Binding's annotations win."""

    async def observe(side: Side) -> Any:
        created = await made(side, pods(side), pod("p", annotations={"a": "old", "b": "stays"}, labels={"l": "1"}))
        version = created["metadata"]["resourceVersion"]
        words = binding("p", annotations={"a": "new", "aliyun.com/c": "added"}, labels={"topology": "z", "l": "2"})
        answer = await bind(side, "p", words)
        async with watching(side, pods(side), resourceVersion=version, timeoutSeconds="1") as watch:
            events = await watch.rest()
        return [answer, events]

    (code, status), events = await bare.same(observe)
    assert (code, status["kind"], status["status"]) == (201, "Status", "Success")
    assert [event["type"] for event in events] == ["MODIFIED"]
    assert events[0]["object"]["metadata"]["annotations"] == {"a": "new", "b": "stays", "aliyun.com/c": "added"}
    assert events[0]["object"]["spec"]["nodeName"] == "n1"


@pytest.mark.promise("G1-09")
async def test_a_kubelet_first_sees_a_pod_with_its_annotations(bare: Both) -> None:
    """D2: to a watch of a node's pods the bound pod is new, and complete."""

    async def observe(side: Side) -> Any:
        created = await made(side, pods(side), pod("p"))
        version = created["metadata"]["resourceVersion"]
        async with watching(side, pods(side), fieldSelector="spec.nodeName=n1", resourceVersion=version) as watch:
            await bind(side, "p", binding("p", annotations={"card": "1"}))
            return await watch.next()

    event = await bare.same(observe)
    assert event["type"] == "ADDED"
    assert event["object"]["metadata"]["annotations"] == {"card": "1"}


async def test_the_condition_of_a_binding(bare: Both) -> None:
    """D2: PodScheduled becomes True in place, its reason goes, and its time changes; the nominated node goes."""

    async def observe(side: Side) -> Any:
        await made(side, pods(side), pod("p"))
        waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes"}
        other = {"type": "example.com/other", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"conditions": [waiting, other], "nominatedNodeName": "n9"}
        await side.call(
            "PATCH", pods(side, "p", "status"), body={"status": status}, content_type="application/merge-patch+json"
        )
        await bind(side, "p", binding("p"))
        return (await got(side, pods(side, "p")))["status"]

    status = await bare.same(observe)
    assert [each["type"] for each in status["conditions"]] == ["PodScheduled", "example.com/other"]
    assert status["conditions"][0]["status"] == "True"


@pytest.mark.promise("G1-07")
async def test_a_pod_is_bound_once(bare: Both) -> None:
    """D2: 409 for a second Binding, to another node and to the same."""

    async def observe(side: Side) -> Any:
        await made(side, pods(side), pod("p"))
        return [await bind(side, "p", binding("p", node)) for node in ("n1", "n2", "n1")]

    seen = await bare.same(observe)
    assert [code for code, _ in seen] == [201, 409, 409]
    assert seen[1][1]["reason"] == "Conflict"


@pytest.mark.promise("G1-07")
async def test_uid_and_version_of_a_binding_are_preconditions(bare: Both) -> None:
    """D2: as its version: 409 for another pod's or one that is past; the newest are taken."""

    async def observe(side: Side) -> Any:
        created = await made(side, pods(side), pod("p"))
        changed = (await patched(side, pods(side, "p"), {"metadata": {"labels": {"a": "b"}}})).body["metadata"]
        old, new, uid = created["metadata"]["resourceVersion"], changed["resourceVersion"], changed["uid"]
        expected = ({"uid": _OTHER_UID}, {"resourceVersion": old}, {"uid": uid, "resourceVersion": new})
        return [await bind(side, "p", binding("p", **each)) for each in expected]

    assert [code for code, _ in await bare.same(observe)] == [409, 409, 201]


@pytest.mark.promise("G1-07")
async def test_a_pod_that_is_being_deleted_is_not_bound(bare: Both) -> None:
    """D2: 409, even before its node is known."""

    async def observe(side: Side) -> Any:
        await made(side, pods(side), pod("p", finalizers=["example.com/hold"]))
        await side.call("DELETE", pods(side, "p"))
        return await bind(side, "p", binding("p"))

    assert (await bare.same(observe))[0] == 409


@pytest.mark.promise("G1-07")
async def test_a_gated_pod_is_not_bound(bare: Both) -> None:
    """D2: 409 while it has scheduling gates; then it is."""

    async def observe(side: Side) -> Any:
        created = await made(side, pods(side), pod("p", {"schedulingGates": [{"name": "example.com/wait"}]}))
        refused = await bind(side, "p", binding("p"))
        ungated = await side.call(
            "PATCH",
            pods(side, "p"),
            body=[{"op": "remove", "path": "/spec/schedulingGates"}],
            content_type="application/json-patch+json",
        )
        return [created, refused, short(ungated), await bind(side, "p", binding("p"))]

    created, refused, _, bound = await bare.same(observe)
    assert created["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert (refused[0], bound[0]) == (409, 201)


@pytest.mark.promise("G1-07")
async def test_a_binding_must_name_its_pod(bare: Both) -> None:
    """D2: 400 if the URL and the body differ, 404 for a pod that is not there."""

    async def observe(side: Side) -> Any:
        await made(side, pods(side), pod("p"))
        other_place = binding("p", namespace="elsewhere")
        return [
            await bind(side, "p", binding("q")),
            await bind(side, "p", {"target": {"name": "n1"}}),
            await bind(side, "p", other_place),
            await bind(side, "missing", binding("missing")),
        ]

    seen = await bare.same(observe)
    assert [code for code, _ in seen] == [400, 400, 400, 404]


@pytest.mark.promise("G1-07")
@pytest.mark.parametrize(
    "target",
    [
        {},
        {"name": ""},
        {"kind": "Pod", "name": "n1"},
        {"kind": "Pod"},
        {"kind": "Node"},
        {"name": "UPPER_case"},
        {"name": "n1"},
    ],
)
async def test_a_bad_target(bare: Both, target: dict[str, str]) -> None:
    """D2: 500 if it is no node or has no name; it needs no kind, and the form of the name does not matter."""

    async def observe(side: Side) -> Any:
        await made(side, pods(side), pod("p"))
        return await bind(side, "p", {**binding("p"), "target": target})

    assert (await bare.same(observe))[0] == (201 if list(target) == ["name"] and target["name"] else 500)


async def test_bindings_of_a_namespace(bare: Both) -> None:
    """D2: the older endpoint takes the pod's name from the body."""

    async def observe(side: Side) -> Any:
        await made(side, pods(side), pod("p"))
        path = f"/api/v1/namespaces/{side.namespace}/bindings"
        found = [short(await side.call("POST", path, body=binding(name))) for name in ("p", "p", "missing")]
        return [found, (await got(side, pods(side, "p")))["spec"]["nodeName"]]

    codes, node = await bare.same(observe)
    assert [code for code, _ in codes] == [201, 409, 404]
    assert node == "n1"


async def test_annotations_of_a_binding_are_not_checked(bare: Both) -> None:
    """D2: whatever their keys are."""

    async def observe(side: Side) -> Any:
        found = []
        for number, words in enumerate(({"not a key!": "x"}, {"big": "x" * 262145}, {"empty": ""})):
            name = f"p{number}"
            await made(side, pods(side), pod(name))
            found.append(await bind(side, name, binding(name, annotations=words)))
            # Every later write has to pass the stored annotations.
            found.append((await got(side, pods(side, name)))["metadata"].get("annotations"))
        return found

    await bare.same(observe)


async def test_a_bound_pod_leaves_the_pods_that_wait(bare: Both) -> None:
    """D2: to a scheduler's watch of pods without a node the bound one is deleted."""

    async def observe(side: Side) -> Any:
        created = await made(side, pods(side), pod("p"))
        version = created["metadata"]["resourceVersion"]
        async with watching(side, pods(side), fieldSelector="spec.nodeName=", resourceVersion=version) as watch:
            await bind(side, "p", binding("p"))
            event = await watch.next()
            return [brief(event), event["object"]["spec"].get("nodeName")]

    assert await bare.same(observe) == [["DELETED", "p", {}], None]


@pytest.mark.parametrize(
    "head", [{"kind": "Pod"}, {"apiVersion": "v2"}, {"kind": "Deployment", "apiVersion": "apps/v1"}]
)
async def test_a_binding_of_another_kind(bare: Both, head: dict[str, str]) -> None:
    """D2: 400 for what is no Binding; the text goes on with the server's own names of types."""

    async def observe(side: Side) -> Any:
        await made(side, pods(side), pod("p"))
        code, body = await bind(side, "p", {**binding("p"), **head})
        return [code, body["reason"], body["message"].partition(" as a Binding")[:2]]

    assert (await bare.same(observe))[0] == 400


async def test_a_binding_that_is_tried(bare: Both) -> None:
    """D2: with dryRun it is checked and not done."""

    async def observe(side: Side) -> Any:
        await made(side, pods(side), pod("p"))
        tried = await side.call("POST", pods(side, "p", "binding"), body=binding("p"), params={"dryRun": "All"})
        return [short(tried), (await got(side, pods(side, "p")))["spec"].get("nodeName")]

    seen = await bare.same(observe)
    assert (seen[0][0], seen[1]) == (201, None)


async def test_a_binding_of_a_pod_that_has_ended(bare: Both) -> None:
    """D2: the phase does not matter."""

    async def observe(side: Side) -> Any:
        created = await made(side, pods(side), pod("p"))
        created["status"]["phase"] = "Failed"
        await side.call("PUT", pods(side, "p", "status"), body=created)
        return [await bind(side, "p", binding("p")), await got(side, pods(side, "p"))]

    assert (await bare.same(observe))[0][0] == 201


async def test_a_pod_that_names_its_node_itself(bare: Both) -> None:
    """D2: it is as if it were bound, without a condition."""

    async def observe(side: Side) -> Any:
        created = await made(side, pods(side), pod("p", {"nodeName": "n1"}))
        return [created, await bind(side, "p", binding("p"))]

    created, refused = await bare.same(observe)
    assert created["spec"]["nodeName"] == "n1"
    assert refused[0] == 409
