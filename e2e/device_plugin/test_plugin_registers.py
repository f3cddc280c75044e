"""How the plugin makes itself known to a kubelet, and stays known."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from clusters.api.api_client import Object
from clusters.api.resources import NODES
from clusters.api.waiting import eventually, until
from e2e import spec
from e2e.checkers.plugin_answers import ended_streams, sound_lists
from e2e.device_plugin.plugin_under_test import OLD_KUBELET, PluginUnderTest

# A plugin that registers so often within a second is in a busy loop.
_BUSY: Final = 8


@pytest.mark.promise("DP-001")
async def test_its_first_register_is_its_only_one(stage: PluginUnderTest) -> None:
    """The kubelet dials the plugin inside Register: one that does not serve yet is refused, and has to come again.

    It has the options before it answers; a plugin that finds owners asks to be asked which ids, and before starts.
    """
    await stage.open("t4x2")
    registration = await stage.plug()

    assert [bool(one.lists) for one in stage.kubelet.registrations if one.resource == spec.RESOURCE_MEMORY] == [True]
    assert (registration.version, "/" in registration.endpoint) == ("v1beta1", False)
    if stage.claims("pod-resources"):
        assert registration.options.pre_start_required
        assert registration.options.get_preferred_allocation_available


@pytest.mark.promise("D05", "DP-002")
async def test_the_first_list_is_whole(stage: PluginUnderTest) -> None:
    """One id for each GiB of each card, all healthy."""
    await stage.open("mixed", driver="418.87")
    registration = await stage.plug()

    units = sum(card["memory"]["total_mib"] // spec.MIB_PER_UNIT for card in stage.cards.cards())
    assert len(registration.lists) == 1
    assert len(registration.ids(healthy=True)) == len(registration.ids()) == units == 38


@pytest.mark.promise("DP-003")
@pytest.mark.promise("D07")
async def test_no_list_is_longer_than_a_kubelet_takes(stage: PluginUnderTest) -> None:
    """Defect D07: 8 cards of 143,771 MiB in MiB: the plugin ends with an error and a log, or sends a list that fits."""
    await stage.open("h200x8")
    plugin = await stage.launch(memory_unit="MiB")
    lists = await until(
        lambda: [message for one in stage.kubelet.registrations for message in one.lists],
        lambda seen: bool(seen) or plugin.pid is None,
        "the plugin ends, or sends a list",
        seconds=120,
    )

    stage.check_calls(sound_lists)
    if not lists:
        assert await plugin.stop() not in (0, None)
        assert plugin.log()


@pytest.mark.promise("DP-004")
async def test_ids_are_unique_short_and_stable(stage: PluginUnderTest) -> None:
    """The kubelet's records know containers by them, through restarts of the plugin."""
    await stage.open("v100x4")
    before = await stage.plug()
    assert stage.plugin is not None
    await stage.plugin.kill()
    await until(lambda: before.has_ended, bool, "the stream has ended")
    after = await stage.plug()

    stage.check_calls(sound_lists)
    assert sorted(after.ids()) == sorted(before.ids())


@pytest.mark.promise("DP-007")
async def test_it_registers_again_with_a_new_kubelet(stage: PluginUnderTest) -> None:
    """The sockets were removed, kubelet.sock is another file."""
    await stage.open("t4x1")
    before = await stage.plug()
    await stage.kubelet.restart()
    after = await stage.registered(after=1)

    assert after is not before
    assert after.ids() == before.ids()


@pytest.mark.promise("DP-008", "DP-009")
async def test_it_registers_again_when_its_socket_is_gone(stage: PluginUnderTest) -> None:
    """The folder was swept; the old stream has ended when Register is called."""
    await stage.open("t4x1")
    before = await stage.plug()
    (stage.cards.folder / "device-plugins" / before.endpoint).unlink()
    after = await stage.registered(after=1)

    stage.check_calls(ended_streams)
    assert after.ids()


@pytest.mark.promise("DP-010")
async def test_a_refusal_is_tried_again(stage: PluginUnderTest) -> None:
    """Not in a busy loop, until it is taken; or the plugin ends with an error, and its DaemonSet starts it again."""
    await stage.open("t4x1")
    stage.kubelet.refusal = "the version of this plugin is not supported"
    plugin = await stage.launch()

    def calls() -> list[float]:
        return [one.called for one in stage.kubelet.registrations if one.resource == spec.RESOURCE_MEMORY]

    def is_done(seen: list[float]) -> bool:
        is_late = len(seen) > 1 and asyncio.get_running_loop().time() - seen[0] > 1
        return plugin.pid is None or len(seen) >= _BUSY or is_late

    times = await until(calls, is_done, "it has tried again, for a second, or ended")
    stage.kubelet.refusal = ""
    if plugin.pid is None:
        assert await plugin.stop() not in (0, None)
        await stage.launch()
    else:
        # Quick at first, as a kubelet's socket exists before it answers; not for long.
        assert sum(time < times[0] + 1 for time in times) < _BUSY
    assert (await stage.registered()).ids()


@pytest.mark.promise("DP-020")
async def test_the_count_comes_back_with_a_re_created_node(stage: PluginUnderTest) -> None:
    """The plugin writes gpu-count again on a Node that was deleted and created again, and its cards annotation if it has one."""
    await stage.open("t4x2", kubelet=OLD_KUBELET)
    await stage.plug()

    def shows_two(node: Object) -> bool:
        capacity = (node.get("status") or {}).get("capacity") or {}
        annotations = node["metadata"].get("annotations") or {}
        has_cards = spec.NODE_CARDS in annotations or not stage.claims("cards-annotation")
        return capacity.get(spec.RESOURCE_COUNT) == "2" and has_cards

    await eventually(lambda: stage.api.get(NODES, stage.node), shows_two, "the node shows two cards")
    await stage.api.delete(NODES, stage.node)
    await stage.api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": stage.node}})

    await eventually(lambda: stage.api.get(NODES, stage.node), shows_two, "the new node shows two cards")
