"""Promises of gpushare.setup.core.migration."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from gpushare.manifests import Node, Pod
from gpushare.model.quantity import MemoryUnit
from gpushare.setup.core.migration import (
    Course,
    Plugin,
    bound_last,
    faults_of,
    fleet_of,
    is_gpushares,
    picture,
    steps,
)


def node(
    name: str = "n", total: object = "28", count: object = "2", *, cards: Sequence[int] = (), **described: Any
) -> Node:
    """A labelled node; with ``cards`` their sizes are described, with more of that annotation in ``described``."""
    annotations = {}
    if cards:
        facts = [
            {"index": at, "uuid": f"GPU-{at}", "model": "T4", "mib": 1, "units": one} for at, one in enumerate(cards)
        ]
        document = {"v": 1, "mode": "ids", "unit": "GiB", "boot": "b", "cards": facts} | described
        annotations = {"aliyun.com/gpushare-cards": json.dumps(document)}
    amounts = {"aliyun.com/gpu-mem": total, "aliyun.com/gpu-count": count}
    metadata = {"name": name, "annotations": annotations, "labels": {"gpushare": "true"}}
    return msgspec.convert({"metadata": metadata, "status": {"capacity": amounts}}, Node)


def pod(
    name: str = "p",
    units: object = "3",
    card: str | None = "0",
    *,
    size: str = "14",
    on: str = "n",
    init: str = "",
    phase: str = "Running",
    **annotations: str,
) -> Pod:
    """A pod on a node, bound by the original's extender; with its annotations in ``annotations``, by their last words."""
    written: dict[str, str] = {} if card is None else {"IDX": card, "DEV": size, "POD": str(units), "ASSIGNED": "true"}
    texts = {f"ALIYUN_COM_GPU_MEM_{key}": text for key, text in (written | annotations).items()}
    spec: dict[str, Any] = {"nodeName": on, "containers": [_container("c", units)]}
    if init:
        spec["initContainers"] = [_container("i", init)]
    metadata = {"name": name, "namespace": "d", "uid": name, "annotations": texts}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": phase}}, Pod)


def on_several(cards: Mapping[str, int]) -> Pod:
    """A pod that is split over cards."""
    units = sum(cards.values())
    found = pod(units=str(units), card=None, EXTENDER="gpushare/1")
    assert found.metadata.annotations is not None
    found.metadata.annotations["scheduler.framework.gpushare.allocation"] = json.dumps({"0": cards})
    return found


def _container(name: str, units: object) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {"aliyun.com/gpu-mem": units}}}


THERE, BACK = Course(MemoryUnit(1024)), Course(MemoryUnit(1024), is_back=True)
OURS = node(cards=[14, 14])
UNEQUAL = node(total="25", cards=[14, 11])
AGAIN = "run gpushare-setup migrate"
REPLACE = "delete the pod, and its owner makes another"
ROOM = "delete pods of that card until the others fit; their owners make others"
CHANGING = f"{AGAIN} --back again in a moment"
NO_NUMBER = ", not a number from 0 up"
COUNTS = "node n counts in {}, the plugin to come in GiB, and 1 pod of it hold memory"
DRAIN = "drain the node first, or give the plugin to come, and gpushare-setup migrate{}, the unit {} (GiB or MiB)"
LOOK = (
    f"{AGAIN} again in a moment, then read the log of its plugin: kubectl -n kube-system get pods "
    "--selector name=gpushare-device-plugin-ds --field-selector spec.nodeName=n"
)
TAKE_OUT = "let the node's pods end, then take the node out: kubectl label node n gpushare-"
FEWER = "delete the pod, and let its owner make none until the init containers ask for no more than the others"
APPLY = "kubectl apply -k FOLDER    # docs/install/from-the-original.md: "
DELETE = "kubectl -n kube-system delete pod --selector name=gpushare-device-plugin-ds --field-selector spec.nodeName="
NEXT = "    # the node has changed, and nothing is in the way"


