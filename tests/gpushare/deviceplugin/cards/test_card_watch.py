"""Promises of gpushare.deviceplugin.cards.card_watch, node_status and of the lists that a kubelet gets."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pynvml
import pytest

from fake_nvml.state import State
from gpushare.deviceplugin.cards import card_watch, node_status
from gpushare.deviceplugin.cards.card_watch import follow_declared
from gpushare.deviceplugin.core.health import SECONDS, ContainerFaultError, XidRules
from gpushare.manifests import Node, ObjectMeta
from gpushare.manifests import NodeStatus as Status
from gpushare.model.node import devices_of
from tests.gpushare.deviceplugin.rig import SURVEY, Rig, holder, new_node, running
from tests.servers import StubApi, until

Simulate = Callable[..., State]
SlowInit = Callable[[Rig, float], list[float]]

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


@pytest.fixture
def slow_init(monkeypatch: pytest.MonkeyPatch) -> SlowInit:
    """Has NVML's init take so long by the rig's clock; the times at which it began."""

    def slowed(rig: Rig, seconds: float) -> list[float]:
        begun: list[float] = []
        init = pynvml.nvmlInitWithFlags

        def slow(flags: int) -> None:
            begun.append(rig.clock.now)
            rig.clock.now += seconds
            init(flags)

        monkeypatch.setattr(pynvml, "nvmlInitWithFlags", slow)
        return begun

    return slowed


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


async def test_a_lost_card_is_asked_again_ever_more_seldom(simulate: Simulate, slow_init: SlowInit) -> None:
    """No spinning: NVML is opened again immediately, then after 1, 2, 4, ... seconds, at most at the pace of the counts."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        inits = slow_init(rig, 0)
        rig.state.lose(rig.uuids[0])
        await rig.reached(["lost", ""])
        # The kubelet hears of it before the first count: time stands still until that is done.
        await rig.settled()
        for _ in range(60):
            rig.clock.now += 0.5
            await rig.settled()

        assert [round(time - 1000) for time in inits] == [0, 1, 3, 7, 15, 25]
        assert rig.reasons() == ["lost", ""]
        rig.state.post_xid(rig.uuids[1], 48)
        await rig.reached(["lost", "Xid 48"])


# Faults that only a new container may cure: kept from the devices, an older library.
@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NO_PERMISSION, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH])
async def test_a_fault_of_the_own_container_ends_the_plugin(simulate: Simulate, code: int) -> None:
    """The kubelet then makes a new container; until it ends the plugin reports why, and all cards are unhealthy."""
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


