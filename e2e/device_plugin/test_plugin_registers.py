"""How the plugin makes itself known to a kubelet, and stays known."""

from __future__ import annotations

from itertools import pairwise

import pytest

from clusters.api.api_client import Object
from clusters.api.resources import NODES
from clusters.api.waiting import eventually, until
from e2e import spec
from e2e.device_plugin.plugin_stage import OLD_KUBELET, PluginStage

_MESSAGE_LIMIT = 4 * 1024 * 1024


@pytest.mark.promise("DP-001")
async def test_options_are_answered_inside_register(stage: PluginStage) -> None:
    """The kubelet has them before it answers Register: to be asked which ids, and before each start."""
    await stage.open("t4x2")
    registration = await stage.plug()

    assert (registration.version, registration.endpoint) == ("v1beta1", "aliyungpushare.sock")
    assert registration.options.pre_start_required
    assert registration.options.get_preferred_allocation_available


@pytest.mark.promise("DP-002")
async def test_the_first_list_is_whole(stage: PluginStage) -> None:
    """One id for each GiB of each card, all healthy."""
    await stage.open("mixed", driver="418.87")
    registration = await stage.plug()

    units = sum(card["memory"]["total_mib"] // spec.MIB_PER_UNIT for card in stage.cards.cards())
    assert len(registration.lists) == 1
    assert len(registration.ids(healthy=True)) == len(registration.ids()) == units == 38


@pytest.mark.promise("DP-003")
@pytest.mark.promise("D07")
async def test_too_many_ids_are_refused_with_advice(stage: PluginStage) -> None:
    """Defect D7: 8 cards of 143,771 MiB in MiB; it ends with 1, names the unit and the mode that fit, announces nothing."""
    await stage.open("h200x8")
    plugin = await stage.launch("--memory-unit", "MiB")
    log = await stage.logged("slots")
    await until(lambda: plugin.pid is None, bool, "the plugin ends")

    assert "--memory-unit" in log
    assert "--mode slots" in log
    assert not stage.kubelet.registrations
    assert await plugin.stop() == 1


@pytest.mark.promise("DP-003")
async def test_a_unit_that_fits_is_served(stage: PluginStage) -> None:
    """8 cards of 143,771 MiB in GiB are 1,120 ids, far below 4 MiB; sent as one message."""
    await stage.open("h200x8")
    registration = await stage.plug()

    assert len(registration.ids()) == 8 * (143771 // spec.MIB_PER_UNIT)
    assert registration.lists[0].ByteSize() < _MESSAGE_LIMIT / 40


@pytest.mark.promise("DP-004")
async def test_ids_are_unique_short_and_stable(stage: PluginStage) -> None:
    """The kubelet's records know containers by them, through restarts of the plugin."""
    await stage.open("v100x4")
    before = await stage.plug()
    assert stage.plugin is not None
    await stage.plugin.kill()
    await until(lambda: before.has_ended, bool, "the stream has ended")
    after = await stage.plug()

    ids = before.ids()
    assert len(set(ids)) == len(ids)
    assert max(map(len, ids)) <= 63
    assert sorted(after.ids()) == sorted(ids)


@pytest.mark.promise("DP-007")
async def test_it_registers_again_with_a_new_kubelet(stage: PluginStage) -> None:
    """The sockets were removed, kubelet.sock is another file."""
    await stage.open("t4x1")
    before = await stage.plug()
    await stage.kubelet.restart()
    after = await stage.registered(after=1)

    assert after is not before
    assert after.ids() == before.ids()


@pytest.mark.promise("DP-008", "DP-009")
async def test_it_registers_again_when_its_socket_is_gone(stage: PluginStage) -> None:
    """The folder was swept; the old stream has ended when Register is called."""
    await stage.open("t4x1")
    await stage.plug()
    (stage.cards.folder / "device-plugins" / "aliyungpushare.sock").unlink()
    after = await stage.registered(after=1)

    assert after.older_streams == 0
    assert after.ids()


@pytest.mark.promise("DP-010")
async def test_a_refusal_is_tried_again(stage: PluginStage) -> None:
    """At longer and longer intervals, with the kubelet's words in the log, until it is taken."""
    await stage.open("t4x1")
    stage.kubelet.refusal = "the version of this plugin is not supported"
    await stage.launch()
    times = await until(
        lambda: [one.called for one in stage.kubelet.registrations if one.resource == spec.RESOURCE_MEMORY],
        lambda times: len(times) >= 8,
        "it has tried eight times",
    )
    await stage.logged("not supported")
    stage.kubelet.refusal = ""
    registration = await stage.registered()

    pauses = [after - before for before, after in pairwise(times)]
    assert pauses[0] < pauses[3] < pauses[6]
    # Quick at first, as a kubelet's socket exists before it answers; not for long.
    assert pauses[6] > 1
    assert registration.ids()


@pytest.mark.promise("DP-020")
async def test_the_count_comes_back_with_a_re_created_node(stage: PluginStage) -> None:
    """The plugin writes gpu-count and the cards annotation again on a Node that was deleted and created again."""
    await stage.open("t4x2", kubelet=OLD_KUBELET)
    await stage.plug()

    def shows_two(node: Object) -> bool:
        capacity = (node.get("status") or {}).get("capacity") or {}
        return capacity.get(spec.RESOURCE_COUNT) == "2" and spec.NODE_CARDS in (
            node["metadata"].get("annotations") or {}
        )

    await eventually(lambda: stage.api.get(NODES, stage.node), shows_two, "the node shows two cards")
    await stage.api.delete(NODES, stage.node)
    await stage.api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": stage.node}})

    await eventually(lambda: stage.api.get(NODES, stage.node), shows_two, "the new node shows two cards")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
async def test_nothing_is_left_of_a_plugin_that_ended(stage: PluginStage, name: str) -> None:
    """The stream of a plugin that ended ends too; after SIGTERM the exit code is 0."""
    await stage.open("t4x1")
    registration = await stage.plug()
    assert stage.plugin is not None
    if name == "SIGTERM":
        assert await stage.plugin.stop() == 0
    else:
        await stage.plugin.kill()

    await until(lambda: registration.has_ended, bool, "the stream has ended")
