"""Promises of gpushare.extender.node_guard, over HTTP to a scripted API server."""

from __future__ import annotations

import pytest

from gpushare.extender.core.reservations import EMPTY, Fate, State, encode
from gpushare.extender.node_guard import GuardError, NodeGuards
from gpushare.model.node import Booking
from tests.gpushare.kube.scripted_api import Answer, Call, ScriptedApi, client_of, listen


async def come_to(_version: int, _seconds: float) -> bool:
    """Our copy of the pods is fresh."""
    return True


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