@pytest.mark.parametrize(
    ("seen", "plugin", "unit", "average", "sizes"),
    [
        (node(), Plugin.ORIGINAL, 1024, 14, (14, 14)),
        (node(total="30k"), Plugin.ORIGINAL, 1, 15000, (15000, 15000)),
        (node(total="25", cards=[14, 11]), Plugin.OURS, 1024, 12, (14, 11)),
        (node(total="25", cards=[14, 11], unit="256MiB"), Plugin.OURS, 256, 12, (14, 11)),
        # Left behind by a plugin of ours: it does not agree with the capacity.
        (node(total="28", cards=[14, 11]), Plugin.ORIGINAL, 1024, 14, (14, 14)),
        (node(total="0"), Plugin.NONE, 0, 0, ()),
        (node(total="0", count="1", cards=[0]), Plugin.NONE, 0, 0, ()),
        (node(count="0"), Plugin.NONE, 0, 0, ()),
    ],
)
def test_a_nodes_plugin_shows_in_what_it_publishes(
    seen: Node, plugin: Plugin, unit: int, average: int, sizes: tuple[int, ...]
) -> None:
    """The original's publishes total and count, ours describes each card; one that offers nothing is not there."""
    (found,) = fleet_of([seen], [])

    assert (found.plugin, found.unit, found.average, found.sizes) == (plugin, unit, average, sizes)


def test_nodes_without_a_part_in_it_are_left_out() -> None:
    """A node without card memory, label and pods is none of the fleet; nodes and pods come by name."""
    plain = msgspec.convert({"metadata": {"name": "plain"}, "status": {}}, Node)
    pods = [pod("z"), pod("a"), pod("cpu", "0", None), pod("gone", phase="Failed"), pod("there", on="plain")]
    unbound = pod("unbound", on="")

    fleet = fleet_of([plain, node("z"), node()], [*pods, unbound])
    assert [(one.name, [pod.name for pod in one.holders]) for one in fleet] == [
        ("n", ["d/a", "d/z"]),
        ("plain", ["d/there"]),
        ("z", []),
    ]
    assert fleet_of([plain], []) == ()


@pytest.mark.parametrize(("course", "nodes"), [(THERE, [node()]), (BACK, [OURS]), (THERE, [OURS]), (BACK, [node()])])
@pytest.mark.parametrize("extender", [True, False, None])
def test_good_pods_are_not_in_the_way(course: Course, nodes: list[Node], extender: bool | None) -> None:
    """Cards of one size, and pods of either side that fit on them, may be migrated both ways."""
    pods = [pod("a", "14"), pod("b", "13", "1"), pod("c", "1", "1", EXTENDER="gpushare/1")]

    assert faults_of(fleet_of(nodes, pods), extender, course) == []


