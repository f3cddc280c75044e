"""Promises of the report: the place at which each pod is counted; and of ``--check``, which has a line for each fault."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from gpushare.kubectl_inspect.core import card_report
from gpushare.kubectl_inspect.core.card_report import (
    LIMITS,
    UNHEALTHY,
    Finding,
    NodeReport,
    bound_pod,
    findings,
    nodes_of_pods,
    report,
)
from gpushare.manifests import Node, ObjectMeta, Pod, ReportedNode


def node(name: str = "n", units: str = "28", count: str = "2", **changes: Any) -> Node:
    """A node as the API lists it."""
    amounts = {"aliyun.com/gpu-mem": units, "aliyun.com/gpu-count": count}
    document = {
        "metadata": {"name": name, "annotations": changes.get("annotations")},
        "status": {
            "capacity": amounts,
            "allocatable": changes.get("allocatable", amounts),
            "conditions": changes.get("conditions"),
            "addresses": changes.get("addresses", [{"type": "InternalIP", "address": "10.0.0.1"}]),
        },
    }
    return msgspec.json.decode(json.dumps(document), type=ReportedNode)


def pod(name: str, units: str, annotations: dict[str, str] | None = None, **changes: Any) -> Pod:
    """A pod of namespace default, bound to ``n``."""
    resources = {"limits": {"aliyun.com/gpu-mem": units}}
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": annotations},
        "spec": {"nodeName": changes.get("node", "n"), "containers": [{"name": "c", "resources": resources}]},
        "status": changes.get("status", {"phase": "Running"}),
    }
    return msgspec.json.decode(json.dumps(document), type=Pod)


def cards(*units: int, unit: str = "GiB", slots: int = 0, unhealthy: dict[int, str] | None = None) -> dict[str, str]:
    """The node annotation; in slots mode if the cards have slots. ``unhealthy`` cards have a reason."""
    listed = [
        {"index": n, "uuid": f"GPU-{n}", "model": "T4", "mib": 0, "units": size, "slots": slots}
        for n, size in enumerate(units)
    ]
    for n, reason in (unhealthy or {}).items():
        listed[n] |= {"healthy": False, "reason": reason}
    found = {"v": 1, "mode": "slots" if slots else "ids", "unit": unit, "boot": "b", "cards": listed}
    return {"aliyun.com/gpushare-cards": json.dumps(found)}


def text_of(one: Finding) -> str:
    """The text of a finding, which begins with its subject; its kind is that of its text."""
    assert one.text.startswith(f"pod {one.namespace}/{one.name}: " if one.namespace else f"node {one.name}")
    assert (one.kind == UNHEALTHY) == (") gets no pods: " in one.text)
    assert (one.kind == LIMITS) == ("limit is not" in one.text or "GPUShareMemoryLimits is" in one.text)
    return one.text


def build(nodes: Iterable[Node], pods: Iterable[Pod]) -> tuple[tuple[NodeReport, ...], tuple[str, ...]]:
    """The report of nodes and pods as the API lists them."""
    reports, problems = card_report.report(nodes, filter(None, map(bound_pod, pods)))
    return reports, tuple(map(text_of, problems))


def one(*pods: Pod, **changes: Any) -> NodeReport:
    """The report of one node with these pods."""
    ((report,), _) = build([node(**changes)], pods)
    return report


def on(index: str) -> dict[str, str]:
    return {"ALIYUN_COM_GPU_MEM_IDX": index}


def limit(state: str) -> dict[str, str]:
    return {"ALIYUN_COM_GPU_MEM_LIMITS": json.dumps([["c", 1, state, 9]])}


def test_a_lost_or_unhealthy_card_is_reported() -> None:
    """One warning for each, with its reason; the card keeps its size in the table, in which a node without units is not."""
    ((report,), problems) = build([node(annotations=cards(14, 14, unhealthy={0: "lost", 1: ""}))], [])
    empty = node(units="0", count="1", annotations=cards(0, unhealthy={0: "lost"}))
    lost = "node n: card 0 (T4, GPU-0) gets no pods: lost"

    assert [device.total for device in report.info.devices] == [14, 14]
    assert problems == (lost, "node n: card 1 (T4, GPU-1) gets no pods: it is unhealthy")
    assert build([empty], []) == ((), (lost,))


@pytest.mark.parametrize(
    ("annotations", "pending", "used", "warnings"),
    [
        (None, 3, [0, 0], []),
        (on("2"), 3, [0, 0], ["card 2"]),
        (on("x"), 3, [0, 0], ["IDX"]),
        ({"scheduler.framework.gpushare.allocation": '{"0":{"1":2,"7":1}}'}, 1, [0, 2], ["card 7"]),
    ],
)
def test_units_without_a_card_of_the_node_are_pending(
    annotations: dict[str, str] | None, pending: int, used: list[int], warnings: list[str]
) -> None:
    """Units without a card of the node are pending, and a warning names the fault. (The original's two tables do not agree.)"""
    ((report,), problems) = build([node()], [pod("p", "3", annotations)])

    assert (report.info.unplaced, report.used) == (pending, 3)
    assert [device.used for device in report.info.devices] == used
    assert len(problems) == len(warnings)
    assert all(text in problem for text, problem in zip(warnings, problems, strict=True))


def test_a_node_that_shows_no_cards_warns_of_none() -> None:
    """A node that shows no cards gives no warning: its kubelet may just have started, so a pod's card is not wrong."""
    assert build([node(units="0", count="0")], [pod("p", "3", on("0"))]) == ((), ())


LESS = {"aliyun.com/gpu-mem": "14", "aliyun.com/gpu-count": "2"}


@pytest.mark.parametrize(
    ("changes", "unit", "total", "sizes"),
    [
        # An 80 GiB and a 24 GiB card are not two of 52. Units that do not add up to the capacity were left by a rollback.
        ({"units": "104", "annotations": cards(80, 24)}, "GiB", 104, [80, 24]),
        ({"units": "28", "annotations": cards(80, 24)}, "GiB", 28, [14, 14]),
        # The original divides what is allocatable; cards that are described are all of the node.
        ({"allocatable": LESS}, "GiB", 14, [7, 7]),
        ({"allocatable": LESS, "annotations": cards(14, 14)}, "GiB", 28, [14, 14]),
        # The original guesses MiB above 100 a card, which is wrong for a 141 GiB card; the annotation knows.
        ({"units": "200"}, "GiB", 200, [100, 100]),
        ({"units": "202"}, "MiB", 202, [101, 101]),
        ({"units": "282", "annotations": cards(141, 141)}, "GiB", 282, [141, 141]),
        ({"units": "112", "annotations": cards(56, 56, unit="256MiB")}, "256MiB", 112, [56, 56]),
        # Exact in slots mode, also for a card so small that one would guess GiB.
        ({"units": "90", "count": "1", "annotations": cards(90, unit="MiB", slots=48)}, "MiB", 90, [90]),
    ],
)
def test_cards_have_their_size_and_unit(changes: dict[str, Any], unit: str, total: int, sizes: list[int]) -> None:
    """Both are published, or guessed as the original does."""
    found = one(**changes)

    assert (found.unit, found.total, [device.total for device in found.info.devices]) == (unit, total, sizes)


@pytest.mark.parametrize("allocatable", [None, {}, {"aliyun.com/gpu-mem": "0"}, {"aliyun.com/gpu-mem": "odd"}])
def test_a_node_without_card_memory_is_left_out(allocatable: dict[str, str] | None) -> None:
    """An amount that is 0, absent or unreadable counts as none."""
    assert build([node(allocatable=allocatable), Node(ObjectMeta("new"))], []) == ((), ())


def test_nodes_and_pods_are_sorted_by_name() -> None:
    """The order of the lists does not matter."""
    reports, _ = build([node("b"), node("a")], [pod("z", "1", node="a"), pod("y", "1", node="a")])

    assert ["a", "b"] == [report.name for report in reports]
    assert ["y", "z"] == [booking.name for booking in reports[0].info.bookings]


def test_an_annotation_that_cannot_be_read_is_reported() -> None:
    """Each such pod is a problem with its name."""
    ((report,), problems) = build([node()], [pod("p", "4", on("x")), pod("q", "1.5", on("0")), pod("r", "1", on("0"))])

    assert report.used == 5, "an amount that cannot be read is none"
    assert [problem.partition(": ")[0] for problem in problems] == ["pod default/p", "pod default/q"]


def test_what_does_not_hold_memory_is_not_counted() -> None:
    """Ended pods, pods that asked for nothing, or are bound elsewhere; the phase alone does not free a running container."""
    report = one(
        pod("done", "4", on("0"), status={"phase": "Succeeded"}),
        pod("none", "0", on("0")),
        pod("waiting", "4", node=None),
        pod("elsewhere", "4", on("0"), node="other"),
    )
    running = [{"name": "c", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]

    assert (report.used, report.info.bookings) == (0, ())
    assert one(pod("p", "4", on("1"), status={"phase": "Failed", "containerStatuses": running})).used == 4


@pytest.mark.parametrize("addresses", [None, [], [{"type": "Hostname", "address": "n"}]])
def test_a_node_without_an_internal_address(addresses: Any) -> None:
    """The address of a node without an internal address is shown as unknown."""
    assert one(addresses=addresses).address == "unknown"


def slotted(*units: int) -> dict[str, str]:
    """The annotation of a node in slots mode."""
    return cards(*units, unit="MiB", slots=48)


def test_nodes_of_different_units_are_shown_in_mebibytes() -> None:
    """One table has one unit, and its sum means something: 28 GiB and 163,840 MiB are 192,512 MiB."""
    nodes = [
        node("ids", units="28", annotations=cards(14, 14)),
        node("slots", units="163840", annotations=slotted(81920, 81920)),
        node("odd", units="2", annotations=cards(1, 1, unit="stones")),
    ]
    pods = [
        pod("a", "3", on("0"), node="ids"),
        pod("b", "20001", on("1"), node="slots"),
        pod("c", "2", on("7"), node="ids"),
    ]
    reports, _ = build(nodes, pods)
    shown = {one.name: (one.unit, one.used, one.total, [card.used for card in one.info.devices]) for one in reports}

    assert shown == {
        "ids": ("MiB", 5120, 28672, [3072, 0]),
        "slots": ("MiB", 20001, 163840, [0, 20001]),
        "odd": ("stones", 0, 2, [0, 0]),
    }


def test_two_units_are_shown_as_one() -> None:
    """Cards, containers, overuse and why a node is refused stay what they are; only the amounts are in MiB."""
    later = {name: text.replace('"v": 1', '"v": 2') for name, text in cards(14, 14).items()}
    later["aliyun.com/gpushare-overuse"] = '[["u",0,1024,1300]]'
    nodes = [node("ids", annotations=later), node("slots", units="163840", annotations=slotted(81920, 81920))]
    (ids, slots), _ = build(nodes, [pod("b", "20001", on("1"), node="slots")])

    assert (ids.unit, ids.info.name, ids.info.published.refusal) == (
        "MiB", "ids", "the node's GPUs are described by a newer version of gpushare",
    )  # fmt: skip
    assert [card.total for card in ids.info.devices] == [14336, 14336]
    assert [one.used for one in ids.info.published.overuse] == [1300]
    assert [card.slots_used for card in slots.info.devices] == [0, 1]


def test_guessed_units_stay_as_the_original_shows_them() -> None:
    """Guessed units stay as the original shows them, so that the table is the same to the byte."""
    reports, _ = build([node("a", units="28"), node("b", units="30000")], [])

    assert [(one.unit, one.total) for one in reports] == [("GiB", 28), ("MiB", 30000)]


# When the pods below were given their cards.
SECONDS = 1_790_000_000
ASSUMED = {"ALIYUN_COM_GPU_MEM_ASSUME_TIME": f"{SECONDS}000000000"}


def found(one: Node, *pods: Pod, later: float = 0) -> list[str]:
    """The findings on a node, ``later`` seconds after its pods were given their cards."""
    bound = [each for each in map(bound_pod, pods) if each is not None]
    reports, problems = report([one], bound)
    return [*map(text_of, findings([one], bound, reports, problems, SECONDS + later, 300.0))]


DESCRIBED, ONE_SLOT = node(annotations=cards(14, 14)), node(annotations=cards(14, 14, slots=1))
NEW = pod("b", "14", on("1") | ASSUMED, status={"phase": "Pending"})
WHY = {"type": "GPUShareMemoryLimits", "status": "False", "reason": "CgroupV1", "message": "why"}
NOT_LIMITED = node(annotations=cards(14, 14), conditions=[WHY])
STATES = ("enforced", "unknown", "none", "loose", "tight", "none", "none", "none")
LIMITED = [pod(f"p{at}", "1", on("1") | limit(state)) for at, state in enumerate(STATES)]
NAMED = (
    "node n: the memory limit is not the share of default/p2 on card 1 (none), default/p3 on card 1 (loose), "
    "default/p4 on card 1 (tight), default/p5 on card 1 (none), default/p6 on card 1 (none)"
)
# A node of the original's plugin has nothing else to show an unhealthy card by; no card is over-booked by that.
OFFERS_LESS = node(units="30", allocatable={"aliyun.com/gpu-mem": "15", "aliyun.com/gpu-count": "2"})
OFFERED = "node n: its kubelet offers 15 of 30 units, as if a card was unhealthy, and all its pods count: the next one gets at most"


@pytest.mark.parametrize(
    ("one", "pods", "later", "lines"),
    [
        # Neither cards that are full nor pods that have just come, nor one that has started, however long ago.
        (DESCRIBED, [pod("a", "14", on("0")), NEW], 300, []),
        (DESCRIBED, [pod("a", "3", on("0") | ASSUMED)], 301, []),
        (ONE_SLOT, [pod("a", "1", on("0"))], 0, []),
        (DESCRIBED, [NEW], 301, ["pod default/b: it has a card of node n for 301 s and has not started"]),
        (DESCRIBED, [pod("a", "15", on("0"))], 0, ["node n: card 0 is over-booked: 15 of 14 units"]),
        (
            ONE_SLOT,
            [pod("a", "1", on("0")), pod("b", "1", on("0"))],
            0,
            ["node n: card 0 is over-booked: 2 of 1 slots"],
        ),
        # Annotations that do not agree: those of a pod without a card, and of a node with another capacity.
        (DESCRIBED, [pod("a", "3")], 0, ["node n: 3 units of its pods are on none of its cards"]),
        (
            node(annotations=cards(80, 24)),
            [],
            0,
            ["node n: its cards annotation does not agree with its capacity"],
        ),
        # An annotation of a newer plugin is a problem already.
        (
            node(annotations={name: text.replace('"v": 1', '"v": 2') for name, text in cards(14, 14).items()}),
            [],
            0,
            ["node n gets no pods: the node's GPUs are described by a newer version of gpushare"],
        ),
        (OFFERS_LESS, [pod("a", "12", on("0"))], 0, [f"{OFFERED} 3"]),
        # Limits that are not in force, and pods that have one which is not their share: five are named.
        (NOT_LIMITED, [], 0, ["node n: GPUShareMemoryLimits is False (CgroupV1): why"]),
        (DESCRIBED, LIMITED[:7], 0, [NAMED]),
        (DESCRIBED, LIMITED, 0, [f"{NAMED}, and 1 more"]),
        (OFFERS_LESS, [pod("a", "16", on("0"))], 0, ["node n: card 0 is over-booked: 16 of 15 units", f"{OFFERED} 0"]),
    ],
)
def test_each_fault_has_its_line(one: Node, pods: list[Pod], later: float, lines: list[str]) -> None:
    """So many seconds after the pods were given their cards."""
    assert found(one, *pods, later=later) == lines


def test_nodes_that_may_not_be_seen_are_known_by_their_pods() -> None:
    """Each has the cards that its pods have, as large as they were at the bind."""
    sized: dict[str, Any] = {"ALIYUN_COM_GPU_MEM_DEV": "80"}
    pods = [pod("a", "3", on("2") | sized), pod("b", "4", on("2")), pod("c", "5", on("0")), pod("d", "6")]
    bound = [each for each in map(bound_pod, pods) if each is not None]
    reports, problems = report(nodes_of_pods(bound), bound)

    assert [(card.index, card.used, card.total) for card in reports[0].info.devices] == [(0, 5, 5), (2, 7, 80)]
    assert (reports[0].info.unplaced, problems) == (6, ())
    assert (reports[0].unit, reports[0].is_published) == ("GiB", True)
    assert {(card.model, card.uuid) for card in reports[0].info.devices} == {("", "")}
