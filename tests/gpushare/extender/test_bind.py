"""Promises of gpushare.extender.bind and node_guard, against an API server that fails on purpose."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from gpushare import wire
from gpushare.errors import DoesNotFitError
from gpushare.extender.bind import UNKNOWN_OUTCOME_SECONDS, BindError
from gpushare.extender.core.reservations import EMPTY, Fate, State, encode
from gpushare.extender.core.workload import Workload
from gpushare.extender.node_guard import GuardError, NodeGuards
from gpushare.manifests import ObjectMeta
from gpushare.model.forecast import Forecast, PodClass
from gpushare.model.node import Booking
from tests.gpushare.extender.rig import INDEX, Extender, Object, extender, node, pod
from tests.gpushare.kube.scripted_api import Answer, Call, ScriptedApi, client_of, listen
from tests.passing_time import pass_time_until
from tests.servers import status, until

# A finalizer keeps it.
DELETING = pod("a") | {"metadata": pod("a")["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}


def hang(method: str, path: str) -> str | None:
    """No answer to a bind."""
    return "hang" if method == "POST" else None


async def come_to(_version: int, _seconds: float) -> bool:
    """Our copy of the pods is fresh."""
    return True


def bench(*pods: Object, **more: Any) -> contextlib.AbstractAsyncContextManager[Extender]:
    """Nodes ``n`` with two cards of 14 and ``m`` with one of 14."""
    return extender(node("n", 14, 14), node("m", 14), *pods, now=0.0, **more)


async def bind_unanswered(b: Extender, name: str, to: str = "n") -> None:
    """Bind with an API server that does not answer: the client's time-out elapses as soon as the request has arrived."""
    asked = len(b.sent("POST"))
    order = asyncio.create_task(b.bind(name, to))
    await until(lambda: len(b.sent("POST")) > asked)
    await pass_time_until(order.done)
    with pytest.raises(BindError, match="did not say"):
        await order


