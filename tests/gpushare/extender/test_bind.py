"""Promises of gpushare.extender.bind, against an API server that fails on purpose."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from gpushare import wire
from gpushare.errors import DoesNotFitError
from gpushare.extender.bind import UNKNOWN_OUTCOME_SECONDS, Binder, BindError
from gpushare.extender.core.book import Book
from gpushare.extender.core.messages import BindingArgs
from gpushare.extender.core.workload import Workload
from gpushare.kube.client import ApiClient
from gpushare.manifests import Node, ObjectMeta, Pod
from gpushare.model.forecast import Forecast, PodClass
from tests.passing_time import pass_time_until
from tests.servers import StubApi, http_pool, serve, status, until

MEMORY, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"


def pod(name: str, units: int = 3, uid: str | None = None) -> dict[str, Any]:
    """A pending pod."""
    return {
        "metadata": {"name": name, "namespace": "d", "uid": uid or f"uid-{name}"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {MEMORY: str(units)}}}]},
        "status": {"phase": "Pending"},
    }


def node(name: str, *cards: int) -> dict[str, Any]:
    """A node with equal cards."""
    return {"metadata": {"name": name}, "status": {"capacity": {MEMORY: str(sum(cards)), COUNT: str(len(cards))}}}


def hang(method: str, path: str) -> str | None:
    """No answer to a bind."""
    return "hang" if method == "POST" else None


@dataclass
class Bench:
    """A binder on a stub API server; ``clock`` may be moved."""

    api: StubApi
    book: Book
    binder: Binder
    clock: list[float]

    async def bind(self, name: str, to: str = "n", uid: str | None = None) -> None:
        await self.binder.bind(BindingArgs(name, "d", f"uid-{name}" if uid is None else uid, to))

    async def bind_unanswered(self, name: str, to: str = "n") -> None:
        """Bind with an API server that does not answer: the client's time-out elapses as soon as the request has arrived."""
        asked = len(self.posts())
        order = asyncio.create_task(self.bind(name, to))
        await until(lambda: len(self.posts()) > asked)
        await pass_time_until(order.done)
        await order

    def used(self, name: str = "n") -> list[int]:
        return [device.used for device in self.book.snapshot().nodes[name].devices]

    def posts(self) -> list[dict[str, Any]]:
        return [call for call in self.api.calls if call["method"] == "POST"]


@asynccontextmanager
async def bench(
    *pods: dict[str, Any],
    fault: Callable[[str, str], Any] = lambda method, path: None,
    known: bool = True,
    policy: str = wire.POLICY_BINPACK,
    workload: Workload | None = None,
    ask_seconds: float = 0.01,
) -> AsyncIterator[Bench]:
    """Nodes ``n`` with two cards of 14 and ``m`` with one of 14; the pods are known to the book."""
    nodes = [node("n", 14, 14), node("m", 14)]
    api = StubApi(nodes=nodes, pods=list(pods), fault=fault)
    clock = [0.0]
    async with serve(api) as url, http_pool(url) as http:
        book = Book(workload)
        for one in nodes:
            book.set_node(msgspec.convert(one, Node))
        for one in pods if known else ():
            book.set_pod(msgspec.convert(one, Pod))
        numbers = itertools.count(10**18)
        binder = Binder(
            ApiClient(http), book, clock_ns=lambda: next(numbers), monotonic=lambda: clock[0], policy=policy,
            ask_seconds=ask_seconds,
        )  # fmt: skip
        yield Bench(api, book, binder, clock)
        api.released.set()
        await binder.close()


