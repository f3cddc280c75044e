"""Bind: one write, once, of the right pod, and never more than a card holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any, Final

import pytest

from clusters.api import kubeconfig_file
from clusters.api.api_client import Object
from clusters.api.connection import Connection, TransportError
from clusters.api.resources import PODS
from clusters.api.waiting import eventually, until
from clusters.targets import Target
from e2e import spec
from e2e.attacks.api_proxy import ApiProxy, Call
from e2e.builders import gated, gpu_pod
from e2e.checkers.extender_answers import is_refusal, refused_binds
from e2e.checkers.history import Asked, judge
from e2e.checkers.pod_requests import card_of
from e2e.extender.extender_under_test import ExtenderUnderTest
from e2e.observer import Observer
from e2e.tcp_proxy import proxy_to_api

pytestmark = pytest.mark.stand_in_only("no kubelet has a part in it")

# A clock of nanoseconds shows at least this since 2001, one of microseconds does not.
_NANOSECONDS: Final = 10**18


@pytest.mark.promise("EXT-019")
async def test_node_and_annotations_come_in_one_write(observer: Observer, target: Target) -> None:
    """A watch sees the node and the annotations in one event; if two writes are declared, the annotations first.

    The first state with a node is not marked as assigned; the plugin does that, when a container gets the card.
    """
    async with observer.watching() as events:
        await observer.run(gpu_pod("p", 3, node="a2"))
        states = await until(
            lambda: [item for kind, item in events if kind != "SYNCED"],
            lambda items: any(item["status"].get("phase") == "Running" for item in items),
            "the watch shows that it runs",
        )
    annotated = [spec.POD_INDEX in (item["metadata"].get("annotations") or {}) for item in states]
    seen = [(bool(item["spec"].get("nodeName")), given) for item, given in zip(states, annotated, strict=True)]
    assert seen == sorted(seen)
    between = {(False, True)} if target.differences.bind_writes == "two" else set()
    assert set(seen) - between == {(False, False), (True, True)}
    marks = [item["metadata"]["annotations"].get(spec.POD_ASSIGNED) for item in states if item["spec"].get("nodeName")]
    assert (marks[0], marks[-1]) == ("false", "true")


@pytest.mark.promise("API-008", "EXT-019")
async def test_a_bind_writes_the_five_annotations(stage: ExtenderUnderTest, name: str) -> None:
    """Card, units of the pod and of the card, the time in nanoseconds, over what an author wrote; no container has it yet."""
    await stage.node(name, 20, 2)
    (pod,) = await stage.create(stage.pod("p", 3, 4, annotations={spec.POD_UNITS: "1", "example.com/note": "kept"}))
    assert await stage.bind(pod, name) == ""
    written = (await stage.observer.pod("p"))["metadata"]["annotations"]

    assert (written[spec.POD_INDEX] in ("0", "1"), written["example.com/note"]) == (True, "kept")
    assert (written[spec.POD_UNITS], written[spec.POD_DEVICE_UNITS], written[spec.POD_ASSIGNED]) == ("7", "10", "false")
    assert int(written[spec.POD_ASSUME_TIME]) >= _NANOSECONDS


@pytest.mark.promise("EXT-020")
async def test_a_bind_that_is_ordered_again_is_a_success(stage: ExtenderUnderTest) -> None:
    """On the same node (or refused, if the target declares it); the pod keeps its card, and the book its one booking."""
    (pod,) = await stage.create(stage.pod("p", 3))
    first, second = await stage.bind(pod, "a2"), await stage.bind(pod, "a2")
    (bound,) = await stage.observer.running("p")
    third = await stage.bind(pod, "a2")

    assert first == ""
    assert stage.may_refuse_again or not (second or third), (second, third)
    assert card_of(bound) == card_of(await stage.observer.pod("p"))
    await stage.used("a2", 3, 0)


@pytest.mark.promise("EXT-009", "EXT-021")
@pytest.mark.promise("D20")
async def test_a_pod_that_may_not_be_bound_is_refused(stage: ExtenderUnderTest) -> None:
    """Gated, bound elsewhere, being deleted, or another of its name: with a reason; nothing is booked or written (D20)."""
    waiting = gated(stage.pod("gated", 3))
    left = stage.pod("left", 3)
    left["metadata"]["finalizers"] = ["example.com/stay"]
    waiting, bound, left = await stage.create(waiting, stage.pod("bound", 2), left)
    assert await stage.bind(bound, "a2") == ""
    await stage.observer.delete("left", 0)
    stranger = {"metadata": {"name": "gated", "uid": "11111111-2222-3333-4444-555555555555"}}
    said = [
        await stage.bind(pod, node) for pod, node in ((waiting, "a1"), (bound, "a1"), (left, "a1"), (stranger, "a1"))
    ]
    await stage.api.patch(PODS, "left", {"metadata": {"finalizers": None}}, stage.namespace)

    assert all(said), said
    changed = {
        key: value
        for key, value in (await stage.observer.pod("gated"))["metadata"].items()
        if value != waiting["metadata"].get(key)
    }
    assert changed == {}
    await stage.used("a1", 0)


@pytest.mark.promise("EXT-022")
async def test_of_two_binds_for_the_last_room_one_succeeds(stage: ExtenderUnderTest) -> None:
    """Two pods of 9 together for a card of 14."""
    one, two = await stage.create(stage.pod("one", 9), stage.pod("two", 9))
    said = await asyncio.gather(stage.bind(one, "a1"), stage.bind(two, "a1"))

    assert sorted(map(bool, said)) == [False, True]
    await stage.used("a1", 9)


@pytest.mark.needs("device_plugin")
@pytest.mark.promise("EXT-023", "EXT-024")
async def test_a_hundred_binds_at_once_over_book_no_card(stage: ExtenderUnderTest) -> None:
    """7 + 7 of two units fit on cards of 14 and 14; a refused pod gets no room in between."""
    pods = await stage.create(*(stage.pod(f"p{number:02}", 2) for number in range(100)))
    fits: list[bool] = []
    done = asyncio.Event()

    async def keep_asking() -> None:
        for _ in range(10_000):
            fits.append(bool(await stage.fits(stage.pod("other", 2), "a2")))
            if done.is_set():
                return

    asking = asyncio.create_task(keep_asking())
    said = await asyncio.gather(*(stage.bind(pod, "a2") for pod in pods))
    done.set()
    await asking

    assert said.count("") == 14
    assert fits == sorted(fits, reverse=True)
    assert not fits[-1]
    await stage.used("a2", 14, 14)
    names = [pod["metadata"]["name"] for pod, error in zip(pods, said, strict=True) if not error]
    await stage.observer.running(*names)
    await stage.observer.check_books()


@pytest.mark.needs("device_plugin")
@pytest.mark.promise("EXT-027")
async def test_two_leaders_that_order_the_same_bind_bind_once(stage: ExtenderUnderTest) -> None:
    """Schedulers of before and after a change of leaders, each with an extender of its own: one card, and both know it."""
    async with stage.extender() as other:
        for name in ("p", "q", "r"):
            (pod,) = await stage.create(stage.pod(name, 3))
            said = await asyncio.gather(stage.bind(pod, "a2"), stage.bind(pod, "a2", other))
            assert "" in said, said
            assert stage.may_refuse_again or not any(said), said
        await stage.observer.running("p", "q", "r")

        async def books() -> list[Any]:
            return [await stage.observer.inspect("/a2", url) for url in ("", other)]

        await eventually(books, lambda seen: seen[0] == seen[1], "both have the same book")
    await stage.observer.check_all("p", "q", "r")


@pytest.mark.promise("D24", "EXT-025")
async def test_d24_a_held_bind_holds_up_no_question(stage: ExtenderUnderTest) -> None:
    """D24: a node's lock was held over a bind's requests and taken for each question about it; then the bind goes on."""
    (pod,) = await stage.create(stage.pod("p", 3))
    account = stage.folder / "kubeconfig"
    async with proxy_to_api(await stage.account(), account) as proxy, stage.extender(account=account) as url:
        proxy.hold_requests()
        try:
            bind = asyncio.create_task(stage.bind(pod, "a2", url))
            await until(lambda: proxy.held, bool, "the bind's request is on the proxy")
            question = json.dumps({"Pod": stage.pod("q", 1), "Nodes": None, "NodeNames": ["a1", "a2", "nowhere"]})
            try:
                answer = await stage.observer.post_to(url + spec.FILTER, question)
            except TransportError as error:
                pytest.fail(f"no answer while the bind is held: {error}")

            assert answer.json()["NodeNames"] == ["a1", "a2"]
            assert not bind.done()
            proxy.restore()
            assert await bind == ""
        finally:
            proxy.restore()


@pytest.mark.promise("D20")
async def test_d20_a_refused_binding_leaves_no_annotation(stage: ExtenderUnderTest, name: str) -> None:
    """A refusal that no extender can foresee meets the Binding: then the pod names no card, and the next bind succeeds."""
    await stage.node(name, 14, 1)
    (pod,) = await stage.create(stage.pod("p", 9))
    proxy = ApiProxy(Connection.from_kubeconfig(await stage.account()))
    through = kubeconfig_file.write(stage.folder / "kubeconfig", proxy.url, ca=None)
    is_shut = True

    async def refuse(call: Call) -> int:
        return 403 if is_shut and call.path.endswith("/binding") else 0

    async def left() -> list[str]:
        return list(map(str, judge([refused, await stage.observer.listed()], refused_binds)))

    proxy.refuse = refuse
    async with proxy, stage.extender(account=through) as url:
        refused = await _bind(stage, pod, name, url)
        assert is_refusal(refused)
        await eventually(left, lambda found: not found, "no annotation of the refused pod names a card")
        await stage.used(name, 0, url=url)
        is_shut = False
        accepted = await _bind(stage, pod, name, url)
        assert not is_refusal(accepted), accepted
        await stage.used(name, 9, url=url)
    assert (await stage.observer.pod("p"))["spec"]["nodeName"] == name
    await stage.used(name, 9)


async def _bind(stage: ExtenderUnderTest, pod: Object, node: str, url: str) -> Asked:
    """Order the pod onto the node; whichever status it is answered with."""
    metadata = pod["metadata"]
    order = {"PodName": metadata["name"], "PodNamespace": stage.namespace, "PodUID": metadata["uid"], "Node": node}
    answer = await stage.observer.post_to(url + spec.BIND, json.dumps(order))
    said: Any = None
    with contextlib.suppress(ValueError):
        said = answer.json()
    return Asked(0.0, spec.BIND, order, said, answer.status_code)
