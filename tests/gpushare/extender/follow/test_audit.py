"""Promises of the audit over real HTTP: the real reflectors and the real client against a small API server with a history."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from gpushare.extender.core.audit_round import DRIFT_KINDS
from gpushare.extender.core.book import Book
from gpushare.extender.extender_metrics import ExtenderMetrics
from gpushare.extender.follow.audit import Audit
from gpushare.extender.follow.controller import Controller
from gpushare.kube.client import ApiClient
from tests.servers import StubApi, http_pool, serve, status, until

MEMORY, COUNT, INDEX = "aliyun.com/gpu-mem", "aliyun.com/gpu-count", "ALIYUN_COM_GPU_MEM_IDX"


def pod(
    name: str, units: object = 3, on: str | None = None, card: object = None, uid: str = "", **more: str
) -> dict[str, Any]:
    """A pod; on a card if it is on a node."""
    annotations = {**({} if card is None else {INDEX: str(card)}), **more}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "d", "uid": uid or f"uid-{name}", "annotations": annotations},
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"limits": {MEMORY: str(units)}}}]},
        "status": {"phase": "Running" if on else "Pending"},
    }


def node(name: str = "n", *cards: int) -> dict[str, Any]:
    """A node of equal cards."""
    capacity = {MEMORY: str(sum(cards)), COUNT: str(len(cards))}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"capacity": capacity}}


def unreadable(name: str, on: str) -> dict[str, Any]:
    """A pod with annotations that are none."""
    item = pod(name, 3, on)
    return item | {"metadata": item["metadata"] | {"annotations": [1]}}


@dataclass
class AuditedCluster:
    """A cluster with one node of two cards of 14, the book that follows it, and its audit."""

    api: StubApi
    book: Book
    controller: Controller
    audit: Audit
    under_way: set[str]

    async def silently(self, *, put: dict[str, Any] | None = None, delete: str = "", kind: str = "pods") -> None:
        """A change that the watch does not report, though it has come past it."""
        self.api.deaf = True
        if put is not None:
            self.api.put(put)
        if delete:
            self.api.delete(kind, delete)
        self.api.deaf = False
        await self.caught_up()

    async def caught_up(self) -> None:
        """The watches stand and have come as far as there is anything."""
        await until(lambda: {watch.plural for watch in self.api.watches} >= {"nodes", "pods"})
        come = asyncio.create_task(self.controller.come_to(self.api.version, self.api.version, 30))
        await until(lambda: self.api.bookmark() or come.done())
        assert await come

    def asked(self) -> list[tuple[str, str]]:
        """Method and path of every request."""
        return [(call["method"], call["path"]) for call in self.api.calls]

    def used(self) -> list[int]:
        return [device.used for device in self.book.snapshot().nodes["n"].devices]

    async def drift(self) -> dict[str, tuple[int, int]]:
        """The findings of an audit: units and objects by kind, if there are any."""
        drift = await self.audit.turn()
        assert drift is not None
        assert self.audit.metrics.drift is drift
        assert tuple(drift) == DRIFT_KINDS
        return {kind: (found.units, found.objects) for kind, found in drift.items() if found.objects}


@asynccontextmanager
async def stage(*pods: dict[str, Any], patience: float = 30) -> AsyncIterator[AuditedCluster]:
    """Followed and caught up."""
    api, book, under_way = StubApi(page=2), Book(), set[str]()
    api.put(node("n", 14, 14))
    for one in pods:
        api.put(one)
    async with serve(api) as url, http_pool(url) as http:
        client = ApiClient(http)
        controller = Controller(client, book)
        audit = Audit(
            client,
            book,
            ExtenderMetrics(time.perf_counter_ns),
            is_ready=controller.is_ready,
            come_to=controller.come_to,
            is_under_way=lambda namespace, name, uid: uid in under_way,
            monotonic=time.monotonic,
            interval=0.01,
            patience=patience,
            poll=0.01,
            rng=random.Random(1),
        )
        following = asyncio.create_task(controller.run())
        try:
            on = AuditedCluster(api, book, controller, audit, under_way)
            await on.caught_up()
            yield on
        finally:
            following.cancel()
            api.disconnect(forget=False)
            await asyncio.wait([following])


async def test_a_lost_delete_is_found_counted_logged_and_put_right(caplog: pytest.LogCaptureFixture) -> None:
    """The phantom of the issue: its card is free again, and the next audit finds nothing."""
    async with stage(pod("a", 3, "n", 0), pod("b", 5, "n", 1)) as on:
        await on.silently(delete="a")
        assert on.used() == [3, 5]
        assert await on.drift() == {"phantom": (3, 1)}
        assert on.used() == [0, 5]
        assert await on.drift() == {}

    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line == "drift kind=phantom object=d/a uid=uid-a units=3 book=n:0=3 api=gone assigned=false"


async def test_the_list_is_not_believed_about_unreadable_objects(caplog: pytest.LogCaptureFixture) -> None:
    """Their bookings stay, and other drift is still found. Nothing is corrected for an object without a name."""
    async with stage(pod("a", 3, "n", 0), pod("b", 5, "n", 1)) as on:
        on.api.put(unreadable("a", on="n"))
        on.api.put(node("n", 14, 14) | {"status": []})
        await on.silently(delete="b")
        await on.caught_up()
        assert await on.drift() == {"phantom": (5, 1)}
        assert on.used() == [3, 0]

        on.api.put({"kind": "Pod", "metadata": {"name": "c", "namespace": "d", "uid": 5}})
        await on.caught_up()
        assert await on.audit.turn() is None
        assert on.controller.contacts["pods"].unreadable >= 2
        assert "the book was not audited" in caplog.text


async def test_what_was_not_lost_is_no_drift(caplog: pytest.LogCaptureFixture) -> None:
    """Reported in time, page by page; no object is asked for."""
    caplog.set_level("INFO")
    async with stage(*(pod(f"p{number}", 1, "n", number % 2) for number in range(5)), pod("waits")) as on:
        on.api.calls.clear()
        assert await on.drift() == {}
        assert on.asked() == [("GET", "/api/v1/nodes")] + [("GET", "/api/v1/pods")] * 3
        assert on.audit.metrics.audits == {"done": 1, "failed": 0}
        assert on.book.touched is None, "events are not recorded for ever"
    assert any("audited nodes=1 pods=6 drift=0 units=0 unsettled=0" in record.message for record in caplog.records)


async def test_each_kind_of_loss_is_found_by_its_name() -> None:
    """A bind, a resize, a pod re-created under its name, a node that came back with other cards, one that went.

    Another card that is named on a running pod is no loss: the audit believes it as little as the watch does.
    """
    async with stage(pod("card", 3, "n", 0), pod("units", 3, "n", 0), pod("name", 2, "n", 1), pod("waits", 4)) as on:
        on.api.put(node("m", 8))
        await on.caught_up()
        await on.silently(put=pod("bound", 4, "n", 1))
        await on.silently(put=pod("card", 3, "n", 1))
        await on.silently(put=pod("units", 1, "n", 0))
        await on.silently(put=pod("name", 2, "n", 1, uid="another"))
        await on.silently(put=pod("waits", 4, "n", 0))
        await on.silently(put=pod("new", 1))
        await on.silently(kind="nodes", put=node("n", 20, 20))
        await on.silently(kind="nodes", delete="m", put=node("o", 6))
        assert await on.drift() == {
            "missing": (4 + 2 + 4, 3), "phantom": (2, 1), "other_amount": (2, 1), "pending_missing": (0, 1),
            "node_missing": (6, 1), "node_phantom": (8, 1), "node_other_cards": (12, 1),
        }  # fmt: skip
        assert on.used() == [3 + 1 + 4, 4 + 2]
        assert set(on.book.snapshot().nodes) == {"n", "o"}
        assert await on.drift() == {}


async def test_a_change_under_way_is_no_drift() -> None:
    """The watch is slow: it is waited for, and then nothing differs."""
    async with stage(pod("a", 3, "n", 0), pod("b", 3, "n", 0)) as on:
        held = list(on.api.watches)
        on.api.watches.clear()
        on.api.put(pod("a", 4, "n", 0))
        on.api.delete("pods", "b")
        turn = asyncio.create_task(on.drift())
        await until(lambda: ("GET", "/api/v1/pods") in on.asked()[-2:])
        on.api.watches.extend(held)
        told = next(watch.news for watch in held if watch.plural == "pods")
        told.put_nowait({"type": "MODIFIED", "object": on.api.pod("a")})
        last = {**pod("b", 3, "n", 0)}
        last["metadata"]["resourceVersion"] = str(on.api.version)
        told.put_nowait({"type": "DELETED", "object": last})
        assert await turn == {}
        assert on.used() == [4, 0]


async def test_an_audit_waits_for_no_bookmark_if_no_suspect_is_left(caplog: pytest.LogCaptureFixture) -> None:
    """The list has a later version than the change that was under way, as other kinds of objects have changed since."""
    async with stage(pod("a", 3, "n", 0), patience=5) as on:
        held = list(on.api.watches)
        on.api.watches.clear()
        on.api.put(pod("a", 4, "n", 0))
        changed = on.api.pod("a")
        on.api.version += 10
        turn = asyncio.create_task(on.drift())
        await until(lambda: ("GET", "/api/v1/pods") in on.asked()[-2:])
        on.api.watches.extend(held)
        news = next(watch.news for watch in held if watch.plural == "pods")
        news.put_nowait({"type": "MODIFIED", "object": changed})
        assert await turn == {}
        assert on.used() == [4, 0]
    assert not any("the watch is behind" in record.message for record in caplog.records)


@pytest.mark.parametrize("is_deaf", [True, False], ids=["a watch that is behind", "a version that is no number"])
async def test_a_watch_behind_the_list_lets_nothing_be_corrected(
    caplog: pytest.LogCaptureFixture, is_deaf: bool
) -> None:
    """Events still to come cannot be known from those that it has lost."""
    listed = {"metadata": {"resourceVersion": "x"}, "items": []}
    async with stage(pod("a", 3, "n", 0), patience=0.05) as on:
        on.api.deaf = is_deaf
        if is_deaf:
            on.api.delete("pods", "a")
        else:
            on.api.fault = lambda method, path: (200, listed) if path == "/api/v1/pods" else None
        assert await on.drift() == {}
        assert on.used() == [3, 0]
    assert any("the watch is behind: nothing was corrected suspects=1" in record.message for record in caplog.records)


async def test_a_pod_without_a_valid_card_is_reported_and_no_drift(caplog: pytest.LogCaptureFixture) -> None:
    """A pod without a valid card and a card with more than it has are no drift. They are logged once."""
    assigned = {"ALIYUN_COM_GPU_MEM_ASSIGNED": "true"}
    pods = [
        pod("none", 3, "n"),
        pod("wrong", 4, "n", 7),
        pod("b", 9, "n", 1, **assigned),
        pod("c", 9, "n", 1, **assigned),
    ]
    async with stage(*pods) as on:
        for _ in range(2):
            assert await on.drift() == {}
    said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("odd kind=")]
    assert [line.split()[1] for line in said] == ["kind=unplaced", "kind=unplaced", "kind=over_committed"]
    assert [line.split()[4] for line in said] == ["units=3", "units=4", "units=4"]


async def test_an_audit_that_cannot_list_says_so_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """The next one may."""
    async with stage(pod("a", 3, "n", 0)) as on:
        on.api.fault = lambda method, path: status(500, "later")
        assert await on.audit.turn() is None
        on.api.fault = lambda method, path: None
        running = asyncio.create_task(on.audit.run())
        await until(lambda: on.audit.metrics.audits["done"] > 1)
        running.cancel()
        await asyncio.wait([running])
    assert on.audit.metrics.audits["failed"] == 1
    assert any("not audited" in record.message for record in caplog.records)


@pytest.mark.parametrize("seed", range(4))
async def test_after_any_history_the_book_is_what_the_api_has(seed: int) -> None:
    """Real reflectors: lost events, broken watches, 410 and a new list, deletions, names used again, cards that change."""
    rng = random.Random(seed)
    async with stage(*(pod(f"p{number}", 1 + number, "n", number % 2) for number in range(4))) as on:
        for _ in range(40):
            on.api.deaf = rng.random() < 0.3
            happens(on.api, rng)
            if rng.random() < 0.15:
                on.api.disconnect(forget=rng.random() < 0.5)
                happens(on.api, rng)
        on.api.deaf = False
        await on.caught_up()
        await on.drift()
        assert await on.drift() == {}
        assert holdings(on.book) == {
            (one["metadata"]["uid"], one["spec"]["nodeName"], int(one["metadata"]["annotations"][INDEX]))
            for one in on.api.pods
            if one["spec"]["nodeName"]
        }
        assert set(on.book.snapshot().nodes) == {one["metadata"]["name"] for one in on.api.nodes}


def happens(api: StubApi, rng: random.Random) -> None:
    """One change of the cluster."""
    name, uid = f"p{rng.randrange(6)}", f"uid-{rng.randrange(10**9)}"
    here = api.find("pods", name)
    what = rng.choice(["born", "bound", "moved", "deleted", "cards"])
    if what == "cards":
        api.put(node("n", *[rng.choice([14, 20])] * rng.randint(1, 2)))
    elif what == "deleted" and here:
        api.delete("pods", name)
    elif what == "born" or here is None:
        api.put(pod(name, rng.randint(1, 5), uid=uid))
    else:
        metadata, units = here["metadata"], here["spec"]["containers"][0]["resources"]["limits"][MEMORY]
        api.put(pod(name, units, "n", rng.randrange(2), uid=metadata["uid"]))


def holdings(book: Book) -> set[tuple[str, str, int]]:
    """Uid, node and card of all that is booked."""
    held = {uid: book.confirmed(uid) for uid in book.identities()}
    return {(uid, one[0], one[1].shares[0][0]) for uid, one in held.items() if one is not None}
