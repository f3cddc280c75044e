"""Promises of gpushare.deviceplugin.allocation.hand_bound: a hand-bound pod gets its card by the extender's rules."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from gpushare import wire
from gpushare.deviceplugin.allocation.verification import HeldError
from gpushare.manifests import Pod
from tests.gpushare.deviceplugin.admitting_node import UUIDS, Line, gpu_pod, stage


def by_hand(units: int = 3, **wishes: str) -> dict[str, Any]:
    """A pod that names its node itself and has wishes."""
    annotations = {wire.PEOPLE_PREFIX + name.replace("_", "-"): text for name, text in wishes.items()}
    return gpu_pod("by-hand", units, card=None, annotations=annotations)


async def test_a_split_of_a_pod_bound_by_hand_is_written_by_container() -> None:
    """A hand-bound pod with a split gets both cards, which are written as the extender would have written them."""
    async with stage([by_hand(12, split="8,4")]) as node:
        await node.run("by-hand")

        written = node.written("by-hand")
        annotations = node.api.pod("by-hand")["metadata"]["annotations"]
        assert json.loads(annotations[wire.ANNOTATION_ALLOCATION]) == {"0": {"0": 4, "2": 8}}
        assert (node.has("by-hand"), written["DEV"], written["POD"]) == ({0, 2}, "24", "12")


def against_the_rule(which: str) -> dict[str, Any]:
    """A hand-bound pod of which one container asks for memory without a slot, or for a slot without memory."""
    pod = gpu_pod("by-hand", 3, 2, card=None, init=1)
    (init,), (first, _) = pod["spec"]["initContainers"], pod["spec"]["containers"]
    limits = (init if which == "init" else first)["resources"]["limits"]
    del limits[wire.RESOURCE_MEMORY if which == "slot alone" else wire.RESOURCE_SLOT]
    return pod


@pytest.mark.parametrize("sizes", [(14,), (14, 14)], ids=["one card", "two cards"])
@pytest.mark.parametrize("which", ["first", "init", "slot alone"])
@pytest.mark.parametrize("state", ["waits", "runs", "has ids", "has ids and runs"])
async def test_the_rule_of_slots_has_no_exception(sizes: tuple[int, ...], which: str, state: str) -> None:
    """A pod of which a container breaks the rule gets no card, however far it has come and however often it is asked.

    Its container without a slot starts without a call to the plugin, so the pod runs whatever the plugin says.
    """
    async with stage([against_the_rule(which)], sizes, slots=4) as node:
        pod = node.pod("by-hand")
        if "runs" in state:
            pod["status"] = {"phase": "Running", "containerStatuses": [{"name": "c1", "state": {"running": {}}}]}
        if "has ids" in state:
            node.lines.append(Line(pod["metadata"]["uid"], "c0", node.free()[:1], {}))
            node.write_book()
        for _ in range(2):
            await node.allocator.recover()
            await node.allocator.reconcile()
            await node.allocator.reconcile()
            notes = [event["message"] for event in node.api.events]
            kept = node.allocator.view.pods.by_uid("uid-by-hand")
            assert kept is not None
            assert (node.card("by-hand"), kept.allocation) == ("-", None)
            assert notes
            assert all(note.endswith(wire.REASON_SLOT_MISSING) for note in notes)
            node.start_plugin()


async def test_a_pod_with_anothers_slot_is_held_for_its_own_reason() -> None:
    """A pod that breaks the rule got the answer that was meant for a pod bound with it: its container does not start."""
    async with stage([against_the_rule("first"), gpu_pod("good", 3, card=0)], (14,), slots=4) as node:
        ids = await node.allocator.prefer(node.free(), [], 1)
        await node.allocator.allocate(ids)
        node.lines.append(Line("uid-by-hand", "c1", ids, {}))
        node.write_book()
        with pytest.raises(HeldError, match=f"names no card: {wire.REASON_SLOT_MISSING}"):
            await node.allocator.verify(ids)
        await node.run("good")

        assert (node.has("good"), node.card("by-hand")) == ({0}, "-")


@pytest.mark.parametrize(
    ("has_ids", "reason"),
    [
        (True, "it has ids of another device plugin, which do not say on which of the node's cards they are"),
        (False, "it was started, and the kubelet has no record that says on which of the node's cards"),
    ],
)
async def test_a_card_that_cannot_be_known_says_why(has_ids: bool, reason: str) -> None:
    """A started pod of a node with two cards, with ids that are not ours, or with none in the kubelet's records."""
    async with stage([by_hand()], (14, 14)) as node:
        node.pod("by-hand")["status"] = {"phase": "Running"}
        if has_ids:
            node.lines.append(Line("uid-by-hand", "c0", ["GPU-0-_-0", "GPU-0-_-1", "GPU-0-_-2"], {}))
            node.write_book()
        await node.allocator.recover()
        await node.allocator.reconcile()

        assert [event["message"].endswith(reason) for event in node.api.events] == [True]


@pytest.mark.parametrize(
    ("wishes", "reason"),
    [
        ({"card_model_not": "T4"}, wire.REASON_NO_SUCH_CARD),
        ({"card_uuid": UUIDS[1]}, wire.REASON_NO_SUCH_CARD),
        ({}, ""),
    ],
)
@pytest.mark.parametrize("is_started", [False, True], ids=["held", "started"])
async def test_ids_do_not_overrule_a_wish_before_the_start(
    wishes: dict[str, Any], reason: str, is_started: bool
) -> None:
    """The kubelet gave the pod ids of a card that it may not have: it is not let onto it; one that runs there is booked there."""
    async with stage([by_hand(**wishes), gpu_pod("full", 12, card=0)]) as node:
        if is_started:
            node.pod("by-hand")["status"] = {"phase": "Running"}
        node.lines.append(Line("uid-by-hand", "c0", node.free()[:3], {}))
        node.write_book()
        await node.allocator.recover()
        await node.allocator.reconcile()

        is_refused = bool(reason) and not is_started
        kept = node.allocator.view.pods.by_uid("uid-by-hand")
        assert kept is not None
        has = kept.allocation
        assert (has.shares if has else None) == (None if is_refused else ((0, 3),))
        assert [event["message"].rpartition(": ")[2] for event in node.api.events] == [reason] * is_refused


async def test_pods_that_come_later_keep_no_start_waiting() -> None:
    """A start judges the pods without a card that are there when it begins, and none that comes later."""
    async with stage([gpu_pod("mine", 2, card=0)]) as node:
        await node.admit("mine")
        # The annotation is gone and a new process knows nothing of it, so the start judges the pods without a card.
        node.pod("mine")["metadata"]["annotations"].clear()
        node.start_plugin()
        node.api.pods.append(gpu_pod("large-0", 99, card=None))
        came = iter(range(1, 51))

        def another_comes(method: str, path: str) -> None:
            if method == "POST" and (number := next(came, 0)):
                node.api.pods.append(gpu_pod(f"large-{number}", 99, card=None))
                node.pods.set(msgspec.convert(node.api.pods[-1], Pod))

        node.api.fault = another_comes
        await node.start("mine")

        assert len([event for event in node.api.events if event]) == 1


async def test_hand_bound_pods_cause_no_event_within_a_call() -> None:
    """A kubelet admits one pod at a time, so its call must not wait for a write for each pod of another tenant."""
    others = [gpu_pod(f"other-{number}", 14, card=None) for number in range(30)]
    async with stage([gpu_pod("full", 14, card=0), gpu_pod("honest", 14, card=1), *others], sizes=(14, 14)) as node:
        await node.admit("full")
        await node.admit("honest")

        assert (node.has("honest"), node.api.events) == ({1}, [])