async def test_the_card_is_the_one_that_prioritize_thought_of() -> None:
    """Bind takes the card that prioritize chose, even if CPU decides between cards.

    Seven units are of use to pods of sixteen CPUs, which will not fit beside this pod.
    """
    holders = [pod("first", 7), pod("second", 4)]
    for index, one in enumerate(holders):
        one["metadata"]["annotations"] = {"ALIYUN_COM_GPU_MEM_IDX": str(index)}
        one["spec"]["nodeName"] = "n"
    needy = pod("needy")
    needy["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "14"}
    expected = Forecast({PodClass(14, cpu_milli=8000): 1, PodClass(7, cpu_milli=16_000): 1})
    workload = Workload(counts_cpu=True, expected=expected)
    async with bench(*holders, needy, policy=wire.POLICY_FRAGMENTATION, workload=workload) as b:
        roomy = node("n", 14, 14)
        roomy["status"]["allocatable"] = {"cpu": "18"}
        b.book.set_node(msgspec.convert(roomy, Node))
        await b.bind("needy")

        assert b.used() == [10, 4]
        # Nothing before the one write, not even a read.
        assert [call["method"] for call in b.api.calls] == ["POST"]


@pytest.mark.parametrize("code", [403, 404])
async def test_pod_bound_a_moment_ago_keeps_its_card_at_a_refusal(code: int) -> None:
    """Our copy does not show the Binding yet; the refusal of a second request is no reason to give its card away."""
    async with bench(pod("a", 14)) as b:
        await b.bind("a", "m")
        b.api.fault = lambda method, path: status(code, "not now") if method == "POST" else None
        await b.bind("a", "m")
        assert b.used("m") == [14]
        with pytest.raises(BindError, match="already bound to node m"):
            await b.bind("a", "n")
        assert (b.used("n"), b.used("m")) == ([0, 0], [14])


async def test_refusal_before_a_silence_keeps_the_card() -> None:
    """The API server refuses a second request and then stops answering: the first one may have bound the pod."""
    async with bench(pod("a", 14)) as b:
        await b.bind("a", "m")
        b.api.fault = lambda method, path: status(403 if method == "POST" else 503, "not now")
        with pytest.raises(BindError, match="did not say"):
            await b.bind("a", "m")
        assert b.used("m") == [14]
        b.clock[0] += UNKNOWN_OUTCOME_SECONDS + 1
        b.api.fault = lambda method, path: None
        await until(lambda: not b.binder.resolving)
        assert b.used("m") == [14]


async def test_refusal_before_a_silence_frees_at_the_first_answer() -> None:
    """A refused request cannot land late, so an unbound pod holds its card only while the API server is silent."""
    async with bench(pod("a", 14)) as b:
        b.api.fault = lambda method, path: status(429 if method == "POST" else 503, "not now")
        with pytest.raises(BindError, match="did not say"):
            await b.bind("a", "m")
        assert b.used("m") == [14]
        b.api.fault = lambda method, path: None
        await until(lambda: b.used("m") == [0])


async def test_a_bind_that_a_restore_undid_is_made_again() -> None:
    """The API server has lost the Binding that it acknowledged, so the pod is not taken for bound."""
    async with bench(pod("a")) as b:
        await b.bind("a")
        del b.api.pods[0]["spec"]["nodeName"]
        b.book.restart_history()
        b.book.set_pod(msgspec.convert(b.api.pods[0], Pod))
        await b.bind("a", to="m")

        assert [call["body"]["target"]["name"] for call in b.posts()] == ["n", "m"]
        b.book.set_pod(msgspec.convert(b.api.pods[0], Pod))
        assert (b.used("n"), b.used("m")) == ([0, 0], [3])


@pytest.mark.parametrize("code", [400, 403, 404, 422])
async def test_a_refusal_frees_the_card_and_says_why(code: int) -> None:
    """The API server's own words reach the pod's event."""
    async with bench(
        pod("a"), fault=lambda method, path: status(code, "for this reason") if method == "POST" else None
    ) as b:
        with pytest.raises(BindError, match="for this reason"):
            await b.bind("a")

        assert b.used() == [0, 0]


async def test_pod_bound_here_by_another_without_a_card_is_an_error() -> None:
    """A pod that another program bound here without a card is an error and no success."""
    bound = pod("a")
    bound["spec"]["nodeName"] = "n"
    async with bench(bound, known=False) as b:
        with pytest.raises(BindError, match="not by us"):
            await b.bind("a")


async def test_a_pod_without_cards_is_refused() -> None:
    """No scheduler asks that of an extender, so the caller is a stranger."""
    stranger = pod("a")
    stranger["spec"]["containers"] = [{"name": "c", "resources": {"limits": {"cpu": "1"}}}, {"name": "d"}]
    async with bench(stranger) as b:
        with pytest.raises(BindError, match=r"pod d/a asks for no aliyun.com/gpu-\* resource"):
            await b.bind("a")

        assert b.posts() == []


@pytest.mark.parametrize("resource", ["aliyun.com/gpu-slot", "aliyun.com/gpu-count"])
async def test_a_pod_that_names_another_of_our_resources_is_bound(resource: str) -> None:
    """A scheduler whose ``managedResources`` name that resource sends us its binds."""
    other = pod("a")
    other["spec"]["containers"] = [{"name": "c", "resources": {"limits": {resource: "1"}}}]
    async with bench(other) as b:
        await b.bind("a")

        assert b.posts()[0]["body"]["metadata"]["annotations"] == {}


async def test_a_pod_unknown_to_the_cache_is_read_first() -> None:
    """The scheduler's watch may be ahead of ours."""
    async with bench(pod("a"), known=False) as b:
        await b.bind("a")

        assert [call["method"] for call in b.api.calls] == ["GET", "POST"]
        assert b.used() == [3, 0]


@pytest.mark.promise("EXT-025")
async def test_an_answer_that_is_lost_after_the_bind_is_success() -> None:
    """The request took effect, the answer was 500; the API shows the pod as bound."""
    async with bench(pod("a")) as b:

        def bind_then_fail(method: str, path: str) -> Any:
            if method != "POST":
                return None
            b.api.answer(
                method,
                path,
                "",
                {"target": {"name": "n"}, "metadata": {"annotations": {"ALIYUN_COM_GPU_MEM_IDX": "0"}}},
            )
            return status(500, "etcd is slow")

        b.api.fault = bind_then_fail
        await b.bind("a")

        assert b.used() == [3, 0]


@pytest.mark.promise("EXT-025")
async def test_lost_answer_keeps_the_card_until_its_fate_is_certain() -> None:
    """No answer, the pod not bound yet: the request may still land, so its room is reserved for 90 s."""
    async with bench(pod("a", 14), pod("b", 14), fault=hang) as b:
        with pytest.raises(BindError, match="did not say"):
            await b.bind_unanswered("a", "m")
        assert b.used("m") == [14]
        with pytest.raises(DoesNotFitError):
            await b.bind("b", "m")

        b.clock[0] += UNKNOWN_OUTCOME_SECONDS + 1
        await until(lambda: b.used("m") == [0])


async def test_a_lost_answer_ends_when_the_pod_turns_out_to_be_bound() -> None:
    """The request landed late: the booking is confirmed from the API, whatever the clock shows later."""
    async with bench(pod("a"), fault=hang) as b:
        with pytest.raises(BindError, match="did not say"):
            await b.bind_unanswered("a")
        b.api.fault = lambda method, path: None
        b.api.released.set()
        await until(lambda: not b.binder.resolving)
        b.clock[0] += UNKNOWN_OUTCOME_SECONDS + 1

        assert b.used() == [3, 0]


@pytest.mark.promise("EXT-025")
async def test_a_second_try_after_a_lost_answer_says_the_same_card() -> None:
    """Whichever request lands, the pod's annotation names the card that is booked."""
    async with bench(pod("a", 3), pod("b", 9), fault=hang, ask_seconds=30) as b:
        with pytest.raises(BindError):
            await b.bind_unanswered("a")
        b.api.fault = lambda method, path: None
        await b.bind("b")
        await b.bind("a")

        cards = [
            call["body"]["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"]
            for call in b.posts()
            if "/a/" in call["path"]
        ]
        assert cards == ["0", "0"]
        assert b.used() == [12, 0]


async def test_a_refusal_after_a_lost_answer_frees_nothing() -> None:
    """The first request may still land: the second's refusal says nothing about it."""
    async with bench(pod("a", 14), pod("b", 14), fault=hang) as b:
        with pytest.raises(BindError, match="did not say"):
            await b.bind_unanswered("a", "m")
        b.api.fault = lambda method, path: status(429, "later") if "/a/" in path and method == "POST" else None
        with pytest.raises(BindError, match="refused"):
            await b.bind("a", "m")
        with pytest.raises(DoesNotFitError):
            await b.bind("b", "m")
        b.clock[0] += UNKNOWN_OUTCOME_SECONDS + 1
        await until(lambda: b.used("m") == [0])


async def test_lost_answer_frees_nothing_of_an_order_under_way() -> None:
    """The first request's time is over while the second, which has the same card, is not answered yet."""
    async with bench(pod("a", 14), fault=hang) as b:
        with pytest.raises(BindError, match="did not say"):
            await b.bind_unanswered("a", "m")
        order = asyncio.create_task(b.bind("a", "m"))
        await until(lambda: len(b.posts()) == 2)
        b.clock[0] += UNKNOWN_OUTCOME_SECONDS + 1
        asked = len(b.api.calls)
        await until(lambda: len(b.api.calls) > asked + 2 or not b.binder.resolving)
        assert b.used("m") == [14]
        b.api.released.set()
        await order
        assert b.used("m") == [14]


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "re-created"])
async def test_a_lost_answer_ends_when_the_pod_is_gone(gone: bool) -> None:
    """A pod that is deleted, or re-created, can no longer be bound by that request."""
    async with bench(pod("a"), fault=hang) as b:
        with pytest.raises(BindError, match="did not say"):
            await b.bind_unanswered("a")
        b.api.pods[:] = [] if gone else [pod("a", uid="new")]

        await until(lambda: b.used() == [0, 0])