async def test_the_card_is_the_one_that_prioritize_thought_of() -> None:
    """Bind takes the card that prioritize chose, even if CPU decides between cards.

    Seven units are of use to pods of sixteen CPUs, which will not fit beside this pod.
    """
    holders = [pod("first", 7, "n", 0), pod("second", 4, "n", 1)]
    needy = pod("needy")
    needy["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "14"}
    expected = Forecast({PodClass(14, cpu_milli=8000): 1, PodClass(7, cpu_milli=16_000): 1})
    workload = Workload(counts_cpu=True, expected=expected)
    async with bench(*holders, needy, policy=wire.POLICY_FRAGMENTATION, workload=workload) as b:
        roomy = node("n", 14, 14)
        roomy["status"]["allocatable"] = {"cpu": "18"}
        b.knows(roomy)
        await b.bind("needy")

        assert b.used() == [10, 4]
        # Nothing before the one write, not even a read.
        assert [call["method"] for call in b.api.calls] == ["POST"]


async def test_a_bind_that_a_restore_undid_is_made_again() -> None:
    """The API server has lost the Binding that it acknowledged, so the pod is not taken for bound."""
    async with bench(pod("a")) as b:
        await b.bind("a")
        b.api.pods[0]["spec"]["nodeName"] = None
        b.book.restart_history()
        b.knows(b.api.pods[0])
        await b.bind("a", to="m")

        assert [call["body"]["target"]["name"] for call in b.sent("POST")] == ["n", "m"]
        b.knows(b.api.pods[0])
        assert (b.used("n"), b.used("m")) == ([0, 0], [3])


async def test_pod_bound_here_by_another_without_a_card_is_an_error() -> None:
    """A pod that another program bound here without a card is an error and no success."""
    async with bench(pod("a", on="n"), known=["Node"]) as b:
        with pytest.raises(BindError, match="not by us"):
            await b.bind("a")


async def test_a_pod_without_cards_is_refused() -> None:
    """No scheduler asks that of an extender, so the caller is a stranger."""
    stranger = pod("a")
    stranger["spec"]["containers"] = [{"name": "c", "resources": {"limits": {"cpu": "1"}}}, {"name": "d"}]
    async with bench(stranger) as b:
        with pytest.raises(BindError, match=r"pod d/a asks for no aliyun.com/gpu-\* resource"):
            await b.bind("a")

        assert b.sent("POST") == []


@pytest.mark.parametrize("resource", ["aliyun.com/gpu-slot", "aliyun.com/gpu-count"])
async def test_a_pod_that_names_another_of_our_resources_is_bound(resource: str) -> None:
    """A scheduler whose ``managedResources`` name that resource sends us its binds."""
    other = pod("a")
    other["spec"]["containers"] = [{"name": "c", "resources": {"limits": {resource: "1"}}}]
    async with bench(other) as b:
        await b.bind("a")

        assert b.sent("POST")[0]["body"]["metadata"]["annotations"] == {}


@pytest.mark.promise("EXT-025")
async def test_an_answer_that_is_lost_after_the_bind_is_success() -> None:
    """The request took effect, the answer was 500; the API shows the pod as bound."""
    async with bench(pod("a")) as b:

        def bind_then_fail(method: str, path: str) -> Any:
            if method != "POST":
                return None
            b.api.answer(method, path, "", {"target": {"name": "n"}, "metadata": {"annotations": {INDEX: "0"}}})
            return status(500, "etcd is slow")

        b.api.fault = bind_then_fail
        await b.bind("a")

        assert b.used() == [3, 0]


@pytest.mark.promise("EXT-025")
@pytest.mark.parametrize("is_ordered_again", [False, True])
async def test_lost_answer_keeps_the_card_until_its_fate_is_certain(is_ordered_again: bool) -> None:
    """No answer, the pod not bound yet: the request may still land, so its room is reserved for 90 s.

    The refusal of a second request says nothing about the first.
    """
    async with bench(pod("a", 14), pod("b", 14), fault=hang) as b:
        await bind_unanswered(b, "a", "m")
        if is_ordered_again:
            b.api.fault = lambda method, path: status(429, "later") if "/a/" in path and method == "POST" else None
            with pytest.raises(BindError, match="refused"):
                await b.bind("a", "m")
        assert b.used("m") == [14]
        assert b.binder.is_under_way("d", "a", "uid-a"), "an audit would end its reservation"
        with pytest.raises(DoesNotFitError):
            await b.bind("b", "m")

        b.now = UNKNOWN_OUTCOME_SECONDS + 1
        await until(lambda: b.used("m") == [0])


@pytest.mark.parametrize(
    ("left", "used"),
    [(None, [3, 0]), ([], [0, 0]), ([pod("a", uid="new")], [0, 0]), ([DELETING], [0, 0])],
    ids=["bound", "gone", "re-created", "being deleted"],
)
async def test_a_lost_answer_ends_when_the_pod_shows_its_fate(left: list[Object] | None, used: list[int]) -> None:
    """The request landed late, or the pod is gone, re-created or being deleted: that request cannot bind it any more."""
    async with bench(pod("a"), fault=hang) as b:
        await bind_unanswered(b, "a")
        if left is None:
            b.api.fault = lambda method, path: None
            b.api.released.set()
        else:
            b.api.pods[:] = left
        await until(lambda: not b.binder.resolving)
        b.now = UNKNOWN_OUTCOME_SECONDS + 1

        assert b.used() == used


@pytest.mark.promise("EXT-025")
async def test_a_second_try_after_a_lost_answer_says_the_same_card() -> None:
    """Whichever request lands, the pod's annotation names the card that is booked."""
    async with bench(pod("a", 3), pod("b", 9), fault=hang, ask_seconds=30) as b:
        await bind_unanswered(b, "a")
        b.api.fault = lambda method, path: None
        await b.bind("b")
        await b.bind("a")

        bodies = [call["body"] for call in b.sent("POST") if "/a/" in call["path"]]
        cards = [body["metadata"]["annotations"][INDEX] for body in bodies]
        assert cards == ["0", "0"]
        assert b.used() == [12, 0]


async def test_the_size_is_that_of_the_card_when_it_was_chosen() -> None:
    """While a guard is written the kubelet may restart, and show no memory for a moment."""
    async with bench(pod("a")) as b:

        def fault(method: str, path: str) -> Any:
            if "/leases" not in path:
                return None
            if method == "GET":
                return status(404, "no such guard")
            b.knows(node("n", 0, 0))
            return 201, {"metadata": {"resourceVersion": "1"}}

        b.api.fault = fault
        b.binder.guards = NodeGuards(b.client, "me", b.book.fate_of, come_to)
        await b.bind("a")

        assert b.api.pod("a")["metadata"]["annotations"][wire.ANNOTATION_DEVICE_UNITS] == "14"


@pytest.mark.promise("EXT-025")
async def test_two_orders_for_one_pod_run_one_after_the_other() -> None:
    """A scheduler that timed out asks again while the first request is under way: one request at a time, one card."""
    async with bench(pod("a"), fault=hang) as b:
        orders = [asyncio.create_task(b.bind("a")) for _ in range(3)]
        await until(lambda: len(b.sent("POST")) == 1)
        await asyncio.sleep(0.05)
        assert len(b.sent("POST")) == 1
        b.api.released.set()
        await asyncio.gather(*orders)

        assert b.used() == [3, 0]


async def test_a_caller_that_goes_away_does_not_stop_the_bind() -> None:
    """A bind that was begun is finished, so that no card is booked without a Binding."""
    async with bench(pod("a")) as b:
        order = asyncio.create_task(b.bind("a"))
        await until(lambda: b.used() == [3, 0])
        order.cancel()
        await asyncio.wait([order])
        await until(lambda: bool(b.api.pod("a")["spec"].get("nodeName")))

        assert b.used() == [3, 0]


async def test_pod_that_ends_during_its_read_is_an_error() -> None:
    """The watch may be ahead of the read."""
    async with bench(pod("a"), known=["Node"]) as b:
        b.book.remove_pod(ObjectMeta(name="a", namespace="d", uid="uid-a"))
        with pytest.raises(BindError, match="has ended"):
            await b.bind("a")

        assert (b.sent("POST"), b.used()) == ([], [0, 0])


async def test_a_second_try_on_a_card_that_is_gone_is_an_error() -> None:
    """The node came back with fewer cards in between."""
    pods = pod("x", 14), pod("a", 3)
    async with bench(*pods, fault=lambda method, path: "hang" if "/a/" in path else None, ask_seconds=30) as b:
        await b.bind("x")
        await bind_unanswered(b, "a")
        b.knows(node("n", 14))
        with pytest.raises(DoesNotFitError, match="card 1 of node n is gone"):
            await b.bind("a")


async def test_a_guard_error_names_no_other_pod() -> None:
    """A reserved pod of another namespace cannot be read; the error becomes an event of the pod that should be bound."""
    reserved = EMPTY.with_pod(Booking("u", "secret", "plan", 1, ((0, 1),)), "other")

    def respond(call: Call) -> Answer:
        if "/leases/" in call.path:
            return Answer({"metadata": {"annotations": {"aliyun.com/gpushare-reservations": encode(reserved)}}})
        return Answer({"kind": "Status", "message": 'pods "plan" in namespace "secret": try later', "code": 503}, 503)

    def never() -> None:
        raise AssertionError("nothing was booked")

    api = ScriptedApi(respond)
    async with listen(api) as url, client_of(url) as client:
        guards = NodeGuards(client, "me", lambda _: Fate(State.UNKNOWN), come_to)
        with pytest.raises(GuardError) as refused:
            await guards.reserve("n", lambda _: Booking("v", "ns", "mine", 1, ((0, 1),)), never)

    assert "secret" not in str(refused.value)
    assert "plan" not in str(refused.value)
    assert any(call.path.endswith("/namespaces/secret/pods/plan") for call in api.calls)


async def test_a_missing_namespace_of_guards_is_named() -> None:
    """The extender was started with --guarded and the component with the namespace is not installed."""

    def respond(call: Call) -> Answer:
        return Answer({"kind": "Status", "message": 'namespaces "guards" not found', "code": 404}, 404)

    unbooked = []
    api = ScriptedApi(respond)
    async with listen(api) as url, client_of(url) as client:
        guards = NodeGuards(client, "me", lambda _: Fate(State.UNKNOWN), come_to)
        with pytest.raises(GuardError, match="the namespace gpushare-guards .* install components/several-extenders"):
            await guards.reserve("n", lambda _: Booking("v", "ns", "mine", 1, ((0, 1),)), lambda: unbooked.append(1))

    assert unbooked == [1]
    assert [call.method for call in api.calls] == ["GET", "POST"]