@pytest.mark.parametrize(
    ("course", "seen", "pods", "what", "fix"),
    [
        (THERE, node(), [pod("a", "9"), pod("b", "6")], "card 0: 15 units are booked, and it has 14 (d/a 9, d/b 6)", ROOM),
        (THERE, UNEQUAL, [pod("a", "12", "1")], "card 1: 12 units are booked, and it has 11 (d/a 12)", ROOM),
        (THERE, node(), [pod(card="2")], "pod d/p names card 2, and node n has the cards 0, 1", REPLACE),
        (THERE, node(), [pod(card=None)], "pod d/p holds 3 units of node n and names no card", REPLACE),
        (THERE, node(), [pod(units="1.5")], "names no card: '1.5' is not a whole, non-negative number of units", REPLACE),
        (THERE, node(), [pod(card="x")], f"names no card: annotation ALIYUN_COM_GPU_MEM_IDX is 'x'{NO_NUMBER}", REPLACE),
        (THERE, node(), [pod(size="15k")], f"annotation ALIYUN_COM_GPU_MEM_DEV is '15k'{NO_NUMBER}", REPLACE),
        (THERE, node(total="30k"), [pod(size="15000")], COUNTS.format("MiB"), DRAIN.format("", "MiB")),
        (THERE, node(), [pod(units="3", size="15000")], "pod d/p was bound in MiB, and node n counts in GiB", REPLACE),
        (THERE, node(total="0"), [pod(), pod("q")], "node n offers no card memory, and 2 pods of it hold some", LOOK),
        (THERE, node(total="0"), [], "node n offers no card memory", LOOK),
        (BACK, node(cards=[14, 14], unit="256MiB"), [pod()], COUNTS.format("256MiB"), DRAIN.format(" --back", "256MiB")),
        (BACK, node(cards=[14, 14], unit="?"), [pod()], COUNTS.format("an unknown unit"), "drain the node first"),
        (BACK, UNEQUAL, [], "card 1: it has 11 units, and the original's plugin offers 14 of each card", TAKE_OUT),
        (
            BACK, node(total="25", cards=[11, 14]), [pod(card="1", units="12")],
            "card 1: 12 units are booked, and the original's plugin offers 11 of each card (d/p 12)", ROOM,
        ),
        (BACK, OURS, [on_several({"0": 1, "1": 2})], "d/p is on the cards 0 and 1, and the original's extender books one", REPLACE),
        (BACK, OURS, [pod(init="5")], "pod d/p holds 5 units with its init containers, and the original counts 3", FEWER),
        (BACK, OURS, [pod(REPAIR="1", EXTENDER="gpushare/1")], "the card of pod d/p is being changed", CHANGING),
        # Its card is not known, so neither is its unit.
        (Course(MemoryUnit(1)), node(total="30k"), [pod(card=None)], "pod d/p holds 3 units of node n and names no card", REPLACE),
        (Course(MemoryUnit(1)), node(total="30k"), [pod()], "pod d/p was bound in GiB, and node n counts in MiB", REPLACE),
        (BACK, node(), [pod(units="15")], "card 0: 15 units are booked, and it has 14 (d/p 15)", ROOM),
        (BACK, node(total="0"), [], "node n offers no card memory", LOOK.replace("migrate", "migrate --back")),
    ],
)  # fmt: skip
def test_each_thing_in_the_way_is_named(course: Course, seen: Node, pods: list[Pod], what: str, fix: str) -> None:
    """One line has the fault, and the next the way out."""
    (fault,) = faults_of(fleet_of([seen], pods), True, course)

    assert fault.what.endswith(what)
    assert fault.fix == fix


def test_the_faults_of_all_nodes_are_named() -> None:
    """In the order of the nodes."""
    fleet = fleet_of([node("a", "0"), node("b", "0")], [])

    assert [fault.what for fault in faults_of(fleet, True, THERE)] == [
        "node a offers no card memory", "node b offers no card memory",
    ]  # fmt: skip


def test_the_unsafe_pair_is_named() -> None:
    """The original's extender books the mean on a smaller card of our plugin, so it may not be there before the last node."""
    (fault,) = faults_of(fleet_of([UNEQUAL], []), False, THERE)

    assert fault.what == "node n, card 1: it has 11 units, and the original's extender books 12 on it"
    assert "leave it there as long as a node has gpushare's plugin" in fault.fix
    assert faults_of(fleet_of([UNEQUAL], []), None, THERE) == []
    assert faults_of(fleet_of([OURS], []), False, THERE) == []


def test_another_unit_is_no_fault_without_pods() -> None:
    """A node of the original without pods may come over in another unit, and one in MiB if the plugin to come counts so."""
    mib = node(total="30k")

    assert faults_of(fleet_of([mib], []), True, THERE) == []
    assert faults_of(fleet_of([mib], [pod(size="15000")]), True, Course(MemoryUnit(1))) == []


FIRST = [
    f"{APPLY}the extender now, each plugin when its pod is deleted",
    "kubectl -n kube-system rollout status deployment/gpushare-schd-extender",
]
LAST = f"{APPLY}the original's extender, after the last plugin"
IN_MIB = Course(MemoryUnit(1), is_back=True)
THEN = f"gpushare-setup migrate{NEXT}"


def forgets(name: str) -> list[str]:
    """The commands that take a node back."""
    forget = f"kubectl annotate node {name} aliyun.com/gpushare-cards-    # once the original's plugin is there"
    return [f"{DELETE}{name}", forget, f"gpushare-setup migrate --back --memory-unit=MiB{NEXT}"]


