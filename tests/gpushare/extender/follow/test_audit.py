"""Promises of the audit over real HTTP: the real reflectors and the real client against a small API server with a history."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest

from gpushare.extender.core.audit_round import DRIFT_KINDS
from gpushare.extender.core.book import Book
from tests.gpushare.extender.rig import INDEX, MEMORY, Extender, Object, following, node, pod
from tests.servers import StubApi, status, until


def unreadable(name: str, on: str) -> Object:
    """A pod with annotations that are none."""
    item = pod(name, 3, on)
    return item | {"metadata": item["metadata"] | {"annotations": [1]}}


def stage(*pods: Object, **more: Any) -> contextlib.AbstractAsyncContextManager[Extender]:
    """An extender that follows a cluster with one node of two cards of 14, and that may write no events."""
    refuse = lambda method, path: status(403, "no events") if method == "POST" else None  # noqa: E731
    return following(node("n", 14, 14), *pods, fault=refuse, **more)


async def delete_silently(on: Extender, name: str) -> None:
    """The end of a pod, which the watch does not report, though it has come past it."""
    on.api.deaf = True
    on.api.delete("pods", name)
    on.api.deaf = False
    await on.caught_up()


async def drift_of(on: Extender) -> dict[str, tuple[int, int]]:
    """The findings of an audit: units and objects by kind, if there are any."""
    drift = await on.audit.turn()
    assert drift is not None
    assert on.metrics.drift is drift
    assert tuple(drift) == DRIFT_KINDS
    return {kind: (units, objects) for kind, (units, objects) in drift.items() if objects}


async def test_a_lost_delete_is_found_counted_logged_and_repaired(caplog: pytest.LogCaptureFixture) -> None:
    """The phantom of the issue: its card is free again, and the next audit finds nothing."""
    async with stage(pod("a", 3, "n", 0), pod("b", 5, "n", 1)) as on:
        await delete_silently(on, "a")
        assert on.used() == [3, 5]
        assert await drift_of(on) == {"phantom": (3, 1)}
        assert on.used() == [0, 5]
        assert await drift_of(on) == {}

    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line == "drift kind=phantom object=d/a uid=uid-a units=3 book=n:0=3 api=gone assigned=false"


async def test_the_list_is_not_believed_about_unreadable_objects(caplog: pytest.LogCaptureFixture) -> None:
    """Their bookings stay, and other drift is still found. Nothing is corrected for an object without a name."""
    async with stage(pod("a", 3, "n", 0), pod("b", 5, "n", 1)) as on:
        on.api.put(unreadable("a", on="n"))
        on.api.put(node("n", 14, 14) | {"status": []})
        await delete_silently(on, "b")
        await on.caught_up()
        assert await drift_of(on) == {"phantom": (5, 1)}
        assert on.used() == [3, 0]

        on.api.put({"kind": "Pod", "metadata": {"name": "c", "namespace": "d", "uid": 5}})
        await on.caught_up()
        assert await on.audit.turn() is None
        assert on.controller.contacts["pods"].unreadable >= 2
        assert "the book was not audited" in caplog.text


async def test_an_audit_waits_for_no_bookmark_if_no_suspect_is_left(caplog: pytest.LogCaptureFixture) -> None:
    """The list has a later version than the change that was under way, as other kinds of objects have changed since."""
    async with stage(pod("a", 3, "n", 0), patience=5) as on:
        held = list(on.api.watches)
        on.api.watches.clear()
        on.api.put(pod("a", 4, "n", 0))
        changed = on.api.pod("a")
        on.api.version += 10
        turn = asyncio.create_task(drift_of(on))
        await until(lambda: on.api.calls[-1]["path"] == "/api/v1/pods")
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
        assert await drift_of(on) == {}
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
            assert await drift_of(on) == {}
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
        await until(lambda: on.metrics.audits["done"] > 1)
        running.cancel()
        await asyncio.wait([running])
    assert on.metrics.audits["failed"] == 1
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
        await drift_of(on)
        assert await drift_of(on) == {}
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
