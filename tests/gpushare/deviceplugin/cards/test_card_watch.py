"""Promises of gpushare.deviceplugin.cards.card_watch, node_status, card_news and of the lists that a kubelet gets."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

from fake_nvml.state import State
from gpushare.deviceplugin.cards import card_news, card_watch, node_status
from gpushare.deviceplugin.core.health import SECONDS, ContainerFaultError, XidRules
from gpushare.deviceplugin.proto import deviceplugin_pb2 as pb
from gpushare.manifests import Node, ObjectMeta
from gpushare.manifests import NodeStatus as Status
from gpushare.model.cards import NodeCards, encode_cards
from gpushare.model.node import devices_of
from tests.gpushare.deviceplugin.rig import COOL_DOWN, SURVEY, Rig, holder, new_node, running
from tests.servers import StubApi, until

Simulate = Callable[..., State]

# A driver that knows the recovery action (NVML field 230).
NEW = "580.65.06"


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real turns, with less rest between them."""
    monkeypatch.setattr(card_watch, "TURN_SECONDS", 0.01)
    monkeypatch.setattr(card_watch, "NO_CARDS_SECONDS", 0.01)
    monkeypatch.setattr(node_status, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(node_status, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(card_news, "RETRY_SECONDS", 0.01)


# Falling ill


@pytest.mark.parametrize("xid", [48, 79, 95])
async def test_a_critical_xid_takes_its_card_out_of_use(simulate: Simulate, xid: int) -> None:
    """D8: one message for all its ids, as long as one list; the other card is untouched."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        rig.state.post_xid(rig.uuids[1], xid)
        await rig.reached(["", f"Xid {xid}"])
        await rig.settled()

        assert len(rig.lists) == 2
        assert rig.lists[0].keys() == rig.lists[1].keys()
        assert rig.sizes[1] - rig.sizes[0] == 15 * (len("Unhealthy") - len("Healthy"))
        assert (rig.capacity("count"), rig.capacity("mem")) == ("2", "30")


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109])
async def test_an_applications_xid_changes_nothing(simulate: Simulate, xid: int) -> None:
    """No message to the kubelet, no write to the Node."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        await until(lambda: rig.capacity("count") == "2")
        rig.state.post_xid(rig.uuids[0], xid)
        await rig.settled()
        patches = [call for call in rig.api.calls if call["method"] == "PATCH" and "/nodes/" in call["path"]]

        # The cards and the condition, once each.
        assert (len(rig.lists), len(patches), rig.reasons()) == (1, 2, ["", ""])


async def test_the_pods_of_a_sick_card_alone_get_an_event(simulate: Simulate) -> None:
    """By an event on each, and on the Node."""
    api = StubApi(nodes=[new_node()], pods=[holder("on-0", 0), holder("on-1", 1)])
    async with running(simulate("t4x2", driver=NEW), api=api) as rig:
        rig.state.post_xid(rig.uuids[1], 48)
        await until(lambda: bool(rig.events("Pod")))
        text = f"card 1 ({rig.uuids[1]}) of node rig is unhealthy: Xid 48"

        assert rig.events("Node") == [("GPUShareCardUnhealthy", text)]
        assert [event["involvedObject"]["name"] for event in api.events if "involvedObject" in event] == ["rig", "on-1"]
        assert api.events[0]["involvedObject"]["uid"] == "uid-rig"


async def test_card_lost_during_plugin_downtime_is_reported_once(simulate: Simulate) -> None:
    """On the Node and its pods; a card that was sick before and still is has been reported already."""
    state = simulate("t4x2", driver=NEW)
    api = StubApi(nodes=[new_node()], pods=[holder("on-0", 0), holder("on-1", 1)])
    async with running(state, api=api) as rig:
        first, second = rig.uuids
        rig.state.post_xid(second, 48)
        await rig.reached(["", "Xid 48"])
        await until(lambda: bool(rig.events("Pod")))
    state.lose(first)
    for _ in range(2):
        async with running(state, api=api) as rig:
            await rig.reached(["lost", "Xid 48"])
            await until(lambda: len(rig.events("Pod")) >= 2)
            await rig.settled()

    told = [
        (event["involvedObject"]["name"], event["message"].rpartition(": ")[2])
        for event in api.events
        if "message" in event
    ]
    sick = [(name, why) for name, why in told if why in ("lost", "Xid 48")]
    assert sick == [("rig", "Xid 48"), ("on-1", "Xid 48"), ("rig", "lost"), ("on-0", "lost")]


async def test_an_event_that_was_refused_is_written_later(simulate: Simulate) -> None:
    """The reasons on the Node and on the pods."""
    api = StubApi(nodes=[new_node()], pods=[holder("on-1", 1)])
    async with running(simulate("t4x2", driver=NEW), api=api) as rig:
        refused: list[str] = []

        def refuse(method: str, path: str) -> Any:
            if not path.endswith("/events"):
                return None
            refused.append(path)
            return 503, {"kind": "Status", "message": "no"}

        api.fault = refuse
        rig.state.post_xid(rig.uuids[1], 48)
        await until(lambda: len(refused) > 2)
        assert api.events == []
        api.fault = lambda method, path: None

        await until(lambda: bool(rig.events("Pod")))
        assert len(rig.events("Node")) == 1


async def test_an_event_that_is_always_refused_keeps_no_other(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An admission webhook of one namespace that is away: events elsewhere are written, and that one once it is back."""
    monkeypatch.setattr(card_news, "ATTEMPTS", 5)
    api = StubApi(nodes=[new_node()], pods=[holder("on-0", 0), holder("on-1", 1)])
    api.pods[0]["metadata"]["namespace"] = "refused"
    async with running(simulate("t4x2", driver=NEW), api=api) as rig:
        no = 500, {"kind": "Status", "message": "failed calling webhook"}
        api.fault = lambda method, path: no if path.endswith("/namespaces/refused/events") else None
        for uuid in rig.uuids:
            rig.state.post_xid(uuid, 48)
        await until(lambda: len(rig.events("Node")) == 2 and len(rig.events("Pod")) == 1)
        api.fault = lambda method, path: None

        await until(lambda: len(rig.events("Pod")) == 2)


async def test_a_re_created_node_is_named_by_its_new_uid(simulate: Simulate) -> None:
    """An event with the old one is not shown with it."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        rig.state.post_xid(rig.uuids[0], 48)
        # A write that is under way would land on the new Node before it is read.
        await until(lambda: bool(rig.events("Node")) and rig.reasons() == ["Xid 48", ""])
        rig.api.nodes[0]["metadata"] = {"name": "rig", "uid": "uid-new"}
        rig.node.wake()
        await until(lambda: rig.reasons() == ["Xid 48", ""])
        rig.state.post_xid(rig.uuids[1], 79)
        await until(lambda: len(rig.events("Node")) == 2)

        assert rig.api.events[-1]["involvedObject"]["uid"] == "uid-new"


async def test_a_lost_card_is_sick_and_asked_again_ever_more_seldom(simulate: Simulate) -> None:
    """No spinning: NVML is opened again immediately, then after 1, 2, 4, ... seconds, at most at the pace of the counts."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        inits: list[float] = []
        init = pynvml.nvmlInitWithFlags

        def noted(flags: int) -> None:
            inits.append(rig.clock.now)
            init(flags)

        pynvml.nvmlInitWithFlags = noted
        try:
            rig.state.lose(rig.uuids[0])
            await rig.reached(["lost", ""])
            # The kubelet hears of it before the first count: time stands still until that is done.
            await rig.settled()
            for _ in range(60):
                rig.clock.now += 0.5
                await rig.settled()
        finally:
            pynvml.nvmlInitWithFlags = init

        assert [round(time - 1000) for time in inits] == [0, 1, 3, 7, 15, 25]
        assert rig.reasons() == ["lost", ""]
        rig.state.post_xid(rig.uuids[1], 48)
        await rig.reached(["lost", "Xid 48"])


async def test_removed_card_leaves_the_others_with_new_nvml_numbers(simulate: Simulate) -> None:
    """In the turn in which it is missed: by its old number a runtime would get another card."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        first, second = rig.uuids
        assert rig.node.nvml_indices[second] == 1
        rig.state.remove_card(first)
        await until(lambda: rig.capacity("count") == "1")

        assert rig.node.nvml_indices[second] == 0


async def test_a_fault_while_the_plugin_was_down_is_seen_at_its_start(simulate: Simulate) -> None:
    """No Xid was read, but the driver asks for a recovery; a fault that the Node knows of keeps its name."""
    state = simulate("t4x2", driver=NEW)
    async with running(state) as rig:
        rig.state.post_xid(rig.uuids[1], 79)
        await rig.reached(["", "Xid 79"])
        api, first = rig.api, rig.uuids[0]
    state.post_xid(first, 48)
    async with running(state, api=api) as rig:
        await rig.reached(["recovery action", "Xid 79"])


async def test_slow_nvml_does_not_stall_the_kubelet(simulate: Simulate) -> None:
    """A new stream gets its list while NVML thinks; the cards stay as they are."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        rig.state.add_fault("nvmlEventSetWait", seconds=5, count=1)
        await until(lambda: not rig.state.faults())
        busy = asyncio.create_task(rig.thread.run(lambda: None))
        call = rig.plugin.ListAndWatch(pb.Empty())
        message = await call.read()
        call.cancel()

        assert not busy.done()
        assert len(message.devices) == 30
        await busy
        await rig.settled()
        assert (rig.reasons(), len(rig.lists)) == (["", ""], 1)


# Faults that only a new container may cure: kept from the devices, blocked by control groups, an older library, an unknown error.
CONTAINER_FAULTS = [
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_OPERATING_SYSTEM,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    pynvml.NVML_ERROR_UNKNOWN,
]


@pytest.mark.parametrize("code", CONTAINER_FAULTS)
async def test_a_fault_of_the_own_container_ends_the_plugin(simulate: Simulate, code: int) -> None:
    """The kubelet then makes a new container; until it ends the plugin reports why, and all cards are sick."""
    async with running(simulate("t4x2", driver=NEW), ends_with=(ContainerFaultError,)) as rig:
        rig.state.set_init_return(code)
        await rig.thread.run(pynvml.nvmlShutdown)
        await rig.reached(["no driver", "no driver"])
        rig.clock.now += SECONDS - 1
        await rig.settled()
        assert not any(task.done() for task in rig.tasks)
        rig.clock.now += SURVEY
        await until(lambda: any(task.done() for task in rig.tasks))

        (text,) = [text for reason, text in rig.events("Node") if reason == "GPUShareNoCards"]
        assert "only a new container may cure that, so this one ends if it lasts 30 s" in text


@pytest.mark.parametrize("code", CONTAINER_FAULTS)
async def test_a_short_fault_of_the_container_is_waited_for(simulate: Simulate, code: int) -> None:
    """The cards are well again as soon as NVML answers, and the next fault has its whole time."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        for _ in range(2):
            rig.state.set_init_return(code)
            await rig.thread.run(pynvml.nvmlShutdown)
            await rig.reached(["no driver", "no driver"])
            rig.clock.now += SECONDS - 1
            await rig.settled()
            rig.state.set_init_return(0)
            rig.clock.now += SURVEY
            await rig.reached(["", ""])


async def test_a_container_that_is_kept_from_one_card_ends_the_plugin(simulate: Simulate) -> None:
    """The card answered before in this process, so its device was taken away from the container."""
    async with running(simulate("t4x2", driver=NEW), ends_with=(ContainerFaultError,)) as rig:
        rig.state.add_fault("nvmlDeviceGetUUID", code=pynvml.NVML_ERROR_NO_PERMISSION, card=rig.uuids[1])
        rig.clock.now += SURVEY + 1
        await rig.reached(["", "lost"])
        await until(lambda: "GPUShareCardUnreadable" in dict(rig.events("Node")))
        for _ in range(4):
            rig.clock.now += SURVEY + 1
            await asyncio.sleep(0.05)
        await until(lambda: any(task.done() for task in rig.tasks))


async def test_absent_driver_takes_all_cards_along_until_it_is_back(simulate: Simulate) -> None:
    """The Node reports it once, and a card that was sick before still is."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        rig.state.post_xid(rig.uuids[0], 48)
        await rig.reached(["Xid 48", ""])
        rig.state.set_init_return(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
        await rig.thread.run(pynvml.nvmlShutdown)
        await rig.reached(["Xid 48", "no driver"])
        for _ in range(5):
            rig.clock.now += SURVEY
            await rig.settled()
        said = [reason for reason, _ in rig.events("Node")]
        assert said.count("GPUShareNoCards") == 1

        rig.state.set_init_return(0)
        rig.clock.now += SURVEY
        await rig.reached(["Xid 48", ""])
        assert (rig.capacity("count"), len(rig.lists[-1])) == ("2", 30)


async def test_a_missing_driver_is_waited_for_and_reported(simulate: Simulate) -> None:
    """In the log and on the Node, once."""
    state = simulate("t4x2", driver=NEW)
    state.set_init_return(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    init, tries = pynvml.nvmlInitWithFlags, 0

    def counted(flags: int) -> None:
        nonlocal tries
        tries += 1
        if tries == 5:
            state.set_init_return(0)
        init(flags)

    pynvml.nvmlInitWithFlags = counted
    try:
        async with running(state) as rig:
            assert tries == 5
            await until(lambda: bool(rig.events("Node")))
            await rig.reached(["", ""])

            assert [reason for reason, _ in rig.events("Node")] == ["GPUShareNoCards"]
            assert "kernel module is not loaded" in rig.events("Node")[0][1]
    finally:
        pynvml.nvmlInitWithFlags = init


async def test_no_event_set_is_made_if_no_xid_is_critical(simulate: Simulate) -> None:
    """--health-check=false, as the original's default was; lost cards are still seen, by the count."""
    async with running(simulate("t4x2", driver=NEW), rules=XidRules(ignores_all=True)) as rig:
        rig.state.post_xid(rig.uuids[0], 48)
        rig.state.lose(rig.uuids[1])
        rig.clock.now += SURVEY + 1

        await rig.reached(["", "lost"])


# Recovery


async def test_a_new_boot_of_the_machine_recovers(simulate: Simulate) -> None:
    """Rule (a): the Node shows its boot, before us or while we run."""
    state = simulate("t4x2", driver="470.57.02")
    async with running(state) as rig:
        rig.state.post_xid(rig.uuids[0], 48)
        await rig.reached(["Xid 48", ""])
        api = rig.api
    async with running(state, api=api) as rig:
        await rig.settled()
        assert rig.reasons() == ["Xid 48", ""]
        assert rig.published()["boot"] == "boot-1"
        api.nodes[0]["status"]["nodeInfo"]["bootID"] = "boot-2"
        rig.node.wake()
        await rig.reached(["", ""])

        assert rig.published()["boot"] == "boot-2"
    api.nodes[0]["metadata"]["annotations"]["aliyun.com/gpushare-cards"] = (
        api.nodes[0]["metadata"]["annotations"]["aliyun.com/gpushare-cards"]
        .replace('"healthy":true,"reason":""', '"healthy":false,"reason":"Xid 79"')
        .replace("boot-2", "boot-1")
    )
    async with running(state, api=api) as rig:
        await rig.reached(["", ""])
        assert len(rig.lists) == 1


async def test_a_card_in_order_for_a_whole_cool_down_recovers(simulate: Simulate) -> None:
    """Rule (b), with an event on the pods of the card, in one list."""
    api = StubApi(nodes=[new_node()], pods=[holder("on-0", 0)])
    async with running(simulate("t4x2", driver=NEW), api=api) as rig:
        rig.state.post_xid(rig.uuids[0], 48)
        await rig.reached(["Xid 48", ""])
        # The driver asks for a reset: however long.
        rig.clock.now += 10 * COOL_DOWN
        await rig.settled()
        assert rig.reasons() == ["Xid 48", ""]

        rig.state.repair(rig.uuids[0])
        await rig.settled()
        rig.clock.now += COOL_DOWN - 1
        await rig.settled()
        assert rig.reasons() == ["Xid 48", ""]
        rig.clock.now += 1
        await rig.reached(["", ""])
        await until(lambda: len(rig.events("Pod")) == 2)
        assert rig.events("Pod")[1] == (
            "GPUShareCardRecovered",
            f"card 0 ({rig.uuids[0]}) of node rig is healthy again: "
            "the driver asks for no recovery and the card answers",
        )
        assert len(rig.lists) == 3


@pytest.mark.parametrize("driver", ["470.57.02", NEW])
async def test_a_lost_card_that_is_back_recovers_after_a_cool_down(simulate: Simulate, driver: str) -> None:
    """A lost card that is back recovers after a cool-down, with and without field 230, and a later Xid counts again."""
    async with running(simulate("t4x2", driver=driver)) as rig:
        rig.state.lose(rig.uuids[0])
        await rig.reached(["lost", ""])
        rig.clock.now += SURVEY
        await rig.settled()
        rig.state.repair(rig.uuids[0])
        rig.clock.now += SURVEY
        await rig.settled()
        assert rig.reasons() == ["lost", ""]
        rig.clock.now += COOL_DOWN
        await rig.reached(["", ""])

        rig.state.post_xid(rig.uuids[0], 48)
        await rig.reached(["Xid 48", ""])


@pytest.mark.parametrize("by", ["index", "uuid"])
async def test_an_operators_annotation_heals_once_and_is_removed(simulate: Simulate, by: str) -> None:
    """Rule (c), in the write that publishes it; what it does not name stays sick."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        for uuid in rig.uuids:
            rig.state.post_xid(uuid, 48)
        await rig.reached(["Xid 48", "Xid 48"])
        word = {"index": "1,9", "uuid": rig.uuids[1]}[by]
        rig.api.nodes[0]["metadata"]["annotations"]["gpushare.aliyun.com/recovered"] = word
        rig.node.wake()
        await rig.reached(["Xid 48", ""])

        assert "gpushare.aliyun.com/recovered" not in rig.api.nodes[0]["metadata"]["annotations"]
        removal = [
            call["body"]["metadata"]["annotations"]
            for call in rig.api.calls
            if call["method"] == "PATCH"
            and "gpushare.aliyun.com/recovered" in call["body"].get("metadata", {}).get("annotations", {})
        ]
        assert len(removal) == 1
        assert '"reason":"Xid 48"' in removal[0]["aliyun.com/gpushare-cards"]
        rig.state.post_xid(rig.uuids[1], 79)
        await rig.reached(["Xid 48", "Xid 79"])


async def test_misspelt_node_annotation_is_logged_once(simulate: Simulate, caplog: pytest.LogCaptureFixture) -> None:
    """An annotation of the Node below our prefix that the plugin does not know is logged with the one that it knows."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        annotations = rig.api.nodes[0]["metadata"]["annotations"]
        annotations["gpushare.aliyun.com/recoverd"] = "1"
        # The second word that the plugin acts on shows that it has read the Node twice.
        for _ in range(2):
            rig.state.post_xid(rig.uuids[0], 48)
            await rig.reached(["Xid 48", ""])
            annotations["gpushare.aliyun.com/recovered"] = "0"
            rig.node.wake()
            await rig.reached(["", ""])

    logged = [record.getMessage() for record in caplog.records if "recoverd" in record.getMessage()]
    assert logged == [
        "no annotation of a node that gpushare knows names=gpushare.aliyun.com/recoverd known=gpushare.aliyun.com/recovered"
    ]


async def test_an_operators_annotation_that_stays_heals_once(simulate: Simulate) -> None:
    """A card that falls ill later stays sick; the word counts again when it is written again."""
    word = "gpushare.aliyun.com/recovered"
    async with running(simulate("t4x2", driver=NEW)) as rig:
        rig.state.post_xid(rig.uuids[0], 48)
        await rig.reached(["Xid 48", ""])
        refused: list[str] = []

        def refuse(method: str, path: str) -> Any:
            if method != "PATCH" or "/nodes/" not in path:
                return None
            refused.append(path)
            return 500, {"kind": "Status", "message": "no"}

        rig.api.fault = refuse
        rig.api.nodes[0]["metadata"]["annotations"][word] = "0"
        rig.node.wake()
        await until(lambda: rig.sick_ids() == 0)
        rig.state.post_xid(rig.uuids[0], 79)
        await until(lambda: rig.sick_ids() == 15)
        tries = len(refused) + 3
        await until(lambda: len(refused) > tries)
        assert rig.sick_ids() == 15
        rig.api.fault = lambda method, path: None
        await rig.reached(["Xid 79", ""])

        assert word not in rig.api.nodes[0]["metadata"]["annotations"]
        rig.api.nodes[0]["metadata"]["annotations"][word] = "0"
        rig.node.wake()
        await rig.reached(["", ""])


# Cards that come and go


async def test_a_card_that_is_plugged_in_is_shared(simulate: Simulate) -> None:
    """A card that is plugged in is shared without a restart at the next count. The node counts it once the kubelet does."""
    async with running(simulate("t4x2", driver=NEW), count=False) as rig:
        rig.count()
        await until(lambda: rig.capacity("count") == "2")
        added = rig.state.add_card("t4")
        rig.clock.now += SURVEY + 1
        await until(lambda: len(rig.lists) == 2)
        assert (len(rig.lists[1]), rig.capacity("count"), rig.capacity("mem")) == (45, "0", "30")
        assert [card["uuid"] for card in rig.published()["cards"]] == rig.uuids
        rig.count()
        await until(lambda: rig.capacity("count") == "3")

        rig.state.post_xid(added, 48)
        await rig.reached(["", "", "Xid 48"])


async def test_card_reported_by_the_kernel_is_shared_before_the_count(simulate: Simulate, tmp_path: Path) -> None:
    """A second later, as NVML may need a moment to count it."""
    bus = tmp_path / "sys/bus/pci/drivers/nvidia"
    bus.mkdir(parents=True)
    async with running(simulate("t4x2", driver=NEW), sysfs=tmp_path / "sys") as rig:
        await until(lambda: rig.capacity("count") == "2")
        rig.state.add_card("t4")
        (bus / "0000:0a:00.0").symlink_to("card")
        await rig.settled()
        rig.clock.now += card_watch.FIRST_RETRY_SECONDS
        await until(lambda: rig.capacity("count") == "3")


@pytest.mark.parametrize("is_watched", [False, True])
async def test_node_is_compared_now_and_then_with_or_without_a_watch(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, *, is_watched: bool
) -> None:
    """More seldom if a watch reports its changes."""
    monkeypatch.setattr(node_status, "REASSERT_SECONDS", 3600 if is_watched else 0.01)
    monkeypatch.setattr(node_status, "WATCHED_SECONDS", 0.01 if is_watched else 3600)
    async with running(simulate("t4x2", driver=NEW)) as rig:
        if is_watched:
            rig.node.set(Node(ObjectMeta(name="rig")))
        await until(lambda: rig.capacity("count") == "2")
        # Behind the watch's back, as nothing in the stub reports it.
        del rig.api.nodes[0]["status"]["capacity"]["aliyun.com/gpu-count"]

        await until(lambda: rig.capacity("count") == "2")


async def test_nvml_that_says_nothing_is_worth_a_line(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One call that takes too long is logged; how long many take together does not count (``NvmlThread.silent_seconds``)."""
    monkeypatch.setattr(card_watch, "SILENCE_SECONDS", 0.3)
    async with running(simulate("t4x2", driver=NEW)) as rig:
        rig.state.add_fault("nvmlEventSetWait*", seconds=0.9, count=1)
        await until(lambda: "NVML does not answer act='read the reports of the cards'" in caplog.text)


async def test_no_reader_ever_sees_a_wrong_size_of_a_card(simulate: Simulate) -> None:
    """Whatever is on the Node after each write and each count: the true cards, or none."""
    async with running(simulate("mixed", driver=NEW)) as rig:
        seen: list[list[int]] = []
        answered, counted = rig.api.answer, rig.count

        def look() -> None:
            there = rig.api.nodes[0]
            node = Node(
                ObjectMeta(annotations=dict(there["metadata"].get("annotations", {}))),
                Status(capacity=dict(there["status"]["capacity"])),
            )
            seen.append([device.total for device in devices_of(node)])

        def answer(method: str, path: str, query: str, body: Any) -> tuple[int, Any]:
            result = answered(method, path, query, body)
            look()
            return result

        def count() -> None:
            counted()
            look()

        rig.api.answer = answer
        rig.count = count
        await until(lambda: rig.capacity("count") == "3")
        rig.state.add_card("h100-sxm5-80gb")
        rig.clock.now += SURVEY + 1
        await until(lambda: rig.capacity("count") == "4")
        rig.state.remove_card(rig.uuids[0])
        rig.clock.now += SURVEY + 1
        await until(lambda: rig.capacity("count") == "3")
        rig.node.wake()
        await rig.settled()

        sizes = [list(sizes) for sizes in dict.fromkeys(map(tuple, seen)) if sizes]
        assert sizes == [[15, 15, 11], [15, 15, 11, 79], [15, 11, 79]]


async def test_card_taken_out_stays_unhealthy_while_a_pod_names_it(simulate: Simulate) -> None:
    """The scheduler counts the pod until it ends. The others keep their indices, and the pod gets an event."""
    api = StubApi(nodes=[new_node()], pods=[holder("on-0", 0)])
    async with running(simulate("mixed", driver=NEW), api=api) as rig:
        rig.state.remove_card(rig.uuids[0])
        await rig.reached(["lost", "", ""])
        # As above: a count under way would seem to take two seconds, and the next one wait for as much longer.
        await rig.settled()
        rig.clock.now += SURVEY + 1
        await until(lambda: len(rig.node.nvml_indices) == 2)

        assert (len(rig.lists[-1]), rig.sick_ids(), rig.capacity("count")) == (15 + 15 + 11, 15, "3")
        await until(lambda: bool(rig.events("Pod")))
        assert rig.events("Pod")[0][0] == "GPUShareCardUnhealthy"


async def test_gone_card_is_not_given_out_while_the_node_is_unwritten(simulate: Simulate) -> None:
    """The ids of a gone card are sick until the new list can be announced, even if no event reported the loss."""
    async with running(simulate("t4x2", driver=NEW), rules=XidRules(ignores_all=True)) as rig:
        await until(lambda: rig.capacity("count") == "2")
        rig.api.fault = lambda method, path: (500, {"kind": "Status", "message": "no"}) if "/nodes/" in path else None
        rig.state.remove_card(rig.uuids[1])
        rig.clock.now += SURVEY + 1
        await until(lambda: rig.sick_ids() == 15)
        assert len(rig.lists[-1]) == 30
        rig.api.fault = lambda method, path: None
        await until(lambda: len(rig.lists[-1]) == 15 and rig.capacity("count") == "1")

        assert rig.sick_ids() == 0


async def test_card_that_is_back_before_the_write_is_well(simulate: Simulate) -> None:
    """A card that is back before the node is written is well again: its absence only made its ids sick."""
    api = StubApi(nodes=[new_node()], pods=[holder("on-1", 1)])
    async with running(simulate("t4x2", driver=NEW), api=api, rules=XidRules(ignores_all=True)) as rig:
        await until(lambda: rig.capacity("count") == "2")
        second = rig.uuids[1]
        api.fault = lambda method, path: (500, {"kind": "Status", "message": "no"}) if "/nodes/" in path else None
        other = rig.state.change_uuid(second)
        rig.clock.now += SURVEY + 1
        await until(lambda: rig.sick_ids() == 15)
        rig.state.change_uuid(other, second)
        rig.clock.now += SURVEY + 1
        await until(lambda: rig.sick_ids() == 0)
        api.fault = lambda method, path: None
        rig.node.wake()
        await rig.reached(["", ""])


async def test_an_exchanged_card_never_gets_the_index_that_a_pod_names(simulate: Simulate) -> None:
    """Another card under an old index would be another's memory."""
    api = StubApi(nodes=[new_node()], pods=[holder("on-0", 0)])
    async with running(simulate("t4x2", driver=NEW), api=api) as rig:
        first, second = rig.uuids
        new = rig.state.change_uuid(first)
        await until(lambda: rig.capacity("count") == "3" and new in str(rig.published()))

        assert [(card["index"], card["uuid"]) for card in rig.published()["cards"]] == [
            (0, first),
            (1, second),
            (2, new),
        ]
        assert rig.node.nvml_indices[new] == 0


async def test_no_card_gets_an_index_in_use_after_all_had_left(simulate: Simulate) -> None:
    """Before the plugin started all cards were taken out, and the pod that names the first still runs."""
    gone = NodeCards(1, "ids", "GiB", "boot-1", ())
    there = new_node()
    there["metadata"]["annotations"] = {"aliyun.com/gpushare-cards": encode_cards(gone)}
    async with running(simulate("t4x2", driver=NEW), api=StubApi(nodes=[there], pods=[holder("on-0", 0)])) as rig:
        assert [card["index"] for card in rig.published()["cards"]] == [1, 2]


async def test_a_card_that_comes_back_has_its_index_again(simulate: Simulate) -> None:
    """A card that comes back has its index again and is as sick as it was: being plugged in cures nothing."""
    api = StubApi(nodes=[new_node()], pods=[holder("on-0", 0)])
    async with running(simulate("t4x2", driver=NEW), api=api) as rig:
        first, second = rig.uuids
        rig.state.post_xid(first, 48)
        await rig.reached(["Xid 48", ""])
        new = rig.state.change_uuid(first)
        rig.clock.now += SURVEY + 1
        await until(lambda: new in str(rig.published()) and rig.capacity("count") == "3")
        rig.state.change_uuid(new, first)
        rig.clock.now += SURVEY + 1
        await until(lambda: new not in str(rig.published()) and rig.capacity("count") == "2")

        cards = [(card["index"], card["uuid"], card["reason"]) for card in rig.published()["cards"]]
        assert cards == [(0, first, "Xid 48"), (1, second, "")]


async def test_a_card_in_mig_mode_is_not_shared_with_an_event(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    """Log, Node and its pods, once each, and never as unhealthy or taken out; shared again when MIG is off."""
    api = StubApi(nodes=[new_node()], pods=[holder("on-3", 3), holder("on-4", 4)])
    async with running(simulate("a100x8", driver=NEW), unit="8192MiB", api=api) as rig:
        await until(lambda: rig.capacity("count") == "8")
        with caplog.at_level(logging.WARNING):
            rig.state.set_value(rig.uuids[3], "mig", "on")
            for _ in range(3):
                rig.clock.now += SURVEY + 1
                await rig.settled()
            await until(lambda: rig.reasons()[3] == "in MIG mode")
        told = [text for reason, text in rig.events("Node") if reason == "GPUShareCardNotShared"]
        assert len(told) == 1
        assert rig.uuids[3] in told[0]
        assert caplog.text.count("card trouble event=GPUShareCardNotShared") == 1
        await until(lambda: bool(rig.events("Pod")))
        (reason, text) = rig.events("Pod")[0]
        assert (reason, text.rpartition(": ")[2]) == ("GPUShareCardNotShared", "in MIG mode")
        (condition,) = api.nodes[0]["status"]["conditions"]
        assert condition["status"] == "True"
        assert f"card {rig.uuids[3]} is not shared: in MIG mode" in condition["message"]

        rig.state.set_value(rig.uuids[3], "mig", "off")
        rig.clock.now += SURVEY + 1
        await until(lambda: not any(rig.reasons()))
        await rig.settled()
        assert {reason for kind in ("Node", "Pod") for reason, _ in rig.events(kind)} == {"GPUShareCardNotShared"}
        assert len(rig.events("Pod")) == 1


@pytest.mark.parametrize(
    ("unit", "visible", "reason"),
    [
        ("12288MiB", "all", "GPUShareCardNotShared"),
        ("8192MiB", "GPU-of-others", "GPUShareCardNotShared"),
        ("8192MiB", "all", "GPUShareCardUnhealthy"),
    ],
    ids=["a larger unit", "other cards for the plugin", "taken out"],
)
async def test_each_way_out_of_the_list_has_its_own_words(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, unit: str, visible: str, reason: str
) -> None:
    """While no plugin ran, a card left the list: it is reported once, as what it is."""
    state, api = simulate("mixed", driver=NEW), StubApi(nodes=[new_node()])
    async with running(state, unit="8192MiB", api=api) as rig:
        await until(lambda: rig.capacity("count") == "3")
        small = rig.uuids[2]
    if unit == "8192MiB":
        state.remove_card(small)
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", visible)
    async with running(state, unit=unit, api=api) as rig:
        await until(lambda: rig.capacity("count") == "2" and bool(rig.events("Node")))
        await rig.settled()

        ((found, text),) = rig.events("Node")
        assert (found, small in text, "taken out" in text) == (reason, True, reason == "GPUShareCardUnhealthy")
        (condition,) = api.nodes[0]["status"]["conditions"]
        assert condition["status"] == "True"


async def test_a_card_of_less_than_a_unit_is_not_shared(simulate: Simulate) -> None:
    """The Node's event names the card, its memory and a unit that would do; the other cards are shared."""
    async with running(simulate("mixed", driver=NEW), unit="12288MiB") as rig:
        await until(lambda: rig.capacity("count") == "2")
        ((reason, text),) = rig.events("Node")

        small = rig.uuids[2]
        assert reason == "GPUShareCardNotShared"
        for words in (small, "1080 Ti", "11264 MiB", "one unit of 12288MiB", "--memory-unit 8192MiB"):
            assert words in text
        assert small not in str(rig.published())


async def test_of_two_cards_with_one_uuid_one_is_shared(simulate: Simulate) -> None:
    """The other one is reported, and the indices on the Node stay distinct."""
    state = simulate("t4x2", driver=NEW)
    first = state.cards()[0].uuid
    with state.mapped.writing() as content:
        content.cards[1].uuid = first.encode()
    async with running(state) as rig:
        await until(lambda: (rig.capacity("count"), rig.capacity("mem")) == ("1", "15"))
        await until(lambda: "GPUShareCardUnreadable" in dict(rig.events("Node")))

        assert [card["uuid"] for card in rig.published()["cards"]] == [first]
        assert "has the UUID of card 0" in dict(rig.events("Node"))["GPUShareCardUnreadable"]


async def test_indescribable_card_is_reported_once_with_the_reason(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    """Log and Node, from the start on, again for another reason; one that could be read before is lost, and reported as that."""
    state = simulate("t4x2", driver=NEW)

    def refuse(code: int) -> None:
        state.add_fault("nvmlDeviceGetMemoryInfo", card=state.cards()[1].uuid, code=code)

    refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
    async with running(state) as rig:

        async def lines() -> int:
            for _ in range(3):
                rig.clock.now += SURVEY + 1
                await rig.settled()
            return caplog.text.count("card trouble event=GPUShareCardUnreadable")

        assert await lines() == 1
        refuse(pynvml.NVML_ERROR_UNKNOWN)
        assert await lines() == 2
        state.clear_faults()
        assert await lines() == 2
        refuse(pynvml.NVML_ERROR_UNKNOWN)
        assert await lines() == 2
        await rig.reached(["", "lost"])
        told = [text for reason, text in rig.events("Node") if reason == "GPUShareCardUnreadable"]
        assert {text.partition(": ")[0] for text in told} == {"card 1 by NVML's count cannot be read"}


async def test_cards_that_a_kubelet_would_not_take_are_not_announced(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    """A card too many must not end a plugin that serves others; the log has the reason, once."""
    async with running(simulate("t4x2", driver=NEW), more=("--max-ids=30",)) as rig:
        await until(lambda: rig.capacity("count") == "2")
        rig.state.add_card("t4")
        for _ in range(3):
            rig.clock.now += SURVEY + 1
            await rig.settled()
            rig.node.wake()
        await until(lambda: "makes 45 ids, more than 30" in caplog.text)
        await rig.settled()

        assert (len(rig.lists), rig.capacity("count")) == (1, "2")
        assert caplog.text.count("cards not announced") == 1


async def test_the_longer_a_count_takes_the_more_seldom_it_is(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No faults are read while NVML is opened again."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        inits: list[float] = []
        init = pynvml.nvmlInitWithFlags

        def slow(flags: int) -> None:
            inits.append(rig.clock.now)
            rig.clock.now += 0.1
            init(flags)

        monkeypatch.setattr(pynvml, "nvmlInitWithFlags", slow)
        for _ in range(12):
            rig.clock.now += SURVEY
            await rig.settled()

        assert len(inits) == 3
        assert min(later - sooner for sooner, later in itertools.pairwise(inits)) >= 50


async def test_minutes_long_count_is_followed_by_at_most_ten_of_rest(simulate: Simulate) -> None:
    """A card that is plugged in must be found some time, however slow NVML was once."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        await until(lambda: rig.capacity("count") == "2")
        await _count_slowly(rig)
        rig.state.add_card("t4")
        rig.clock.now += 601

        await until(lambda: rig.capacity("count") == "3")


async def test_card_with_failed_events_is_read_after_the_usual_pause(simulate: Simulate) -> None:
    """However long the rest between counts: no faults are read until then."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        await _count_slowly(rig)
        # The first card is the first to be asked.
        rig.state.add_fault("nvmlEventSetWait*", code=pynvml.NVML_ERROR_UNKNOWN, count=1)
        await until(lambda: not rig.state.faults())
        await rig.settled()
        rig.clock.now += SURVEY + 1
        await rig.settled()
        rig.state.post_xid(rig.uuids[0], 48)

        await rig.reached(["Xid 48", ""])


async def _count_slowly(rig: Rig) -> None:
    """One count that takes two minutes."""
    init = pynvml.nvmlInitWithFlags

    def slow(flags: int) -> None:
        rig.clock.now += 120
        init(flags)

    pynvml.nvmlInitWithFlags = slow
    try:
        before = rig.clock.now
        rig.clock.now += SURVEY + 1
        await until(lambda: rig.clock.now > before + 120)
        await rig.settled()
    finally:
        pynvml.nvmlInitWithFlags = init


async def test_absent_api_server_does_not_keep_the_kubelet_waiting(simulate: Simulate) -> None:
    """The kubelet gets a sick card immediately; the Node when it can be written."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        await until(lambda: rig.capacity("count") == "2")
        rig.api.fault = lambda method, path: (500, {"kind": "Status", "message": "no"}) if "/nodes/" in path else None
        rig.state.post_xid(rig.uuids[0], 48)
        await until(lambda: rig.sick_ids() == 15)
        assert rig.reasons() == ["", ""]
        rig.api.fault = lambda method, path: None

        await rig.reached(["Xid 48", ""])
