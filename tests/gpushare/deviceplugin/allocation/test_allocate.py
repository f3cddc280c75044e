"""Promises of gpushare.deviceplugin.allocation.allocate.

Whatever order a kubelet admits pods in, each ends on the card that is written.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpushare.deviceplugin.allocation import node_view
from gpushare.deviceplugin.allocation.verification import HeldError, HoldReason
from gpushare.errors import NoCandidateError
from gpushare.kube.api_errors import ApiError, UnreachableError
from gpushare.manifests import ObjectMeta
from tests.gpushare.deviceplugin.admission_stage import UUIDS, Line, Stage, gpu_pod, ids_by_card, stage, units_of
from tests.servers import until

FOREIGN = {"ALIYUN_COM_GPU_MEM_EXTENDER": ""}


async def test_two_wrongly_guessed_equal_pods_exchange_cards() -> None:
    """D1: bound in one order, admitted in the other. Neither starts before the annotations are right, then both do."""
    pods = [gpu_pod("a", 8, card=0), gpu_pod("b", 8, card=1)]
    async with stage(pods) as node:
        for name in ("b", "a"):
            await node.admit(name)
        assert (node.has("a"), node.has("b")) == ({1}, {0})
        await node.start("b")
        await node.start("a")

        assert (node.card("a"), node.card("b")) == ("1", "0")
        assert [node.written(name)["ASSIGNED"] for name in "ab"] == ["true", "true"]
        assert node.written("b")["DEV"] == "14"
        assert node.reasons() == []


async def test_pod_that_all_others_are_taken_for_holds_up_none() -> None:
    """The first of six equal pods is admitted last: it gives its card away five times within a minute."""
    async with stage([gpu_pod(name, 8, card=card) for card, name in enumerate("abcdef")], (8,) * 6) as node:
        for name in "fedcba":
            await node.admit(name)
            await node.start(name)

        assert {node.card(name) for name in "abcdef"} == set("012345")
        assert all(node.has(name) == {int(node.card(name))} for name in "abcdef")


async def test_unadmitted_pod_gives_its_card_to_the_one_with_the_ids() -> None:
    """The first of two starts together; the second is then answered on the card that is now its own."""
    pods = [gpu_pod("a", 8, card=0), gpu_pod("b", 8, card=2)]
    async with stage(pods) as node:
        await node.admit("b")
        await node.start("b")
        assert (node.card("a"), node.card("b"), node.has("b")) == ("2", "0", {0})
        await node.admit("a")
        await node.start("a")

        assert (node.card("a"), node.has("a"), node.written("a")["DEV"]) == ("2", {2}, "10")


async def test_a_wrong_guess_is_known_before_the_next_question() -> None:
    """The kubelet's file names the owner; the pod that was meant gets the other one's card. Both are booked on both by then."""
    pods = [gpu_pod("a", 8, card=0), gpu_pod("b", 8, card=1)]
    async with stage(pods) as node:
        await node.admit("b")
        told = await node.admit("a")

        assert told[0]["ALIYUN_COM_GPU_MEM_IDX"] == "1"
        assert (node.card("a"), node.card("b")) == ("0+1", "1+0")


async def test_pod_that_goes_to_another_card_is_booked_there_first() -> None:
    """From the question which ids on: the pod that is written there may end, and what it leaves must not be given away."""
    pods = [gpu_pod("full", 5, card=2), gpu_pod("a", 5, card=2), gpu_pod("dying", 5, card=1)]
    async with stage(pods, settled_seconds=15) as node:
        for name in ("full", "dying"):
            await node.admit(name)
        ids = await node.allocator.prefer(node.free(), [], 5)
        asked = node.card("a")
        node.end("dying")
        await node.allocator.put_right()
        between = node.card("a")
        await node.allocator.allocate(ids)
        await node.allocator.put_right()

        assert (asked, between, node.card("a")) == ("2+1", "2+1", "2+1")


async def test_stale_repair_mark_takes_no_room_from_a_hand_bound_pod() -> None:
    """The ids on card 1 were c's, for which a was taken, and a's own card is free by now: the mark goes first."""
    pods = [gpu_pod("past", 9, card=0), gpu_pod("a", 9, card=0), gpu_pod("c", 9, card=1)]
    async with stage(pods, sizes=(14, 20, 8)) as node:
        for name in ("past", "c"):
            await node.admit(name)
        assert node.card("a") == "0+1"
        node.end("past")
        node.api.pods.append(gpu_pod("by-hand", 11, card=None))
        await node.admit("by-hand")

        assert node.has("by-hand") == {1}


@pytest.mark.parametrize("status", [404, 409])
async def test_webhook_that_answers_conflicts_costs_few_calls(status: int) -> None:
    """The kubelet waits for the answer, and admits no other pod before it."""
    pods = [gpu_pod("past", 9, card=0), gpu_pod("x", 4, card=0), gpu_pod("y", 4, card=1), gpu_pod("a", 9, card=0)]
    async with stage(pods) as node:
        for name in ("past", "y"):
            await node.admit(name)
        before = len(node.api.calls)
        node.api.fault = lambda method, path: (status, {}) if method == "PATCH" else None
        await node.allocator.prefer(node.free(), [], 9)

        assert len(node.api.calls) - before < 10


async def test_pod_that_changed_before_its_mark_is_booked_once_seen() -> None:
    """A label that an author wrote is no reason to refuse it, nor to leave it unbooked."""
    pods = [gpu_pod("past", 9, card=0), gpu_pod("a", 9, card=0)]
    writes = iter(range(1))

    def somebody_writes(method: str, path: str) -> None:
        if method == "PATCH" and next(writes, None) is not None:
            pods[1]["metadata"]["resourceVersion"] = str(10**12)

    async with stage(pods, settled_seconds=15) as node:
        await node.admit("past")
        node.api.fault = somebody_writes
        await node.allocator.prefer(node.free(), [], 9)
        await node.allocator.view.refresh()
        await node.allocator.put_right()

        assert (node.card("a"), next(writes, None)) == ("0+2", None)


@pytest.mark.parametrize("status", [403, 503])
async def test_a_mark_that_cannot_be_written_refuses_no_pod(status: int) -> None:
    """The annotation is still put right before its container starts."""
    pods = [gpu_pod("past", 9, card=0), gpu_pod("a", 9, card=0)]
    async with stage(pods) as node:
        await node.admit("past")
        node.api.fault = lambda method, path: (status, {}) if method == "PATCH" else None
        await node.admit("a")
        node.api.fault = lambda method, path: None
        await node.start("a")

        assert (node.has("a"), node.card("a")) == ({2}, "2")


async def test_with_repairs_off_the_wrong_guess_is_held_and_reported() -> None:
    """The plugin holds a pod with wrong ids for good if repairs are off, and reports it: only a new pod helps."""
    pods = [gpu_pod("a", 8, card=0), gpu_pod("b", 8, card=1)]
    async with stage(pods, repairs=False) as node:
        await node.admit("b")
        with pytest.raises(
            HeldError, match="d/b has ids of card 0, but its annotation names card 1: repairs are switched off"
        ):
            await node.start("b")

        assert node.reasons() == ["GPUShareHeld b"]
        assert list(node.allocator.held_for_good()) == ["uid-b"]
        assert node.allocator.held()["uid-b"][0] is HoldReason.FIXED
        assert (node.card("a"), node.card("b")) == ("0", "1")


async def test_a_pod_of_another_extender_is_never_moved() -> None:
    """A pod of another extender keeps its card: that extender would leak the old one. A pod that needs its room is held."""
    pods = [gpu_pod("a", 8, card=0, annotations=FOREIGN), gpu_pod("b", 8, card=1)]
    async with stage(pods) as node:
        await node.admit("b")
        with pytest.raises(HeldError, match="the card is booked for others") as caught:
            await node.start("b")
        assert (caught.value.reason, node.card("a"), node.card("b")) == (HoldReason.NO_ROOM, "0", "1+0")
    pods = [gpu_pod("a", 8, card=0), gpu_pod("b", 8, card=1, annotations=FOREIGN)]
    async with stage(pods) as node:
        await node.admit("b")
        with pytest.raises(HeldError, match="would not follow a change of its card"):
            await node.start("b")


async def test_without_a_partner_a_pod_moves_once_its_mark_has_stood() -> None:
    """The pod that was meant is deleted; a bind that was decided before the mark was seen may still land on its card."""
    pods = [gpu_pod("a", 8, card=0), gpu_pod("b", 8, card=1)]
    async with stage(pods, settled_seconds=15) as node:
        await node.admit("b")
        node.api.pods.remove(pods[0])
        with pytest.raises(HeldError, match="once binds that are under way have landed") as caught:
            await node.start("b")
        assert (caught.value.reason, node.card("b"), node.allocator.held_for_good()) == (HoldReason.SETTLING, "1+0", {})
        node.now = 15
        await node.start("b")

        assert (node.card("b"), node.allocator.held()) == ("0", {})


async def test_a_late_equal_pod_changes_places_with_a_waiting_one() -> None:
    """A waiting pod starts once an equal pod is bound to its card: the two pods change places."""
    pods = [gpu_pod("a", 8, card=0), gpu_pod("b", 8, card=1)]
    async with stage(pods, settled_seconds=15) as node:
        await node.admit("b")
        node.api.pods.remove(pods[0])
        with pytest.raises(HeldError):
            await node.start("b")
        node.api.pods.append(gpu_pod("late", 8, card=0))
        await node.start("b")

        assert (node.card("b"), node.card("late")) == ("0", "1")


async def test_a_ring_of_three_is_put_right() -> None:
    """No pair of them can simply exchange."""
    pods = [gpu_pod(name, 8, card=card) for card, name in enumerate("abc")]
    async with stage(pods) as node:
        for name in "bca":
            await node.admit(name)
        for name in "abc":
            await node.start(name)

        assert {name: node.card(name) for name in "abc"} == {name: str(min(node.has(name))) for name in "abc"}
        assert {node.card(name) for name in "abc"} == {"0", "1", "2"}


@pytest.mark.parametrize("writes", range(8))
async def test_every_write_of_an_exchange_may_be_its_process_last(writes: int) -> None:
    """Killed after any number of writes (two marks, two indices, two marks away, ASSIGNED); the next process ends it without a
    word from the kubelet.
    """
    pods = [gpu_pod("a", 8, card=0), gpu_pod("b", 8, card=1)]
    async with stage(pods) as node:
        await node.admit("b")
        left = iter(range(writes))
        node.api.fault = lambda method, path: (
            (500, {"message": "killed"}) if method == "PATCH" and next(left, None) is None else None
        )
        await node.admit("a")
        if writes < 7:
            with pytest.raises((ApiError, HeldError), match="killed|booked for others"):
                await node.start("b")
        else:
            await node.start("b")
        node.api.fault = lambda method, path: None
        node.start_plugin()
        await node.allocator.recover()
        await node.allocator.put_right()

        assert (node.card("a"), node.card("b")) == ("1", "0")
        await node.start("a")
        await node.start("b")


async def test_pod_that_changed_after_the_look_is_looked_at_again() -> None:
    """Another program's write came first: ours is refused, and found again from what is there."""
    pods = [gpu_pod("a", 8, card=0), gpu_pod("b", 8, card=1)]
    writes = iter(range(1))
    async with stage(pods) as node:
        await node.admit("b")

        def somebody_writes(method: str, path: str) -> None:
            if method == "PATCH" and path.endswith("/a") and next(writes, None) is not None:
                pods[0]["metadata"]["annotations"] |= {"note": "x"}
                pods[0]["metadata"]["resourceVersion"] = str(10**12)

        node.api.fault = somebody_writes
        await node.start("b")

        assert (node.card("a"), node.card("b"), node.written("a")["note"]) == ("1", "0", "x")
        patched = [call["path"][-1] for call in node.api.calls if call["method"] == "PATCH"]
        assert patched[:3] == ["b", "a", "a"]


