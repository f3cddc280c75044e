"""Promises of the extender's HTTP edge, over real HTTP; and the recorded dialogues of the original."""

from __future__ import annotations

import asyncio
import copy
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gpushare.extender.bind import Binder
from gpushare.extender.cache import SchedulerCache
from gpushare.extender.controller import Controller
from gpushare.extender.http_server import HttpServer
from gpushare.kube.client import ApiClient
from tests.servers import StubApi, serve, until

RECORDED = Path(__file__).parents[2] / "data" / "upstream" / "extender"
PREFIX = "/gpushare-scheduler"


@asynccontextmanager
async def extender(api: StubApi, *, ready: bool = True) -> AsyncIterator[httpx2.AsyncClient]:
    """The extender's parts wired as in its main, on a stub API server."""
    async with serve(api) as url, httpx2.AsyncClient(base_url=url, trust_env=False) as to_api:
        client, cache = ApiClient(to_api), SchedulerCache()
        controller = Controller(client, cache)
        binder = Binder(client, cache, clock_ns=time.time_ns, monotonic=time.monotonic)
        following = asyncio.create_task(controller.run())
        await until(lambda: not ready or controller.is_ready())
        async with (
            serve(HttpServer(cache, binder, controller.is_ready if ready else lambda: False)) as own,
            httpx2.AsyncClient(base_url=own, trust_env=False) as http,
        ):
            yield http
        await binder.close()
        following.cancel()
        await asyncio.wait([following])


def recorded(name: str) -> dict[str, Any]:
    """One recorded dialogue."""
    return json.loads((RECORDED / f"{name}.json").read_text())


def stub(document: dict[str, Any]) -> StubApi:
    """An API server with the recording's nodes and pods, before anything was bound by it."""
    pods = copy.deepcopy(document["pods"])
    bound_by_recording = {"six", "sixb"}
    for pod in pods:
        if pod["metadata"]["name"] in bound_by_recording:
            pod["metadata"]["annotations"] = {}
    return StubApi(nodes=copy.deepcopy(document["nodes"]), pods=pods)


async def replay(http: httpx2.AsyncClient, step: dict[str, Any]) -> httpx2.Response:
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


@pytest.mark.parametrize("number", range(14))
async def test_recorded_filter_and_inspect_dialogue(number: int) -> None:
    """Status, content type and every decision are the original's; what differs is a named defect."""
    document = recorded("filter")
    step = document["steps"][number]
    async with extender(stub(document)) as http:
        answer = await replay(http, step)
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
    """The same nodes fit and the same are refused; ours says it without defects."""
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


async def test_recorded_bind_dialogue() -> None:
    """Same cards, same annotations; one write instead of two (D20), refusals as 200 with Error, a bind twice is success."""
    document = recorded("bind")
    api = stub(document)
    answers = {}
    async with extender(api) as http:
        for step in document["steps"]:
            api.calls.clear()
            answer = await replay(http, step)
            what = step["what"]
            answers[what] = (answer.status_code, answer.json(), [c for c in api.calls if c["method"] != "GET"])
            if step["request"]["method"] == "POST" and step["response"]["status"] == 200:
                (write,) = answers[what][2]
                theirs_patch, theirs_binding = step["api_calls"]
                assert write["path"] == theirs_binding["path"]
                assert write["body"]["target"] | {"apiVersion": "v1"} == theirs_binding["body"]["target"] | {
                    "apiVersion": "v1"
                }
                assert write["body"]["metadata"]["uid"] == theirs_binding["body"]["metadata"]["uid"]
                ours = write["body"]["metadata"]["annotations"]
                # Named: ours says that its book follows a change of the card.
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
    """Annotations but for the assume time, which is a clock's; it has the same number of digits."""
    assert len(annotations["ALIYUN_COM_GPU_MEM_ASSUME_TIME"]) == 19
    return {name: value for name, value in annotations.items() if not name.endswith("ASSUME_TIME")}


@pytest.mark.parametrize("name", ["malformed-filter", "malformed-bind", "inspect-unknown-node"])
async def test_recorded_nonsense_is_answered(name: str) -> None:
    """Filter as recorded but for Go's wording; bind with 200 instead of 500; an unknown node answered (D19)."""
    document = recorded(name)
    async with extender(stub(document)) as http:
        for step in document["steps"]:
            answer = await replay(http, step)
            expected = step["response"]
            if step["what"] == "unknown node":
                assert (answer.status_code, answer.json()["nodes"]) == (404, [])
                assert "nope" in answer.json()["error"]
            elif step["what"] == "still alive":
                assert (answer.status_code, answer.text) == (200, expected["body"])
            else:
                assert (answer.status_code, answer.headers["content-type"]) == (200, expected["content_type"])
                assert set(answer.json()) == set(expected["body"])
                assert answer.json()["Error"]


async def test_ready_only_after_the_first_full_read() -> None:
    """Before that, filter and bind say so instead of deciding on half a book; health is another question."""
    document = recorded("filter")
    async with extender(stub(document), ready=False) as http:
        assert (await http.get("/readyz")).status_code == 503
        assert (await http.get("/healthz")).status_code == 200
        question = next(step for step in document["steps"] if step["request"]["path"].endswith("filter"))
        assert "not read the cluster" in (await replay(http, question)).json()["Error"]
        order = {"PodName": "six", "PodNamespace": "default", "PodUID": "", "Node": "gpu-a"}
        assert "not read the cluster" in (await http.post(f"{PREFIX}/bind", content=json.dumps(order))).json()["Error"]
    async with extender(stub(document)) as http:
        assert (await http.get("/readyz")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("POST", "/version", 405),
        ("PUT", f"{PREFIX}/bind", 405),
        ("POST", f"{PREFIX}/inspect/gpu-a", 405),
        ("POST", f"{PREFIX}/filter/", 308),
        ("HEAD", "/version", 200),
    ],
)
async def test_paths_and_methods(method: str, path: str, status: int) -> None:
    """Unknown paths are 404, wrong methods 405, a trailing slash is redirected."""
    async with extender(StubApi()) as http:
        assert (await http.request(method, path)).status_code == status


async def test_two_hundred_requests_on_one_connection() -> None:
    """Keep-alive, and a length on every answer: Go's client would reconnect otherwise."""
    async with extender(stub(recorded("filter"))) as http:
        for _ in range(200):
            answer = await http.get(f"{PREFIX}/inspect")
            assert int(answer.headers["content-length"]) == len(answer.content)


async def test_a_filter_with_two_megabytes_of_nodes_echoes_those_that_fit() -> None:
    """A scheduler without node cache sends every node in full."""
    document = recorded("filter")
    pod = next(pod for pod in document["pods"] if pod["metadata"]["name"] == "seven")
    big = [{**node, "padding": "x" * 700_000} for node in document["nodes"]]
    async with extender(stub(document)) as http:
        body = {"Pod": pod, "Nodes": {"items": big}, "NodeNames": None}
        answer = (await http.post(f"{PREFIX}/filter", content=json.dumps(body))).json()

    assert answer["Nodes"]["items"] == [big[1]]
