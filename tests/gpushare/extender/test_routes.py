"""Promises of the extender's paths and verbs, over real HTTP; and the recorded dialogues of the original."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clusters.api.connection import Answer as HttpAnswer
from gpushare.serving.http_connection import Answer, HttpRequest
from tests.gpushare.extender.rig import Extender, Object, extender, following, node, pod, served
from tests.servers import Caller

RECORDED = Path(__file__).parents[2] / "data" / "upstream" / "extender"
PREFIX = "/gpushare-scheduler"


def recorded(name: str) -> dict[str, Any]:
    """One recorded dialogue."""
    return json.loads((RECORDED / f"{name}.json").read_text())


@contextlib.asynccontextmanager
async def recording(document: Object) -> AsyncIterator[Extender]:
    """An extender with the recording's nodes and pods, before anything was bound by it."""
    nodes = [{**one, "kind": "Node"} for one in document["nodes"]]
    pods = [{**copy.deepcopy(one), "kind": "Pod"} for one in document["pods"]]
    for one in pods:
        if one["metadata"]["name"] in ("six", "sixb"):
            one["metadata"]["annotations"] = {}
    async with following(*nodes, *pods) as on, served(on):
        yield on


async def replay(http: Caller, step: dict[str, Any]) -> HttpAnswer:
    """Ask what the recording asked."""
    request = step["request"]
    body = request["body"]
    content = None if body is None else body if isinstance(body, str) else json.dumps(body)
    return await http.request(request["method"], request["path"], content=content)


# By what the step asks: what the contract does not keep, and why.
FILTER_DEFECTS = {
    "6 of 28 with 6 and 5 free on two cards; 10 free on gpu-b": "full nodes in a names-only answer (D23); reasons with node names",
    "7: gpu-a has 11 free in total but no card has 7": "D23; reasons with node names",
    "two containers 3+4": "D23; reasons with node names",
    "a pod that asks nothing": "D23; a pod without a request is refused on nodes without cards",
    "full nodes in the request": "echoed nodes are changed by a typed round trip; reasons with node names",
    "unknown node": "D23; reasons with node names",
    "no nodes": "an empty list of nodes is null",
    "lower-case keys": "D23; reasons with node names",
}


@pytest.mark.promise("EXT-001")
@pytest.mark.parametrize("number", range(14))
async def test_recorded_filter_and_inspect_dialogue(number: int) -> None:
    """Status, content type and every decision are the original's; what differs is a named defect."""
    document = recorded("filter")
    step = document["steps"][number]
    async with recording(document) as on:
        answer = await replay(on.http, step)
    expected = step["response"]

    assert expected["status"] == answer.status_code
    if answer.status_code == 301:
        assert answer.headers["location"] == f"{PREFIX}/inspect"
        return
    assert expected["content_type"] == answer.headers["content-type"]
    if step["what"] not in FILTER_DEFECTS:
        assert expected["body"] == (answer.text if isinstance(expected["body"], str) else answer.json())
        return
    same_decision(expected["body"], answer.json(), step["request"]["body"])


def same_decision(theirs: dict[str, Any], ours: dict[str, Any], question: dict[str, Any]) -> None:
    """The same nodes fit and the same are refused; our reasons are without the original's defects."""
    refused = {**(ours["FailedNodes"] or {}), **(ours["FailedAndUnresolvableNodes"] or {})}
    if question["Pod" if "Pod" in question else "pod"]["metadata"]["name"] == "plain":
        assert (ours["NodeNames"], refused) == (["gpu-a", "gpu-b", "cpu"], {})
        return
    assert (theirs["NodeNames"], theirs["Error"]) == (ours["NodeNames"], ours["Error"])
    assert set(theirs["FailedNodes"]) == set(refused)
    for name, reason in theirs["FailedNodes"].items():
        assert refused[name] == reason if "one device" in reason else name not in refused[name].split()
    asked_nodes = question.get("Nodes")
    if asked_nodes is None:
        assert ours["Nodes"] is None
    else:
        assert ours["Nodes"]["items"] == [n for n in asked_nodes["items"] if n["metadata"]["name"] in ours["NodeNames"]]