@pytest.mark.promise("EXT-025")
async def test_two_orders_for_one_pod_run_one_after_the_other() -> None:
    """A scheduler that timed out asks again while the first request is under way: one request at a time, one card."""
    async with bench(pod("a"), fault=hang) as b:
        orders = [asyncio.create_task(b.bind("a")) for _ in range(3)]
        await until(lambda: len(b.posts()) == 1)
        await asyncio.sleep(0.05)
        assert len(b.posts()) == 1
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
    async with bench(pod("a"), known=False) as b:
        b.book.remove_pod(ObjectMeta(name="a", namespace="d", uid="uid-a"))
        with pytest.raises(BindError, match="has ended"):
            await b.bind("a")

        assert (b.posts(), b.used()) == ([], [0, 0])


async def test_a_second_try_on_a_card_that_is_gone_is_an_error() -> None:
    """The node came back with fewer cards in between."""
    pods = pod("x", 14), pod("a", 3)
    async with bench(*pods, fault=lambda method, path: "hang" if "/a/" in path else None, ask_seconds=30) as b:
        await b.bind("x")
        with pytest.raises(BindError):
            await b.bind_unanswered("a")
        b.book.set_node(msgspec.convert(node("n", 14), Node))
        with pytest.raises(DoesNotFitError, match="card 1 of node n is gone"):
            await b.bind("a")
