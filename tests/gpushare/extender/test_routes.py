"""Promises of the extender's paths and verbs, over real HTTP; and the recorded dialogues of the original."""

from __future__ import annotations

import asyncio
import copy
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clusters.api.connection import Answer as HttpAnswer
from gpushare import wire
from gpushare.extender.bind import Binder
from gpushare.extender.core.book import Book
from gpushare.extender.core.filter_cache import FilterCache
from gpushare.extender.follow.controller import Controller
from gpushare.extender.routes import Routes
from gpushare.extender.verbs import Verbs
from gpushare.kube.client import ApiClient
from gpushare.kube.http_pool import HttpPool
from gpushare.manifests import Node
from gpushare.serving.http_connection import Answer, HttpRequest
from tests.gpushare.serving.edges import edge
from tests.servers import Caller, StubApi, anonymous, http_pool, plain_http, serve, until

RECORDED = Path(__file__).parents[2] / "data" / "upstream" / "extender"
PREFIX = "/gpushare-scheduler"


@asynccontextmanager
async def extender(api: StubApi, *, ready: bool = True) -> AsyncIterator[Caller]:
    """The extender's parts wired as in its main, on a stub API server."""
    async with serve(api) as url, http_pool(url) as to_api:
        client, book = ApiClient(to_api), Book()
        controller = Controller(client, book)
        binder = Binder(client, book, clock_ns=time.time_ns, monotonic=time.monotonic)
        following = asyncio.create_task(controller.run())
        await until(lambda: not ready or controller.is_ready())
        is_ready = controller.is_ready if ready else lambda: False
        verbs = Verbs(
            book, binder, FilterCache(), is_ready=is_ready, policy=wire.POLICY_BINPACK, monotonic=time.monotonic
        )
        routes = Routes(book, verbs, is_ready)
        async with edge(routes) as own, plain_http(own) as http:
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
    nodes = [
        {"metadata": {"name": name}, "status": {"capacity": {"aliyun.com/gpu-mem": units, "aliyun.com/gpu-count": "1"}}}
        for name, units in (("large", "14"), ("small", "4"), ("unasked", "14"))
    ]
    container = {"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": "6"}}}
    pods = [
        {"metadata": {"name": name, "namespace": "d", "uid": f"u-{name}"}, "spec": {"containers": [container]}}
        for name in ("a", "b")
    ]
    async with extender(StubApi(nodes=nodes, pods=pods)) as http:
        await http.post(f"{PREFIX}/filter", json={"Pod": pods[0], "NodeNames": ["large", "small"]})

        async def bind(pod: str, node: str) -> str:
            order = {"PodName": pod, "PodNamespace": "d", "PodUID": f"u-{pod}", "Node": node}
            return str((await http.post(f"{PREFIX}/bind", json=order)).json()["Error"])

        reason = "was not among those that the last filter of pod d/a let through"
        assert await bind("a", "small") == f"node small {reason}"
        assert await bind("a", "unasked") == f"node unasked {reason}"
        assert await bind("a", "large") == ""
        assert await bind("a", "large") == ""
        assert await bind("b", "unasked") == ""


async def test_ready_only_after_the_first_full_read() -> None:
    """Before that, filter and bind answer so instead of deciding on half a book, and no pod is evicted; it is healthy."""
    document = recorded("filter")
    async with extender(stub(document), ready=False) as http:
        assert (await http.get("/readyz")).status_code == 503
        assert (await http.get("/healthz")).status_code == 200
        question = next(step for step in document["steps"] if step["request"]["path"].endswith("filter"))
        assert "not read the cluster" in (await replay(http, question)).json()["Error"]
        order = {"PodName": "six", "PodNamespace": "default", "PodUID": "", "Node": "gpu-a"}
        assert "not read the cluster" in (await http.post(f"{PREFIX}/bind", content=json.dumps(order))).json()["Error"]
        victims = {"Pod": question["request"]["body"]["Pod"], "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u"}]}}}
        assert (await http.post(f"{PREFIX}/preempt", json=victims)).json() == {"NodeNameToMetaVictims": {}}
    async with extender(stub(document)) as http:
        assert (await http.get("/readyz")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", f"{PREFIX}/filter/", 308), ("HEAD", "/version", 200)],
)
async def test_paths_and_methods(method: str, path: str, status: int) -> None:
    """A trailing slash is redirected, and HEAD is answered where GET is."""
    async with extender(StubApi()) as http:
        assert (await http.request(method, path)).status_code == status


