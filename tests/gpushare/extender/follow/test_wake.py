"""Promises of gpushare.extender.follow.wake, over real HTTP to a small API server."""

from __future__ import annotations

import contextlib

import msgspec
import pytest

from gpushare import wire
from gpushare.extender.core.filter import FilterResult
from gpushare.manifests import Pod
from gpushare.model.pod import request_of
from tests.gpushare.extender.rig import Extender, Object, extender, node, pod
from tests.servers import status

_FORBIDDEN = (
    'nodes "n" is forbidden: User "x" cannot patch resource "nodes/status" in API group "" at the cluster scope'
)


def stage() -> contextlib.AbstractAsyncContextManager[Extender]:
    """An extender with a cluster of one node of 8 units, and with a clock that stands."""
    return extender(node("n", 8), now=0.0)


def refuse(on: Extender, name: str, units: int) -> Pod:
    """A pod waits, and was refused just now."""
    on.knows(pod(name, units))
    waiting = msgspec.convert(pod(name, units), Pod)
    result = FilterResult([], {wire.REASON_NO_CARD_FITS: ["n"]}, {})
    on.verbs.filter_cache.note(waiting.metadata, request_of(waiting), result, b"", on.now or 0.0)
    return waiting


async def turn(on: Extender, seconds: float) -> list[Object]:
    """So much later: the calls that were made."""
    on.now = (on.now or 0.0) + seconds
    on.api.calls.clear()
    await on.waker.turn()
    return on.sent("PATCH")


async def test_pod_that_would_fit_and_is_not_asked_about_is_called() -> None:
    """D29: by an annotation of a node that has room, and not again immediately. One call is for all pods that wait."""
    async with stage() as on:
        refuse(on, "p", 8)
        assert await turn(on, 4.9) == []
        (call,) = await turn(on, 0.1)
        assert call["path"] == "/api/v1/nodes/n/status"
        assert call["body"] == {"metadata": {"annotations": {wire.ANNOTATION_ROOM: "7"}}}
        assert await turn(on, 9.9) == []
        assert len(await turn(on, 0.1)) == 1
        for number in range(30):
            refuse(on, f"p{number}", 8)
        assert len(await turn(on, 5)) == 1


async def test_pods_that_fit_nowhere_keep_no_other_waiting() -> None:
    """However many wait longer, with however many requests: a pod that would get a card is reached, again and again."""
    async with stage() as on:
        for number in range(700):
            refuse(on, f"large-{number}", 9 + number % 60)
        refuse(on, "fits", 8)
        calls = [call for _ in range(15) for call in await turn(on, 5)]

    assert len(calls) > 1


async def test_without_the_right_it_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    """Under the original's roles: what it does not get it can do without. Each call is counted with its outcome."""
    async with stage() as on:
        refuse(on, "p", 8)
        await turn(on, 1)
        assert on.called == []
        await turn(on, 4)
        on.api.fault = lambda method, path: status(403, _FORBIDDEN) if method == "PATCH" else None
        await turn(on, 300)
        await turn(on, 300)
        on.api.fault = lambda method, path: status(500, "later") if method == "PATCH" else None
        await turn(on, 300)

    assert [record.levelname for record in caplog.records if "wait for minutes" in record.message] == ["WARNING"]
    assert on.called == [True, False, False, False]