async def test_misspelt_node_annotation_is_logged_once(simulate: Simulate, caplog: pytest.LogCaptureFixture) -> None:
    """An annotation of the Node below our prefix that the plugin does not know is logged with the one that it knows."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        rig.api.nodes[0]["metadata"]["annotations"]["gpushare.aliyun.com/recoverd"] = "1"
        for _ in range(2):
            seen = len(rig.api.calls)
            rig.node.wake()
            await until(lambda seen=seen: len(rig.api.calls) > seen)
        await rig.settled()

    line = "no annotation of a node that gpushare knows names=gpushare.aliyun.com/recoverd known=gpushare.aliyun.com/recovered"
    assert [text for text in caplog.messages if "recoverd" in text] == [line]


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
        rig.node.wake()
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
        rig.node.wake()
        await rig.reached(["", ""])


@pytest.mark.promise("DP-020")
@pytest.mark.parametrize("is_watched", [False, True])
async def test_node_is_compared_now_and_then_with_or_without_a_watch(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, *, is_watched: bool
) -> None:
    """A count that another program changes is corrected; more seldom if a watch reports changes of the Node."""
    monkeypatch.setattr(node_status, "REASSERT_SECONDS", 3600 if is_watched else 0.01)
    monkeypatch.setattr(node_status, "WATCHED_SECONDS", 0.01 if is_watched else 3600)
    async with running(simulate("t4x2", driver=NEW)) as rig:
        if is_watched:
            rig.node.set(Node(ObjectMeta(name="rig")))
        await until(lambda: rig.capacity("count") == "2")
        # Behind the watch's back, as nothing in the stub reports it. A comparison that was due anyway may correct the first.
        for other in ("7", "8", "9"):
            rig.api.nodes[0]["status"]["capacity"]["aliyun.com/gpu-count"] = other
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
        rig.node.wake()
        await rig.reached([""] * (1 + comes_back))
        await until(lambda: rig.capacity("count") == str(1 + comes_back))


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
        (told,) = [text for reason, text in rig.events("Node") if reason == "GPUShareCardNotShared"]
        assert rig.uuids[3] in told
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
    ("unit", "visible", "reason", "words"),
    [
        ("12288MiB", "all", "GPUShareCardNotShared", "1080 Ti, 11264 MiB, one unit of 12288MiB, --memory-unit 8192MiB"),
        ("8192MiB", "GPU-of-others", "GPUShareCardNotShared", ""),
        ("8192MiB", "all", "GPUShareCardUnhealthy", "taken out"),
    ],
    ids=["a larger unit", "other cards for the plugin", "taken out"],
)
async def test_each_way_out_of_the_list_has_its_own_words(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, unit: str, visible: str, reason: str, words: str
) -> None:
    """A card that left the list while no plugin ran is reported once, as what it is, and the others are shared."""
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
        assert "card 1 by NVML's count cannot be read" in dict(rig.events("Node"))["GPUShareCardUnreadable"]


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


async def test_the_longer_a_count_takes_the_more_seldom_it_is(simulate: Simulate, slow_init: SlowInit) -> None:
    """No faults are read while NVML is opened again; but a card that is plugged in must be found some time, however slow it is."""
    async with running(simulate("t4x2", driver=NEW)) as rig:
        await until(lambda: rig.capacity("count") == "2")
        inits = slow_init(rig, 0.1)
        for _ in range(12):
            rig.clock.now += SURVEY
            await rig.settled()
        assert len(inits) == 3
        assert min(later - sooner for sooner, later in itertools.pairwise(inits)) >= 50

        inits = slow_init(rig, 120)
        rig.clock.now += 60
        await until(lambda: bool(inits))
        await rig.settled()
        rig.state.add_card("t4")
        rig.clock.now += 601
        await until(lambda: rig.capacity("count") == "3")


NAME = "unhealthy-gpu-rig"
PATH = f"/api/v1/namespaces/kube-system/configmaps/{NAME}"


@asynccontextmanager
async def following(rig: Rig) -> AsyncIterator[None]:
    """While the plugin reads the ConfigMap."""
    task = asyncio.create_task(follow_declared(rig.client, rig.node, rig.health))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def declare(api: StubApi, gpus: str) -> None:
    """An operator writes the ConfigMap."""
    api.put({"kind": "ConfigMap", "metadata": {"name": NAME, "namespace": "kube-system"}, "data": {"gpus": gpus}})


async def polled(rig: Rig) -> None:
    """Until it has been asked for a few times more."""
    seen = len(rig.api.calls)
    await until(lambda: sum(call["path"] == PATH for call in rig.api.calls[seen:]) > 3)


async def test_declared_cards_are_unhealthy_until_they_are_struck_off(simulate: Simulate) -> None:
    """Also while it cannot be read: the original's manifests give no right to. The extender follows the same ConfigMap."""
    async with running(simulate("mixed", driver="535.104.05")) as rig, following(rig):
        declare(rig.api, "0,2")
        await rig.reached(["ConfigMap", "", "ConfigMap"])
        for code in (403, 500):
            no = code, {"kind": "Status", "message": "no"}
            rig.api.fault = lambda method, path, no=no: no if path == PATH else None
            await polled(rig)
            assert rig.reasons() == ["ConfigMap", "", "ConfigMap"]
        rig.api.fault = lambda method, path: None
        declare(rig.api, "2")
        await rig.reached(["", "", "ConfigMap"])
        rig.api.delete("configmaps", NAME)
        await rig.reached(["", "", ""])

        assert len(rig.lists) == 4


async def test_an_entry_that_names_no_card_is_logged_once(simulate: Simulate, caplog: pytest.LogCaptureFixture) -> None:
    """An entry that names no card is logged once and not at each look. A different entry is logged again."""
    async with running(simulate("mixed", driver="535.104.05")) as rig, following(rig):
        for text in ("0;2,1", "GPU-87443c8a"):
            declare(rig.api, text)
            await polled(rig)

    said = [text for text in caplog.messages if text.startswith("no card indices")]
    assert [text.rpartition("=")[2] for text in said] == ["0;2", "GPU-87443c8a"]
    # The original read nonsense as card 0 (D11).
    assert rig.reasons() == ["", "", ""]


async def test_plugin_restart_announces_no_declared_card_as_healthy(simulate: Simulate) -> None:
    """A plugin that restarts keeps a declared card unhealthy until it can read the ConfigMap, which then decides."""
    state, api = simulate("mixed", driver="535.104.05"), StubApi(nodes=[new_node()])
    async with running(state, api=api) as rig, following(rig):
        declare(api, "1")
        await rig.reached(["", "ConfigMap", ""])
    api.delete("configmaps", NAME)
    async with running(state, api=api) as rig:
        await rig.settled()
        assert (rig.reasons(), rig.unhealthy_ids()) == (["", "ConfigMap", ""], 15)
        assert rig.events("Node")[1:] == []
        async with following(rig):
            await rig.reached(["", "", ""])


async def test_a_node_with_too_long_a_name_for_it_is_logged(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No such ConfigMap can exist, so it is not asked for; the line has the longest name that a node may have for it."""
    async with running(simulate("t4x1")) as rig:
        monkeypatch.setattr(rig.node, "name", "n" * 240)
        await asyncio.wait_for(follow_declared(rig.client, rig.node, rig.health), 300)

        assert "longest=239" in caplog.text
        assert not any("configmaps" in call["path"] for call in rig.api.calls)