@pytest.mark.parametrize(
    ("course", "nodes", "extender", "plugin", "commands"),
    [
        (THERE, [node("a"), node("b")], False, False, [*FIRST, f"{DELETE}a", THEN, f"{DELETE}b", THEN]),
        (THERE, [node("a", cards=[14, 14]), node("b")], True, True, [f"{DELETE}b", THEN]),
        (THERE, [OURS], False, True, FIRST),
        (THERE, [OURS], True, True, []),
        (THERE, [OURS], None, None, []),
        (
            IN_MIB, [node("a", cards=[14, 14])], True, True,
            [f"{APPLY}the original's plugins alone, each when its pod is deleted", *forgets("a"), LAST],
        ),
        # The annotation was left behind.
        (IN_MIB, [node("a"), node("b", cards=[14, 11])], True, False, [*forgets("b"), LAST]),
        (IN_MIB, [node()], True, False, [LAST]),
        (IN_MIB, [node()], False, False, []),
    ],
)  # fmt: skip
def test_the_next_steps_are_in_their_order(
    course: Course, nodes: list[Node], extender: bool | None, plugin: bool | None, commands: Sequence[str]
) -> None:
    """The extender comes before all plugins, and goes after them with each annotation; what is done is not asked for again."""
    assert list(steps(fleet_of(nodes, []), extender, plugin, course)) == commands


def test_the_picture_has_nodes_cards_and_pods() -> None:
    """A line for the extender, each node and each pod: total / count beside what the node describes."""
    seen = [node("a"), node("b", total="25", cards=[14, 11], unit="?"), node("c", total="0")]
    pods = [pod(on="a"), pod("q", on="b", EXTENDER="gpushare/1", phase="Pending"), pod("r", card=None, on="b")]
    several = on_several({"0": 1, "1": 2})

    assert list(picture(fleet_of(seen, pods), False)) == [
        "extender: the original's",
        "node a: the original's plugin, cards of 14, 14 GiB (28 ÷ 2 = 14), 3 of 28 booked, 1 pod",
        "  d/p, card 0: 3, by the original's extender, started",
        "node b: gpushare's plugin, cards of 14, 11 units (25 ÷ 2 = 12), 3 of 25 booked, 2 pods",
        "  d/q, card 0: 3, by gpushare's extender, not started yet",
        "  d/r, no card: 3, by the original's extender, started",
        "node c: no plugin, 0 pods",
    ]
    assert list(picture(fleet_of([OURS], [several]), True))[-1] == (
        "  d/p, card 0: 1 and card 1: 2, by gpushare's extender, started"
    )
    assert next(picture((), True)) == "extender: gpushare's"
    assert next(picture((), None)) == "extender: no deployment gpushare-schd-extender in kube-system"


def test_ours_are_known_by_their_label() -> None:
    """A Deployment or DaemonSet with the label part-of is ours; one without labels is the original's."""
    assert is_gpushares({"metadata": {"labels": {"app.kubernetes.io/part-of": "gpushare"}}}) is True
    assert is_gpushares({"metadata": {"labels": {"app": "gpushare"}}}) is False
    assert is_gpushares({}) is False
    assert is_gpushares(None) is None


def with_image(image: str) -> dict[str, object]:
    """The original's Deployment with another image."""
    return {"metadata": {}, "spec": {"template": {"spec": {"containers": [{"image": image}]}}}}


@pytest.mark.parametrize(
    ("image", "bound_by_ours", "ours"),
    [
        ("registry.example/gpushare/extender:0.2.0", False, True),
        ("localhost:5000/gpushare/device-plugin@sha256:0", False, True),
        ("registry.example/acs/k8s-gpushare-schd-extender:1.11", True, False),
        ("mirror.example/extender:1", True, True),
        ("mirror.example/extender:1", False, False),
    ],
)
def test_ours_are_known_after_a_switch_by_image(image: str, bound_by_ours: bool, ours: bool) -> None:
    """The original's objects with gpushare's image are gpushare's, by the image or by the pod that was bound last."""
    old, later = (
        pod("a", ASSUME_TIME="9"),
        pod("b", ASSUME_TIME="10", **({"EXTENDER": "gpushare/1"} if bound_by_ours else {})),
    )

    assert bound_last([old, later, pod("c"), pod("d", ASSUME_TIME="x")]) is later
    assert is_gpushares(with_image(image), later) is ours
    assert bound_last([]) is None
