"""Promises of gpushare.deviceplugin.card_watch, node_status and of the lists that a kubelet gets."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pynvml
import pytest

from fake_nvml.state import State
from gpushare.deviceplugin import card_watch, node_status
from gpushare.deviceplugin.card_watch import follow_declared
from gpushare.deviceplugin.core.announced_cards import ENDED
from gpushare.deviceplugin.core.health import SECONDS, ContainerFaultError, XidRules
from gpushare.manifests import Node, ObjectMeta
from gpushare.manifests import NodeStatus as Status
from gpushare.model.node import devices_of
from tests.gpushare.deviceplugin.rig import SURVEY, holder, new_node, running
from tests.servers import StubApi, until

Simulate = Callable[..., State]

# A driver that knows the recovery action (NVML field 230).
NEW = "580.65.06"


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real turns, with less rest between them."""
    monkeypatch.setattr(card_watch, "TURN_SECONDS", 0.01)
    monkeypatch.setattr(card_watch, "NO_CARDS_SECONDS", 0.01)
    monkeypatch.setattr(card_watch, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(node_status, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(node_status, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(card_watch, "EVENT_RETRY_SECONDS", 0.01)


async def test_faults_during_plugin_downtime_are_reported_once(simulate: Simulate) -> None:
    """A lost card, and one whose driver asks for a recovery: on the Node and its pods, and nothing that was reported before."""
    state = simulate("mixed", driver=NEW)
    api = StubApi(nodes=[new_node()], pods=[holder("on-0", 0), holder("on-1", 1)])
    async with running(state, api=api) as rig:
        first, second, third = rig.uuids
        state.post_xid(second, 48)
        await rig.reached(["", "Xid 48", ""])
        await until(lambda: bool(rig.events("Pod")))
    state.lose(first)
    state.post_xid(third, 79)
    for _ in range(2):
        async with running(state, api=api) as rig:
            await rig.reached(["lost", "Xid 48", "recovery action"])
            await until(lambda: len(rig.events("Pod")) >= 2)
            await rig.settled()

    told = [
        (one["involvedObject"]["name"], one["message"].rpartition(": ")[2]) for one in api.events if "message" in one
    ]
    assert [one for one in told if one[1] == "Xid 48"] == [("rig", "Xid 48"), ("on-1", "Xid 48")]
    assert [one for one in told if one[1] == "lost"] == [("rig", "lost"), ("on-0", "lost")]
    assert [one for one in told if one[1] == "recovery action"] == [("rig", "recovery action")]


async def test_an_event_that_is_always_refused_keeps_no_other(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An admission webhook of one namespace that is away: events elsewhere are written, and that one once it is back."""
    monkeypatch.setattr(card_watch, "EVENT_ATTEMPTS", 5)
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
    """An event with the old uid is not shown with the Node."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        rig.state.post_xid(rig.uuids[0], 48)
        # A write that is under way would land on the new Node before it is read.
        await until(lambda: bool(rig.events("Node")) and rig.reasons() == ["Xid 48", ""])
        rig.api.nodes[0]["metadata"] = {"name": "rig", "uid": "uid-new"}
        rig.parts.node.wake()
        await until(lambda: rig.reasons() == ["Xid 48", ""])
        rig.state.post_xid(rig.uuids[1], 79)
        await until(lambda: len(rig.events("Node")) == 2)

        assert rig.api.events[-1]["involvedObject"]["uid"] == "uid-new"


@pytest.mark.parametrize("is_lost", [True, False])
async def test_nvml_is_opened_again_ever_more_seldom(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, *, is_lost: bool
) -> None:
    """After a lost card immediately, then after 1, 2, 4, ... seconds; and the longer a count takes, the more seldom it is."""
    begun: list[float] = []
    init = pynvml.nvmlInitWithFlags
    async with running(simulate("t4x2", driver=NEW)) as rig:
        await until(lambda: rig.capacity("count") == "2")

        def slow(flags: int) -> None:
            begun.append(rig.clock.now)
            rig.clock.now += 0 if is_lost else 0.1
            init(flags)

        monkeypatch.setattr(pynvml, "nvmlInitWithFlags", slow)
        if is_lost:
            rig.state.lose(rig.uuids[0])
            await rig.reached(["lost", ""])
            # The kubelet hears of it before the first count: time stands still until that is done.
            await rig.settled()
        for _ in range(60 if is_lost else 12):
            rig.clock.now += 0.5 if is_lost else SURVEY
            await rig.settled()

        if is_lost:
            assert [round(time - 1000) for time in begun] == [0, 1, 3, 7, 15, 25]
        else:
            assert len(begun) == 3
            assert min(later - sooner for sooner, later in itertools.pairwise(begun)) >= 50


async def test_misspelt_node_annotation_is_logged_once(simulate: Simulate, caplog: pytest.LogCaptureFixture) -> None:
    """An annotation of the Node below our prefix that the plugin does not know is logged with the one that it knows."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        rig.api.nodes[0]["metadata"]["annotations"]["gpushare.aliyun.com/recoverd"] = "1"
        for _ in range(2):
            seen = len(rig.api.calls)
            rig.parts.node.wake()
            await until(lambda seen=seen: len(rig.api.calls) > seen)
        await rig.settled()

    line = "no annotation of a node that gpushare knows names=gpushare.aliyun.com/recoverd known=gpushare.aliyun.com/recovered"
    assert [text for text in caplog.messages if "recoverd" in text] == [line]


# Faults that only a new container may cure: kept from the devices, an older library.
@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NO_PERMISSION, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH])
async def test_a_fault_of_the_own_container_ends_the_plugin(simulate: Simulate, code: int) -> None:
    """The kubelet then makes a new container; until it ends the plugin reports why, and all cards are unhealthy."""
    async with running(simulate("t4x2", driver=NEW), ends_with=(ContainerFaultError,)) as rig:
        rig.state.set_init_return(code)
        await rig.parts.nvml.ask(lambda session: pynvml.nvmlShutdown())
        await rig.reached(["no driver", "no driver"])
        rig.clock.now += SECONDS - 1
        await rig.settled()
        assert not any(task.done() for task in rig.tasks)
        rig.clock.now += SURVEY
        await until(lambda: any(task.done() for task in rig.tasks))

        (text,) = [text for reason, text in rig.events("Node") if reason == "GPUShareNoCards"]
        assert "only a new container may cure that, so this one ends if it lasts 30 s" in text


async def test_each_absence_of_the_driver_is_reported(simulate: Simulate) -> None:
    """A driver that was back and goes away again is news: the event is counted again, and the cards are unhealthy again."""
    word = "GPUShareNoCards"
    async with running(simulate("t4x2", driver=NEW)) as rig:
        for times in (1, 2):
            rig.state.set_init_return(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
            await rig.parts.nvml.ask(lambda session: pynvml.nvmlShutdown())
            await rig.reached(["no driver", "no driver"])
            await until(
                lambda times=times: [one["count"] for one in rig.api.events if one["reason"] == word] == [times]
            )
            rig.state.set_init_return(pynvml.NVML_SUCCESS)
            rig.clock.now += SURVEY
            await rig.reached(["", ""])


async def test_an_operators_annotation_that_stays_heals_once(simulate: Simulate) -> None:
    """A card that becomes unhealthy later stays unhealthy; the word counts again when it is written again."""
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
        rig.parts.node.wake()
        await until(lambda: rig.unhealthy_ids() == 0)
        rig.state.post_xid(rig.uuids[0], 79)
        await until(lambda: rig.unhealthy_ids() == 15)
        tries = len(refused) + 3
        await until(lambda: len(refused) > tries)
        assert rig.unhealthy_ids() == 15
        rig.api.fault = lambda method, path: None
        await rig.reached(["Xid 79", ""])

        assert word not in rig.api.nodes[0]["metadata"]["annotations"]
        rig.api.nodes[0]["metadata"]["annotations"][word] = "0"
        rig.parts.node.wake()
        await rig.reached(["", ""])


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
        rig.parts.node.wake()
        await rig.settled()

        sizes = [list(sizes) for sizes in dict.fromkeys(map(tuple, seen)) if sizes]
        assert sizes == [[15, 15, 11], [15, 15, 11, 79], [15, 11, 79]]


@pytest.mark.parametrize("comes_back", [False, True])
async def test_gone_card_is_not_given_out_while_the_node_is_unwritten(simulate: Simulate, comes_back: bool) -> None:
    """Its ids are unhealthy until the new list can be announced, or until it is back, even if no event reported the loss."""
    api = StubApi(nodes=[new_node()], pods=[holder("on-1", 1)] if comes_back else [])
    async with running(simulate("t4x2", driver=NEW), api=api, rules=XidRules(ignores_all=True)) as rig:
        await until(lambda: rig.capacity("count") == "2")
        api.fault = lambda method, path: (500, {"kind": "Status", "message": "no"}) if "/nodes/" in path else None
        gone = rig.uuids[1]
        other = rig.state.change_uuid(gone)
        rig.clock.now += SURVEY + 1
        await until(lambda: rig.unhealthy_ids() == 15)
        assert len(rig.lists[-1]) == 30
        if comes_back:
            rig.state.change_uuid(other, gone)
        else:
            rig.state.remove_card(other)
        rig.clock.now += SURVEY + 1
        await until(lambda: rig.unhealthy_ids() == (0 if comes_back else 15))
        api.fault = lambda method, path: None
        rig.parts.node.wake()
        await rig.reached([""] * (1 + comes_back))
        await until(lambda: rig.capacity("count") == str(1 + comes_back))


@pytest.mark.parametrize(
    ("unit", "visible", "reason", "words"),
    [
        ("12288MiB", "all", "GPUShareCardNotShared", "1080 Ti, 11264 MiB, one unit of 12288MiB, --memory-unit 8192MiB"),
        ("8192MiB", "GPU-of-others", "GPUShareCardNotShared", ""),
        ("8192MiB", "mig", "GPUShareCardNotShared", "in MIG mode, nvidia-smi -mig 0"),
        ("8192MiB", "all", "GPUShareCardUnhealthy", "taken out"),
    ],
    ids=["a larger unit", "other cards for the plugin", "MIG mode", "taken out"],
)
async def test_each_way_out_of_the_list_has_its_own_words(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, unit: str, visible: str, reason: str, words: str
) -> None:
    """A card that left the list while no plugin ran is reported once, as what it is, and the others are shared."""
    state, api = simulate("mixed", driver=NEW), StubApi(nodes=[new_node()])
    if visible == "mig":
        state.add_card("a100-sxm4-80gb")
    async with running(state, unit="8192MiB", api=api) as rig:
        await until(lambda: rig.capacity("count") == str(len(rig.uuids)))
    *others, small = rig.uuids
    if visible == "mig":
        state.set_value(small, "mig", "on")
    elif unit == "8192MiB":
        state.remove_card(small)
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "all" if visible == "mig" else visible)
    async with running(state, unit=unit, api=api) as rig:
        await until(lambda: rig.capacity("count") == str(len(others)) and bool(rig.events("Node")))
        await rig.settled()

        ((found, text),) = rig.events("Node")
        assert (found, [one for one in (small, *words.split(", ")) if one not in text]) == (reason, [])
        assert ("taken out" in text) is (reason == "GPUShareCardUnhealthy")
        assert small not in str(rig.published())
        (condition,) = api.nodes[0]["status"]["conditions"]
        assert condition["status"] == "True"


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
            rig.parts.node.wake()
        await until(lambda: "makes 45 ids, more than 30" in caplog.text)
        await rig.settled()

        assert (len(rig.lists), rig.capacity("count")) == (1, "2")
        assert caplog.text.count("cards not announced") == 1


async def test_refused_condition_keeps_no_cards_away(simulate: Simulate, caplog: pytest.LogCaptureFixture) -> None:
    """A policy of an earlier version refuses the condition; the cards are published, and one line is logged."""
    api = StubApi(nodes=[new_node()])
    no = (403, {"kind": "Status", "code": 403, "message": "would change status.conditions"})
    api.fault = lambda method, path: no if "conditions" in str(api.calls[-1].get("body")) else None
    async with running(simulate("t4x2", driver=NEW), api=api) as rig:
        for count in ("2", "3"):
            await until(lambda count=count: rig.capacity("count") == count)
            rig.state.add_card("t4")
            rig.clock.now += SURVEY + 1

    assert "conditions" not in api.nodes[0]["status"]
    assert caplog.text.count("cannot write the condition of the node") == 1


async def test_a_condition_that_was_not_written_is_written_soon(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server lost one request: nothing about the Node changes, so no event of the watch repeats it."""
    monkeypatch.setattr(node_status, "REASSERT_SECONDS", 0.01)
    api = StubApi(nodes=[new_node()])
    async with running(simulate("t4x2", driver=NEW), api=api) as rig:
        await until(lambda: len(api.nodes[0]["status"].get("conditions", ())) == 1)
        rig.parts.node.set(msgspec.convert(api.nodes[0], Node))
        lost = iter([(504, {"kind": "Status", "code": 504, "message": "timeout"})])
        api.fault = lambda method, path: next(lost, None) if method == "PATCH" else None
        rig.parts.node.show_limits(ENDED)
        await until(lambda: len(api.nodes[0]["status"]["conditions"]) == 2, seconds=node_status.WATCHED_SECONDS / 4)

    assert next(lost, None) is None


async def test_the_kubelet_has_a_recovered_card_before_the_node(simulate: Simulate) -> None:
    """A pod that is bound for the card before its kubelet offers the ids would be refused for good."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        await rig.reached(["", ""])
        rig.parts.health.unlimited = {rig.published()["cards"][0]["uuid"]: "DriverTooOld"}
        rig.parts.node.refresh()
        await until(lambda: rig.reasons()[0] != "")
        lists = len(rig.lists)
        rig.parts.health.unlimited = {}
        begun = time.monotonic()
        rig.parts.node.refresh()
        await until(lambda: len(rig.lists) > lists)
        await rig.reached(["", ""])

        assert time.monotonic() - begun >= node_status.LEAD_SECONDS


async def test_declared_cards_are_unhealthy_until_they_are_struck_off(simulate: Simulate) -> None:
    """Also while it cannot be read: the original's manifests give no right to. The extender follows the same ConfigMap."""
    async with running(simulate("mixed", driver="535.104.05")) as rig:
        api, name = rig.api, "unhealthy-gpu-rig"
        metadata, path_of = {"name": name, "namespace": "kube-system"}, f"/namespaces/kube-system/configmaps/{name}"
        rig.tasks.append(asyncio.create_task(follow_declared(rig.parts.client, rig.parts.node, rig.parts.health)))
        api.put({"kind": "ConfigMap", "metadata": metadata, "data": {"gpus": "0,2"}})
        await rig.reached(["ConfigMap", "", "ConfigMap"])
        for code in (403, 500):
            no, seen = (code, {"kind": "Status", "message": "no"}), len(api.calls)
            api.fault = lambda method, path, no=no: no if path.endswith(path_of) else None
            await until(lambda seen=seen: sum(call["path"].endswith(path_of) for call in api.calls[seen:]) > 3)
            assert rig.reasons() == ["ConfigMap", "", "ConfigMap"]
        api.fault = lambda method, path: None
        api.put({"kind": "ConfigMap", "metadata": metadata, "data": {"gpus": "2"}})
        await rig.reached(["", "", "ConfigMap"])
        api.delete("configmaps", name)
        await rig.reached(["", "", ""])

        assert len(rig.lists) == 4