@pytest.mark.promise("EXT-001")
async def test_recorded_bind_dialogue() -> None:
    """The extender binds as recorded, but with one write (D20). A refusal is 200 with Error, and a repeated bind a success."""
    document = recorded("bind")
    answers = {}
    async with recording(document) as on:
        for step in document["steps"]:
            on.api.calls.clear()
            answer = await replay(on.http, step)
            what = step["what"]
            answers[what] = (answer.status_code, answer.json(), [c for c in on.api.calls if c["method"] != "GET"])
            if step["request"]["method"] == "POST" and step["response"]["status"] == 200:
                (write,) = answers[what][2]
                theirs_patch, theirs_binding = step["api_calls"]
                assert write["path"] == theirs_binding["path"]
                v1 = {"apiVersion": "v1"}
                assert write["body"]["target"] | v1 == theirs_binding["body"]["target"] | v1
                assert write["body"]["metadata"]["uid"] == theirs_binding["body"]["metadata"]["uid"]
                ours = write["body"]["metadata"]["annotations"]
                # A known difference: ours marks that its book follows a change of the card.
                assert ours.pop("ALIYUN_COM_GPU_MEM_EXTENDER") == "gpushare/1"
                assert without_time(ours) == without_time(theirs_patch["body"]["metadata"]["annotations"])

    assert all(status == 200 for status, _, _ in answers.values())
    assert answers["bind 6 on gpu-a: only card 0 has 6"][1] == {"Error": ""}
    # Named: the original leaves the pod out of its own list until its copy of it is fresh.
    assert [pod["name"] for pod in answers["inspect after"][1]["nodes"][0]["devs"][0]["pods"]] == ["six", "train"]
    assert answers["another 6 on gpu-a: no card left"][1] == {"Error": "Insufficient GPU Memory in one device"}
    assert answers["bind on gpu-b"][1] == {"Error": ""}
    assert answers["20 on gpu-a"][1] == {"Error": "no GPU of the node is large enough"}
    assert "uid-default-twenty" in answers["wrong uid"][1]["Error"]
    assert "nobody" in answers["unknown pod"][1]["Error"]
    # Named: the original refuses a pod that it bound itself a moment ago.
    assert answers["same bind again"][1] == {"Error": ""}
    refusals = ("another 6 on gpu-a: no card left", "20 on gpu-a", "wrong uid", "unknown pod")
    assert all(answers[what][2] == [] for what in refusals)


def without_time(annotations: dict[str, str]) -> dict[str, str]:
    """Annotations without the assume time, which is a clock's; it has the same number of digits."""
    assert len(annotations["ALIYUN_COM_GPU_MEM_ASSUME_TIME"]) == 19
    return {name: value for name, value in annotations.items() if not name.endswith("ASSUME_TIME")}


async def test_a_node_that_filter_did_not_name() -> None:
    """Bind goes by the last filter of the pod, if the extender remembers one; a pod of another uid was never asked for."""
    nodes, pods = (node("large", 14), node("small", 4), node("unasked", 14)), (pod("a", 6), pod("b", 6))
    async with extender(*nodes, *pods) as on, served(on):
        await on.http.post(f"{PREFIX}/filter", json={"Pod": pods[0], "NodeNames": ["large", "small"]})

        async def bind(name: str, to: str) -> str:
            order = {"PodName": name, "PodNamespace": "d", "PodUID": f"uid-{name}", "Node": to}
            return str((await on.http.post(f"{PREFIX}/bind", json=order)).json()["Error"])

        reason = "was not among those that the last filter of pod d/a let through"
        assert await bind("a", "small") == f"node small {reason}"
        assert await bind("a", "unasked") == f"node unasked {reason}"
        assert await bind("a", "large") == ""
        assert await bind("a", "large") == ""
        assert await bind("b", "unasked") == ""