async def test_containers_of_an_unmovable_pod_stay_together() -> None:
    """The first is on another card than written; the second follows it, so that a repair by hand can let both start."""
    pods = [gpu_pod("a", 3, 2, card=0), gpu_pod("b", 3, 2, card=1)]
    async with stage(pods, repairs=False) as node:
        await node.admit("b")
        assert node.has("b") == {0}
        node.pod("b")["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"] = "0"
        node.pod("b")["metadata"]["resourceVersion"] = str(10**12)
        await node.start("b")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_order_of_admission_ends_with_every_pod_on_its_card(data: st.DataObject) -> None:
    """Pods as an extender binds them, admitted in any order, some deleted before they are, the plugin restarted now and
    then: each admitted pod starts on the card in its annotation, and no card is beyond its units in any book.
    """
    asyncio.run(_any_order(data))


async def _any_order(data: st.DataObject) -> None:
    sizes = (14, 14, 10)
    pods = _bound(data.draw(st.lists(st.sampled_from([(5,), (5,), (3,), (3, 2), (2,)]), max_size=7)), sizes)
    async with stage(list(pods), sizes) as node:
        for name in data.draw(st.permutations([pod["metadata"]["name"] for pod in pods])):
            what = data.draw(st.sampled_from(["admit", "admit", "admit", "delete", "start plugin"]))
            if what == "start plugin":
                node.start_plugin()
                await node.allocator.recover()
            try:
                await node.admit(name) if what != "delete" else node.end(name)
            except NoCandidateError:
                # Pods of other amounts were answered on its card; its owner replaces it.
                node.end(name)
            if data.draw(st.booleans()):
                await _start_all(node)
        await _start_all(node)
        await _start_all(node)
        booked = dict.fromkeys(range(3), 0)
        for name in [pod["metadata"]["name"] for pod in node.api.pods]:
            assert {node.card(name)} == {str(card) for card in node.has(name)}
            assert node.written(name)["ASSIGNED"] == "true"
            booked[int(node.card(name))] += units_of(node.pod(name))
        assert all(booked[card] <= size for card, size in enumerate(sizes))