def routes_on(book: Book) -> Routes:
    """The paths, with a book that nothing follows."""
    client = ApiClient(
        HttpPool("http://127.0.0.1:9", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), anonymous, timeout_seconds=1)
    )
    binder = Binder(client, book, clock_ns=time.time_ns, monotonic=time.monotonic)
    policy = wire.POLICY_BINPACK
    verbs = Verbs(book, binder, FilterCache(), is_ready=lambda: True, policy=policy, monotonic=time.monotonic)
    return Routes(book, verbs, lambda: True)


async def test_others_are_answered_while_many_nodes_are_inspected() -> None:
    """A filter does not wait until all nodes are described; the inspection is of the moment at which it was asked for."""
    book = Book()
    for number in range(500):
        book.set_node(msgspec.convert(gpu_node(f"n{number:03}"), type=Node))
    inspection = routes_on(book)(HttpRequest("GET", f"{PREFIX}/inspect", b"", is_known=True))
    assert not isinstance(inspection, Answer)
    asked = asyncio.ensure_future(inspection)
    # It has begun by then, and has some sixty rounds before it.
    for _ in range(5):
        await asyncio.sleep(0)

    assert not asked.done()
    for number in range(500):
        book.remove_node(f"n{number:03}")
    answer = await asked
    assert [node["name"] for node in json.loads(answer.body)["nodes"]] == [f"n{number:03}" for number in range(500)]


async def test_inspections_end_with_their_caller() -> None:
    """Two of many parallel questions are described, one after the other; a later one gets a later moment."""
    book = Book()
    for number in range(100):
        book.set_node(msgspec.convert(gpu_node(f"n{number:03}"), type=Node))
    routes, request = routes_on(book), HttpRequest("GET", f"{PREFIX}/inspect", b"", is_known=True)

    async def asked() -> Answer:
        answer = routes(request)
        assert not isinstance(answer, Answer)
        return await answer

    first = asyncio.ensure_future(asked())
    for _ in range(3):
        await asyncio.sleep(0)
    others = [asyncio.ensure_future(asked()) for _ in range(20)]
    await asyncio.sleep(0)
    others[0].cancel()
    book.remove_node("n000")
    early, *late = await asyncio.gather(first, *others, return_exceptions=True)

    assert isinstance(early, Answer)
    assert len(json.loads(early.body)["nodes"]) == 100
    answers = [one for one in late if isinstance(one, Answer)]
    assert len(answers) == 19
    assert len({id(one.body) for one in answers}) == 1
    assert len(json.loads(answers[0].body)["nodes"]) == 99


def gpu_node(name: str) -> dict[str, Any]:
    """Two cards of 14 units."""
    amounts = {wire.RESOURCE_MEMORY: "28", wire.RESOURCE_COUNT: "2"}
    return {"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}


async def test_pages_of_other_sites_may_not_ask() -> None:
    """A browser on a forwarded port binds nothing for another site's page, and shows it nothing; probes have any name."""
    evil, bind, form = {"host": "evil.example"}, f"{PREFIX}/bind", {"content-type": "text/plain"}
    api = StubApi()
    async with extender(api) as http:
        found = [
            await http.get(f"{PREFIX}/inspect", headers=evil),
            await http.post(bind, json={}, headers={"origin": "https://evil.example"}),
            await http.post(bind, json={}, headers=form),
            await http.get("/healthz", headers=evil),
            await http.post(bind, json={}),
        ]

    assert [one.status_code for one in found] == [403, 403, 415, 200, 200]


@pytest.mark.promise("EXT-030")
async def test_two_hundred_requests_on_one_connection() -> None:
    """Each answer has a length, without which Go's client would connect again."""
    async with extender(stub(recorded("filter"))) as http:
        for _ in range(200):
            answer = await http.get(f"{PREFIX}/inspect")
            assert int(answer.headers["content-length"]) == len(answer.content)