async def test_ready_only_after_the_first_full_read() -> None:
    """Before that, filter and bind answer so instead of deciding on half a book, and no pod is evicted; it is healthy."""
    document = recorded("filter")
    question = next(step for step in document["steps"] if step["request"]["path"].endswith("filter"))
    order = {"PodName": "six", "PodNamespace": "default", "PodUID": "", "Node": "gpu-a"}
    victims = {"Pod": question["request"]["body"]["Pod"], "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u"}]}}}
    async with recording(document) as on:
        on.ready = False
        assert [(await on.http.get(path)).status_code for path in ("/readyz", "/healthz")] == [503, 200]
        assert "not read the cluster" in (await replay(on.http, question)).json()["Error"]
        assert "not read the cluster" in (await on.http.post(f"{PREFIX}/bind", json=order)).json()["Error"]
        assert (await on.http.post(f"{PREFIX}/preempt", json=victims)).json() == {"NodeNameToMetaVictims": {}}
        on.ready = True
        assert (await on.http.get("/readyz")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", f"{PREFIX}/filter/", 308), ("HEAD", "/version", 200)],
)
async def test_paths_and_methods(method: str, path: str, status: int) -> None:
    """A trailing slash is redirected, and HEAD is answered where GET is."""
    async with extender() as on, served(on):
        assert (await on.http.request(method, path)).status_code == status


INSPECT = HttpRequest("GET", f"{PREFIX}/inspect", b"", is_known=True)


@contextlib.asynccontextmanager
async def over(nodes: int) -> AsyncIterator[Extender]:
    """An extender with that number of nodes."""
    async with extender() as on:
        for number in range(nodes):
            on.knows(node(f"n{number:03}", 14, 14))
        yield on


async def asked(on: Extender) -> list[str]:
    """The names of the nodes that an inspection shows."""
    answer = on.routes(INSPECT)
    assert not isinstance(answer, Answer)
    return [shown["name"] for shown in json.loads((await answer).body)["nodes"]]


async def test_others_are_answered_while_many_nodes_are_inspected() -> None:
    """A filter does not wait until all nodes are described; the inspection is of the moment at which it was asked for."""
    async with over(500) as on:
        inspection = asyncio.ensure_future(asked(on))
        # It has begun by then, and has some sixty rounds before it.
        for _ in range(5):
            await asyncio.sleep(0)
        assert not inspection.done()
        for number in range(500):
            on.book.remove_node(f"n{number:03}")
        assert await inspection == [f"n{number:03}" for number in range(500)]


async def test_inspections_end_with_their_caller() -> None:
    """Two of many parallel questions are described, one after the other; a later one gets a later moment."""
    async with over(100) as on:
        first = asyncio.ensure_future(asked(on))
        for _ in range(3):
            await asyncio.sleep(0)
        others = [asyncio.ensure_future(asked(on)) for _ in range(20)]
        await asyncio.sleep(0)
        others[0].cancel()
        on.book.remove_node("n000")
        await asyncio.wait(others)

        assert len(await first) == 100
        assert others[0].cancelled()
        assert {len(await one) for one in others[1:]} == {99}


async def test_pages_of_other_sites_may_not_ask() -> None:
    """A browser on a forwarded port binds nothing for another site's page, and shows it nothing; probes have any name."""
    evil, bind, form = {"host": "evil.example"}, f"{PREFIX}/bind", {"content-type": "text/plain"}
    async with extender() as on, served(on):
        found = [
            await on.http.get(f"{PREFIX}/inspect", headers=evil),
            await on.http.post(bind, json={}, headers={"origin": "https://evil.example"}),
            await on.http.post(bind, json={}, headers=form),
            await on.http.get("/healthz", headers=evil),
            await on.http.post(bind, json={}),
        ]

    assert [one.status_code for one in found] == [403, 403, 415, 200, 200]


@pytest.mark.promise("EXT-030")
async def test_two_hundred_requests_on_one_connection() -> None:
    """Each answer has a length, without which Go's client would connect again."""
    async with recording(recorded("filter")) as on:
        for _ in range(200):
            answer = await on.http.get(f"{PREFIX}/inspect")
            assert int(answer.headers["content-length"]) == len(answer.content)