def _bound(requests: list[tuple[int, ...]], sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Pods as an extender would bind them, best fit, as far as there is room."""
    free, pods = list(sizes), []
    for number, amounts in enumerate(requests):
        fitting = [card for card in range(len(sizes)) if free[card] >= sum(amounts)]
        if fitting:
            card = min(fitting, key=lambda card: (free[card], card))
            free[card] -= sum(amounts)
            pods.append(gpu_pod(f"p{number}", *amounts, card=card))
    return pods


async def _start_all(node: Stage) -> None:
    """As the kubelet tries, again and again."""
    for pod in list(node.api.pods):
        try:
            await node.start(pod["metadata"]["name"])
        except HeldError:
            continue


@pytest.mark.promise("DP-012", "DP-013", "DP-014")
async def test_init_sidecar_and_container_are_on_the_pods_card() -> None:
    """D21: 4 units, then beside 2 containers of 3 and 1 on the ids of the first; all get one card."""
    pods = [gpu_pod("other", 3, card=0), gpu_pod("a", 3, 1, init=4, sidecar=2, card=1)]
    async with stage(pods) as node:
        await node.admit("other")
        told = await node.admit("a")
        await node.start("a")

        names = ("IDX", "CONTAINER", "POD", "DEV")
        assert [tuple(one[f"ALIYUN_COM_GPU_MEM_{name}"] for name in names) for one in told] == [
            ("1", "4", "6", "14"),
            ("1", "2", "6", "14"),
            ("1", "3", "6", "14"),
            ("1", "1", "6", "14"),
        ]
        assert len({one for line in node.lines if line.uid == "uid-a" for one in line.ids}) == 6


async def test_a_pod_of_several_cards_gets_ids_and_names_of_each() -> None:
    """Uneven splits, each container its own cards."""
    split = {"scheduler.framework.gpushare.allocation": '{"0":{"0":3,"2":2},"1":{"1":4}}'}
    async with stage([gpu_pod("a", 5, 4, card=0, annotations=split)]) as node:
        told = await node.admit("a")
        await node.start("a")

        assert [one["NVIDIA_VISIBLE_DEVICES"] for one in told] == [f"{UUIDS[0]},{UUIDS[2]}", UUIDS[1]]
        names = ("IDX", "CONTAINER", "POD")
        assert [tuple(one[f"ALIYUN_COM_GPU_MEM_{name}"] for name in names) for one in told] == [
            ("0,2", "5", "9"),
            ("1", "4", "9"),
        ]
        assert [ids_by_card(line.ids) for line in node.lines] == [{"aaaaaaaa": 3, "cccccccc": 2}, {"bbbbbbbb": 4}]
        assert node.written("a")["ASSIGNED"] == "true"


async def test_a_pod_of_several_cards_on_other_cards_is_held_for_good() -> None:
    """Parts of pods are not exchanged."""
    split = {"scheduler.framework.gpushare.allocation": '{"0":{"0":3,"1":2}}'}
    other = {"scheduler.framework.gpushare.allocation": '{"0":{"1":3,"2":2}}'}
    pods = [gpu_pod("a", 5, annotations=split), gpu_pod("b", 5, annotations=other)]
    async with stage(pods) as node:
        await node.admit("b")
        with pytest.raises(
            HeldError, match="has ids of card 0, card 1, but its annotation names 3 of card 1, 2 of card 2"
        ):
            await node.start("b")
        assert list(node.allocator.held_for_good()) == ["uid-b"]


async def test_hand_bound_pod_gets_the_smallest_room_that_holds_it() -> None:
    """D22: before it is asked for, all five annotations are there and every extender counts it."""
    pods = [gpu_pod("a", 5, card=0), gpu_pod("by-hand", 4, card=None)]
    async with stage(pods) as node:
        await node.admit("a")
        await node.admit("by-hand")
        await node.start("by-hand")

        assert node.has("by-hand") == {0}
        assert node.written("by-hand") == {
            "IDX": "0", "DEV": "14", "POD": "4", "ASSIGNED": "true", "ASSUME_TIME": "7", "EXTENDER": "gpushare/1",
        }  # fmt: skip


async def test_hand_bound_pod_gets_a_card_as_soon_as_it_is_seen() -> None:
    """The plugin gives a hand-bound pod a card without a call of the kubelet, and gives none to a pod that is ending."""
    pods = [gpu_pod("by-hand", 4, card=None), gpu_pod("ending", 4, card=None), gpu_pod("forged", 4, card="-1")]
    pods[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    async with stage(pods) as node:
        await node.allocator.recover()
        keeping = asyncio.create_task(node.allocator.keep_right())
        await until(lambda: node.card("forged") != "-1")
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)

        assert [node.card(name) for name in ("by-hand", "ending", "forged")] == ["2", "-", "2"]


async def test_hand_bound_pod_without_room_is_refused_with_a_reason() -> None:
    """The annotations of others count, though they have no devices yet."""
    pods = [gpu_pod("a", 8, card=0), gpu_pod("b", 8, card=1), gpu_pod("by-hand", 7, card=None), gpu_pod("c", 4, card=2)]
    async with stage(pods) as node:
        with pytest.raises(NoCandidateError, match="waits for 7 units"):
            await node.admit("by-hand")
        with pytest.raises(NoCandidateError):
            await node.admit("by-hand")
        for _ in range(2):
            await node.allocator.put_right()

        assert (node.reasons(), node.card("by-hand")) == (["GPUShareNoCard by-hand"], "-")


async def test_ids_of_another_plugin_count_on_the_annotated_card() -> None:
    """Taking a node over from the Go plugin: its containers go on, and the card takes only what they leave."""
    pods = [gpu_pod("old", 8, card=0), gpu_pod("new", 7, card=0, annotations=FOREIGN)]
    async with stage(pods) as node:
        ids = [f"{UUIDS[0]}-_-{number}" for number in range(8)]
        node.lines.append(Line("uid-old", "c0", ids, {}))
        node.write_book()
        await node.allocator.verify(ids)
        with pytest.raises(NoCandidateError, match="card 0 has 6 units left for the 7 of the pod"):
            await node.admit("new")


async def test_pod_whose_card_is_full_of_others_ids_starts_elsewhere() -> None:
    """A pod starts on another card if the ids of other pods fill its own card, and its annotation follows."""
    pods = [gpu_pod("a", 9, card=0), gpu_pod("b", 9, card=0)]
    async with stage(pods) as node:
        for name in "ab":
            await node.admit(name)
            await node.start(name)

        assert (node.card("a"), node.has("b"), node.card("b")) == ("0", {2}, "2")


async def test_a_pod_gone_while_it_is_admitted_splits_no_other() -> None:
    """The kubelet has yet to hear of it, and asks: it gets ids of the card of a pod with two containers, which go elsewhere."""
    pods = [gpu_pod("dying", 2, card=2), gpu_pod("a", 2, 2, card=0), gpu_pod("b", 10, card=0), gpu_pod("c", 2, card=1)]
    async with stage(pods) as node:
        await node.admit("b")
        node.pods.remove(msgspec.convert(pods[0]["metadata"], ObjectMeta))
        await node.admit("dying")
        assert node.has("dying") == {0}
        await node.admit("a")
        await node.admit("c")
        for name in ("a", "b", "c"):
            await node.start(name)

        assert {name: node.has(name) for name in "abc"} == {name: {int(node.card(name))} for name in "abc"}


async def test_admitted_and_ended_pod_is_not_mistaken_for_another() -> None:
    """The kubelet took its ids back before any of its containers was started; the API still has it."""
    pods = [gpu_pod("dying", 1, 5, 1, card=1), gpu_pod("next", 2, card=2), gpu_pod("a", 1, card=0)]
    pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    async with stage(pods) as node:
        await node.admit("dying")
        await node.admit("next")
        node.lines = [line for line in node.lines if line.uid != "uid-dying"]
        node.write_book()
        (told,) = await node.admit("a")

        assert (node.has("a"), told["ALIYUN_COM_GPU_MEM_POD"]) == ({0}, "1")


async def test_deleted_pod_waits_on_after_a_mistaken_identity() -> None:
    """A pod that is being deleted waits on after a wrong guess: only the kubelet's records show that a pod was admitted."""
    pods = [gpu_pod("dying", 2, card=1), gpu_pod("a", 2, card=2), gpu_pod("b", 2, card=0)]
    pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    async with stage(pods) as node:
        for name in ("a", "dying", "b"):
            await node.admit(name)

        assert (node.has("a"), node.has("dying"), node.has("b")) == ({1}, {2}, {0})


async def test_deleted_pod_goes_on_after_a_mistaken_first_call() -> None:
    """The book names the pod that the kubelet asks for; its second call is not taken for a third pod's."""
    pods = [gpu_pod("a", 2, card=2), gpu_pod("b", 3, card=1), gpu_pod("dying", 2, 3, card=0)]
    pods[2]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    async with stage(pods, sizes=(14, 14, 14)) as node:
        await node.admit("dying")

        assert node.has("dying") == {2}


@pytest.mark.parametrize("kubelet_is_another", [False, True])
async def test_half_done_pod_blocks_no_other_pods_card(kubelet_is_another: bool) -> None:
    """The next call is not taken for the rest of a half-done pod if that pod was refused or if another kubelet asks."""
    pods = [gpu_pod("full", 6, card=0), gpu_pod("a", 2, 7, card=0), gpu_pod("b", 7, card=1)]
    async with stage(pods, sizes=(14, 7)) as node:
        await node.admit("full")
        ids = await node.allocator.prefer(node.free(), [], 2)
        given = await node.allocator.allocate(ids)
        node.lines.append(Line("uid-a", "c0", ids, dict(given.variables)))
        node.write_book()
        if kubelet_is_another:
            node.allocator.begin_registration()
        else:
            with pytest.raises(NoCandidateError, match="card 0 has 6 units left for the 7 of the pod"):
                await node.allocator.prefer(node.free(), [], 7)
        await node.admit("b")

        assert node.has("b") == {1}


async def test_pods_found_at_a_kubelets_start_are_answered_by_age() -> None:
    """The younger was bound first. Neither is taken for the other, so nothing needs to be written."""
    pods = [gpu_pod("young", 2, 3, card=0), gpu_pod("old", 2, 9, card=1)]
    for seconds, pod in zip((9, 1), pods, strict=True):
        pod["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{seconds}Z"
    async with stage(pods) as node:
        await node.allocator.recover()
        node.allocator.begin_registration(kubelet_is_another=True)
        for name in ("old", "young"):
            await node.admit(name)

        assert (node.has("young"), node.has("old")) == ({0}, {1})


async def test_pod_taken_for_a_smaller_one_is_refused_on_a_full_card() -> None:
    """The order of pods of one second is unknown. No card is over-booked, and the pod it was taken for starts on its own card."""
    pods = [gpu_pod("full", 9, card=0), gpu_pod("small", 3, 1, card=0), gpu_pod("big", 3, 3, card=1)]
    async with stage(pods, sizes=(14, 14)) as node:
        await node.admit("full")
        with pytest.raises(NoCandidateError, match="card 0 has 2 units left for the 3 of the pod"):
            await node.admit("big")
        node.end("big")
        await node.admit("small")
        await node.start("small")

        assert (node.has("small"), node.card("small")) == ({0}, "0")


async def test_what_a_kubelet_did_not_write_down_it_asks_for_again() -> None:
    """A pod waits on if its kubelet died before it wrote the answer down, and the pod beside it is not mistaken for it."""
    pods = [gpu_pod("a", 2, card=0), gpu_pod("b", 2, card=1)]
    async with stage(pods) as node:
        ids = await node.allocator.prefer(node.free(), [], 2)
        await node.allocator.allocate(ids)
        node.write_book()
        node.allocator.begin_registration()
        for name in "ab":
            await node.admit(name)

        assert (node.has("a"), node.has("b")) == ({0}, {1})


async def test_a_guess_that_the_book_contradicted_is_forgotten() -> None:
    """Though the pod that had the ids is gone, and they are in no book any more."""
    pods = [gpu_pod("a", 8, card=0), gpu_pod("b", 8, card=1)]
    async with stage(pods, repairs=False) as node:
        await node.admit("b")
        node.allocator.view.now()
        node.end("b")
        await node.admit("a")
        await node.start("a")

        assert (node.has("a"), node.card("a")) == ({0}, "0")


async def test_a_pod_on_a_sick_card_starts_on_another_one() -> None:
    """A pod that was bound before its card fell ill starts on another card: no kubelet offers ids of a sick card."""
    pods = [gpu_pod("a", 8, card=0)]
    async with stage(pods, settled_seconds=5) as node:
        node.health.lose(node.node.cards.cards[0].uuid)
        node.node.refresh()
        await node.admit("a")
        with pytest.raises(HeldError) as caught:
            await node.start("a")
        assert caught.value.reason is HoldReason.SETTLING
        node.now = 5
        await node.start("a")

        assert (node.has("a"), node.card("a")) == ({2}, "2")


async def test_all_containers_are_answered_after_a_lost_checkpoint() -> None:
    """All containers of a running pod are answered after a lost checkpoint: a refusal of the second would end the pod."""
    pods = [gpu_pod("a", 4, 4, card=0)]
    async with stage(pods) as node:
        await node.admit("a")
        await node.start("a")
        pods[0]["status"]["phase"] = "Running"
        node.lines = []
        node.write_book()
        node.start_plugin()
        await node.admit("a")
        await node.start("a")

        assert (node.has("a"), node.card("a")) == ({0}, "0")


@pytest.mark.parametrize("slots", [0, 4])
async def test_a_guess_that_the_book_put_right_never_comes_back(slots: int) -> None:
    """The pod that got the ids ends; the one that we took it for starts again, and its card's room is all there."""
    pods = [gpu_pod("a", 10, card=0), gpu_pod("b", 10, card=1)]
    async with stage(pods, sizes=(14, 14), slots=slots) as node:
        for name in ("b", "a"):
            await node.admit(name)
            await node.start(name)
        assert (node.has("a"), node.has("b")) == ({1}, {0})
        node.end("b")
        await node.start("a")
        pods.append(gpu_pod("c", 10, card=0))
        await node.admit("c")
        await node.start("c")

        assert (node.card("a"), node.card("c"), node.has("c")) == ("1", "0", {0})


@pytest.mark.parametrize("slots", [0, 4])
async def test_a_copied_note_lets_no_pod_onto_a_full_card(slots: int) -> None:
    """A running pod's manifest was copied with ``nodeName`` and all annotations: it was not let in before."""
    pods = [gpu_pod("a", 10, card=0)]
    async with stage(pods, sizes=(14,), slots=slots) as node:
        await node.admit("a")
        await node.start("a")
        pods.append(gpu_pod("copy", 10, card=0, annotations={"ALIYUN_COM_GPU_MEM_ASSIGNED": "true"}))
        with pytest.raises(NoCandidateError, match="card 0"):
            await node.admit("copy")


def _refusing(name: str, code: int) -> Any:
    def fault(method: str, path: str) -> Any:
        return (code, {"message": "denied"}) if method == "PATCH" and path.endswith(f"/pods/{name}") else None

    return fault


@pytest.mark.parametrize("code", [400, 403, 429, 500])
async def test_a_pod_that_may_not_be_changed_ends_no_other(code: int) -> None:
    """An admission webhook refuses to write the card of a pod that came without the extender."""
    async with stage([gpu_pod("odd", 4, card=None), gpu_pod("a", 8, card=1)]) as node:
        node.api.fault = _refusing("odd", code)
        await node.admit("a")
        await node.start("a")

        assert (node.has("a"), node.card("odd")) == ({1}, "-")


@pytest.mark.parametrize("code", [400, 403, 500])
async def test_a_pod_that_may_not_be_changed_holds_itself_alone(code: int) -> None:
    """A pod that may not be changed holds no other pod and is not written without end. The repair goes on after the refusal."""
    async with stage([gpu_pod("a", 4, card=0), gpu_pod("b", 4, card=1), gpu_pod("c", 3, card=1)]) as node:
        await node.admit("b")
        await node.admit("c")
        node.api.fault = _refusing("b", code)
        with pytest.raises(HeldError, match="denied") as caught:
            await node.start("b")
        await node.start("c")
        keeping = asyncio.create_task(node.allocator.keep_right())
        await asyncio.sleep(0.3)
        keeping.cancel()

        assert (caught.value.reason, node.allocator.held_for_good()) == (HoldReason.REFUSED, {})
        assert len(node.api.calls) < 30
        node.api.fault = lambda method, path: None
        await node.allocator.put_right()
        await node.start("b")
        assert (node.has("b"), node.card("b")) == ({0}, "0")


@pytest.mark.parametrize("several", [{}, {"scheduler.framework.gpushare.allocation": '{"0":{"0":4,"1":4}}'}])
async def test_a_container_that_starts_again_needs_no_api_server(several: dict[str, str]) -> None:
    """A container starts again without the API server if its pod, on one card or on several, was found right before."""
    async with stage([gpu_pod("a", 8, annotations=several)]) as node:
        await node.admit("a")
        await node.start("a")
        node.api.fault = lambda method, path: (500, {"message": "away"})
        await node.start("a")


async def test_id_is_a_container_in_slots_mode_and_units_the_pods() -> None:
    """Any amount in MiB on one slot each; the guard counts what pods ask for."""
    pods = [gpu_pod("a", 8138, 20001, card=1), gpu_pod("b", 53000, card=1)]
    async with stage(pods, (81920, 81920), slots=32) as node:
        told = await node.admit("a")
        await node.start("a")
        names = ("IDX", "CONTAINER", "POD", "DEV")
        assert [tuple(one[f"ALIYUN_COM_GPU_MEM_{name}"] for name in names) for one in told] == [
            ("1", "8138", "28139", "81920"),
            ("1", "20001", "28139", "81920"),
        ]
        assert [len(line.ids) for line in node.lines] == [1, 1]
        await node.admit("b")
        node.api.pods.append(gpu_pod("c", 782, card=1, annotations=FOREIGN))
        with pytest.raises(NoCandidateError, match="card 1 has 781 units left for the 782 of the pod"):
            await node.admit("c")


async def test_equal_pods_exchange_in_slots_mode_unequal_are_held() -> None:
    """The amount in a container's variables cannot be changed."""
    pods = [
        gpu_pod("a", 4000, card=0),
        gpu_pod("b", 4000, card=1),
        gpu_pod("c", 3000, card=1),
        gpu_pod("d", 2000, card=0),
    ]
    async with stage(pods, (8192, 8192), slots=8) as node:
        for name in "badc":
            await node.admit(name)
        await node.start("b")
        await node.start("a")
        assert (node.card("a"), node.card("b")) == ("1", "0")
        with pytest.raises(HeldError, match="was told the amount of another pod's container") as caught:
            await node.start("d")
        assert caught.value.reason is HoldReason.WRONG_AMOUNT
        assert list(node.allocator.held_for_good()) == ["uid-d"]


async def test_a_wish_that_cannot_be_read_disturbs_no_other_pod() -> None:
    """A typo on one that runs, beside one that came without the extender: the one gets its card, others are admitted."""
    odd = gpu_pod("odd", 2, card=0, annotations={"gpushare.aliyun.com/policy": "nonsense"})
    pods = [odd, gpu_pod("hand", 2, card=None), gpu_pod("good", 3, card=1)]
    async with stage(pods) as node:
        await node.admit("good")
        await node.allocator.put_right()

        assert (node.has("good"), node.written("hand")["IDX"]) == ({1}, "2")


async def test_a_write_for_one_pod_that_is_lost_refuses_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error here would end the pod that is admitted, for good."""
    async with stage([gpu_pod("hand", 2, card=None), gpu_pod("good", 3, card=1)]) as node:

        async def lost(*_: object, **__: object) -> None:
            raise UnreachableError("no answer", may_have_happened=True)

        monkeypatch.setattr(node.client, "annotate_pod", lost)
        await node.admit("good")

        assert node.has("good") == {1}


@pytest.mark.parametrize("code", [401, 403, 429, 503])
async def test_a_list_that_is_refused_for_a_while_refuses_no_pod(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """An API server that has just started answers so before it knows the rights of users."""
    monkeypatch.setattr(node_view, "LIST_PAUSE_SECONDS", 0.01)
    async with stage([gpu_pod("good", 3, card=1)]) as node:
        answers = iter([(code, {"kind": "Status", "message": "not yet", "code": code})] * 3)
        node.api.fault = lambda method, path: next(answers, None) if path == "/api/v1/pods" else None
        await node.admit("good")

        assert node.has("good") == {1}


async def test_a_container_that_starts_again_waits_for_no_admission() -> None:
    """A container that starts again does not wait for an admission, which may wait for minutes for an absent API server."""
    async with stage([gpu_pod("runs", 3, card=0), gpu_pod("waits", 2, card=1)]) as node:
        await node.admit("runs")
        await node.start("runs")
        before = len(node.api.calls)
        node.api.fault = lambda method, path: "hang"
        asking = asyncio.create_task(node.allocator.prefer(node.free(), [], 2))
        await until(lambda: len(node.api.calls) > before)
        await node.start("runs")
        node.api.released.set()
        assert await asking


async def test_kubelet_that_died_between_questions_holds_up_no_start() -> None:
    """Without its checkpoint a kubelet is not asked during an admission; the Allocate of one that ended never follows."""
    async with stage([gpu_pod("a", 3, card=0)]) as node:
        ids = await node.allocator.prefer(node.free(), [], 3)
        with pytest.raises(HeldError, match="the kubelet admits a pod"):
            await node.allocator.verify(ids)
        node.allocator.begin_registration(kubelet_is_another=True)
        with pytest.raises(HeldError, match="the kubelet does not say yet"):
            await node.allocator.verify(ids)


async def test_question_without_allocate_holds_up_no_start_for_long() -> None:
    """The kubelet's next call was lost when the plugin registered again, and no other pod comes for now."""
    async with stage([gpu_pod("a", 3, card=0), gpu_pod("b", 3, card=1)], has_checkpoint=False) as node:
        await node.admit("a")
        await node.allocator.prefer(node.free(), [], 3)
        node.now = 1.9
        with pytest.raises(HeldError, match="the kubelet admits a pod"):
            await node.start("a")
        node.now = 2.1
        await node.start("a")


@pytest.mark.promise("DP-016")
async def test_an_amount_that_no_pod_waits_for_is_refused() -> None:
    """D3, D4: also on a node of one card."""
    async with stage([gpu_pod("a", 3, card=0)], (14,)) as node:
        with pytest.raises(NoCandidateError, match="waits for 4 units .waiting for other amounts: 1"):
            await node.allocator.prefer(node.free(), [], 4)
        with pytest.raises(NoCandidateError, match="none of the 2 ids"):
            await node.allocator.prefer(["x", "y"], [], 2)


async def test_pod_given_up_by_the_kubelet_waits_like_the_others() -> None:
    """Another plugin refused it after we had answered: our answer is in no book, and the next call is another pod's."""
    pods = [gpu_pod("a", 3, card=0), gpu_pod("failed", 3, card=1)]
    async with stage(pods) as node:
        # Asked for "failed"; we took it for "a", and the kubelet never wrote it down.
        await node.allocator.allocate(await node.allocator.prefer(node.free(), [], 3))
        node.api.pods.remove(pods[1])
        told = await node.admit("a")
        await node.start("a")

        assert (told[0]["ALIYUN_COM_GPU_MEM_IDX"], node.card("a")) == ("0", "0")
