"""Defects of the original that users met, by their numbers (CONTRIBUTING.md has the list): each a case that it fails.

Elsewhere are D01, D02 and D03 (test_plugin_allocate.py: DP-015, DP-012, DP-016), D05 (test_plugin_registers.py: DP-002), D08
(test_plugin_health.py: DP-005), D21 and D22 (e2e/scenarios/test_containers.py).
"""

from __future__ import annotations

import pytest

from clusters.api.resources import NODES
from clusters.api.waiting import eventually, until
from e2e import spec
from e2e.builders import gpu_pod
from e2e.device_plugin.plugin_under_test import PluginUnderTest
from e2e.device_plugin.test_plugin_allocate import MEMORY, given, start
from e2e.device_plugin.test_plugin_health import has_unhealthy
from e2e.observer import Observer


@pytest.mark.promise("D04")
async def test_d04_a_node_of_one_card_gives_it_to_no_pod_unasked(stage: PluginUnderTest) -> None:
    """D04: on a node with one card every caller got it, and nothing was written down."""
    await stage.open("t4x1")
    free = (await stage.plug()).ids()
    assert await given(stage, free[:3]) is None
    # A pod without a scheduler is written down before it gets the card.
    await stage.create(gpu_pod("by-hand", 3, bound_to=stage.node))
    ids = await stage.kubelet.prefer(MEMORY, free, 3)
    told = await given(stage, ids)
    if told is not None:
        await start(stage, "by-hand", "c0", ids)
        written = (await stage.pod("by-hand"))["metadata"].get("annotations") or {}
        assert written.get(spec.POD_INDEX) == told[spec.ENV_INDEX]


@pytest.mark.promise("D07")
async def test_d07_large_cards_fit_into_the_kubelets_4_mib(stage: PluginUnderTest) -> None:
    """D07: about 61 bytes a unit ended at 69,000 units: the list's bytes for each id are half of that, and no list is too long."""
    await stage.open("h200x8")
    registration = await stage.plug()

    ids = registration.ids()
    assert len(ids) == 8 * (143_771 // 1024)
    assert registration.lists[0].ByteSize() / len(ids) < 61 / 2
    # In MiB, which never fits: test_no_list_is_longer_than_a_kubelet_takes.


@pytest.mark.parametrize("what", ["an Xid", "no events on a card", "an error of NVML"])
@pytest.mark.promise("D09")
async def test_d09_health_is_on_and_survives_odd_answers(stage: PluginUnderTest, what: str) -> None:
    """D09: off by default, never recovering; if it was on, a card without events was unhealthy; another error ended the plugin."""
    await stage.open("t4x2", driver="575")
    if what == "no events on a card":
        await stage.cards.fake_nvml("fail", "nvmlDeviceRegisterEvents", "--card", "0", "--with", "NOT_SUPPORTED")
    if what == "an error of NVML":
        await stage.cards.fake_nvml("fail", "nvmlEventSetWait*", "--with", "UNKNOWN", "--count", "3")
    hasten = stage.spelt(cool_down="1s")
    registration = await stage.plug(**hasten, **({} if what == "an Xid" else stage.spelt(health="true")))
    assert len(registration.ids(healthy=True)) == len(registration.ids())
    if what == "an error of NVML":
        await eventually(
            lambda: stage.cards.fake_nvml("faults"), lambda text: "UNKNOWN" not in text, "the plugin has met the errors"
        )
    await stage.cards.fake_nvml("xid", "1", "48")
    await has_unhealthy(registration, len(registration.ids()) // 2)

    # The card comes back after a while, which only a flag makes short.
    if hasten:
        await stage.cards.fake_nvml("repair", "1")
        await has_unhealthy(registration, 0)
    assert stage.plugin is not None
    assert stage.plugin.pid is not None


@pytest.mark.promise("D14")
@pytest.mark.needs("extender")
async def test_d14_memory_that_comes_after_the_count_is_seen(observer: Observer) -> None:
    """D14: an extender that saw the count first had cards of size 0 for ever."""
    api, name = observer.cluster.api, "late-memory"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"gpushare": "true"}}}
    await api.create(node)
    try:
        await _capacity(observer, name, {spec.RESOURCE_COUNT: "2"})
        await observer.get(observer.cluster.extender_url() + spec.INSPECT + f"/{name}")
        await _capacity(observer, name, {spec.RESOURCE_COUNT: "2", spec.RESOURCE_MEMORY: "28"})

        async def sizes() -> list[int]:
            book = await observer.inspect(f"/{name}")
            return [device["totalGPU"] for one in book.get("nodes") or () for device in one["devs"]]

        await eventually(sizes, lambda seen: seen == [14, 14], "the extender knows two cards of 14")
    finally:
        await api.delete(NODES, name)


@pytest.mark.promise("D27")
@pytest.mark.parametrize("strategy", ["", "uuid", "index"], ids=["as it is", "uuid", "index"])
async def test_d27_the_runtime_gets_the_right_card(stage: PluginUnderTest, strategy: str) -> None:
    """D27: our index went to the runtime as if it were NVML's; when a card is missing, that names another one."""
    options = {"device_id_strategy": strategy} if strategy else {}
    await stage.open("t4x2", driver="535.104")
    registration = await stage.plug(**options)
    await stage.book("p", 3, card=1)
    # The first card does not come up any more: NVML counts the second one as 0.
    assert stage.plugin is not None
    await stage.plugin.kill()
    await until(lambda: registration.has_ended, bool, "the stream has ended")
    await stage.cards.fake_nvml("remove", "0")
    (left,) = stage.cards.cards()
    after = await stage.plug()
    told = await given(stage, after.ids(healthy=True)[:3])

    assert left["index"] == 0
    names = {"uuid": {left["uuid"]}, "index": {"0"}, "": {left["uuid"], "0"}}
    # To refuse the pod is as good: no container gets another card.
    assert told is None or told[spec.ENV_VISIBLE] in names[strategy], told


async def _capacity(observer: Observer, node: str, amounts: dict[str, str]) -> None:
    status = {"status": {"capacity": amounts, "allocatable": amounts}}
    await observer.cluster.api.patch(NODES, node, status, subresource="status")
