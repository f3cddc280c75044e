"""Promises of gpushare.deviceplugin.cards.declared_unhealthy: the ConfigMap that declares cards unhealthy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from fake_nvml.state import State
from gpushare.deviceplugin.cards import card_watch, declared_unhealthy
from gpushare.deviceplugin.cards.declared_unhealthy import follow_declared
from tests.gpushare.deviceplugin.rig import Rig, running
from tests.servers import StubApi, until

Simulate = Callable[..., State]

NAME = "unhealthy-gpu-rig"
PATH = f"/api/v1/namespaces/kube-system/configmaps/{NAME}"


@asynccontextmanager
async def following(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    """A plugin on three cards that reads the ConfigMap, often."""
    monkeypatch.setattr(declared_unhealthy, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(card_watch, "TURN_SECONDS", 0.01)
    async with running(simulate("mixed", driver="535.104.05")) as rig:
        task = asyncio.create_task(follow_declared(rig.client, rig.node, rig.health))
        try:
            yield rig
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def declare(api: StubApi, gpus: str) -> None:
    """An operator writes the ConfigMap."""
    api.put({"kind": "ConfigMap", "metadata": {"name": NAME, "namespace": "kube-system"}, "data": {"gpus": gpus}})


def polls(rig: Rig) -> int:
    """How often it was asked for."""
    return sum(call["path"] == PATH for call in rig.api.calls)


async def test_declared_cards_are_unhealthy_until_they_are_struck_off(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extender follows the same ConfigMap; here the kubelet hears of it."""
    async with following(simulate, monkeypatch) as rig:
        declare(rig.api, "0,2")
        await rig.reached(["ConfigMap", "", "ConfigMap"])
        declare(rig.api, "2")
        await rig.reached(["", "", "ConfigMap"])
        rig.api.delete("configmaps", NAME)
        await rig.reached(["", "", ""])

        assert len(rig.lists) == 4


async def test_an_entry_that_names_no_card_is_logged_once(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An entry that names no card is logged once and not at each look. A different entry is logged again."""
    async with following(simulate, monkeypatch) as rig:
        for text in ("0;2,1", "GPU-87443c8a"):
            declare(rig.api, text)
            seen = polls(rig) + 3
            await until(lambda seen=seen: polls(rig) > seen)
        # The original read nonsense as card 0 (D11).
        await rig.reached(["", "", ""])

    said = [text for text in caplog.messages if text.startswith("no card indices")]
    assert [text.rpartition("=")[2] for text in said] == ["0;2", "GPU-87443c8a"]


@pytest.mark.parametrize("code", [403, 500])
async def test_what_was_declared_holds_while_it_cannot_be_read(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """An error of the poll changes nothing. The original's manifests give the plugin no right to read it."""
    async with following(simulate, monkeypatch) as rig:
        declare(rig.api, "1")
        await rig.reached(["", "ConfigMap", ""])
        rig.api.fault = lambda method, path: (code, {"kind": "Status", "message": "no"}) if path == PATH else None
        seen = polls(rig)
        await until(lambda: polls(rig) > seen + 3)

        assert rig.reasons() == ["", "ConfigMap", ""]


async def test_plugin_restart_announces_no_declared_card_as_healthy(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plugin that restarts keeps a declared card unhealthy until it can read the ConfigMap, which then decides."""
    async with following(simulate, monkeypatch) as rig:
        declare(rig.api, "1")
        await rig.reached(["", "ConfigMap", ""])
        state, api = rig.state, rig.api
    api.delete("configmaps", NAME)
    async with running(state, api=api) as rig:
        await rig.settled()
        assert (rig.reasons(), rig.unhealthy_ids()) == (["", "ConfigMap", ""], 15)
        assert rig.events("Node")[1:] == []
        task = asyncio.create_task(follow_declared(rig.client, rig.node, rig.health))
        await rig.reached(["", "", ""])
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_node_with_too_long_a_name_for_it_is_logged(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No such ConfigMap can exist, so it is not asked for; the line has the longest name that a node may have for it."""
    async with running(simulate("t4x1")) as rig:
        monkeypatch.setattr(rig.node, "name", "n" * 240)
        await follow_declared(rig.client, rig.node, rig.health)

        assert "longest=239" in caplog.text
        assert not any("configmaps" in call["path"] for call in rig.api.calls)
