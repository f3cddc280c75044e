"""Promises of the kinds of waiting: each is named, on the nodes on which it is so, and no other; and of a scheduler's answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpushare import wire
from gpushare.kubectl_gpushare.core import waiting_kinds as kinds
from gpushare.kubectl_gpushare.core.explanation import explain_pod
from gpushare.kubectl_gpushare.core.scheduler_objects import Event
from gpushare.kubectl_gpushare.core.waiting_kinds import CARDS, answer_in
from tests.gpushare.kubectl_gpushare.small_cluster import (
    Object,
    cluster,
    event,
    node,
    of_the_original,
    offering,
    pod,
    report,
    subject,
)

AWAY = 'Post "http://127.0.0.1:12345/gpushare-scheduler/filter": dial tcp 127.0.0.1:12345: connect: connection refused'


def causes(asked: Object, *objects: Object, events: tuple[Event, ...] = (), **more: Any) -> dict[str, dict[str, Any]]:
    """The causes of a pod's waiting, by kind."""
    answer = explain_pod(subject(asked), cluster(*objects, **more), events)
    return {cause["kind"]: cause for cause in answer["causes"]}


def gone(item: Object, resource: str = "mem", *shown: str) -> Object:
    """The node after its device plugin is gone: none of the resource is allocatable, nor in the other amounts of ``shown``."""
    amounts = item["status"]["allocatable"] | {f"aliyun.com/gpu-{resource}": "0"}
    return item | {"status": item["status"] | dict.fromkeys(("allocatable", *shown), amounts)}


SLOT = {"aliyun.com/gpu-slot": "1"}
FULL = (pod("f1", 12, "a", 0), pod("f2", 12, "a", 1))
LINGERS = {"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"running": {}}}]}
SMALL = (pod("f1", 2, "a", 0), pod("f2", 2, "a", 1))
TAINTED = {"taints": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]}
GROUP = {"same-card": "g"}
BARE = {"metadata": {"name": "0"}, "spec": {}}
LOST = node(unhealthy="lost")
LAST_LOST = node("a", 14, 14, 14, unhealthy="lost")
LINGERING = pod("h", 12, "a", 2) | {"status": LINGERS}

# By case: the kinds, the pod, and the cluster. Only variants of the kinds that e2e/explain brings about on a cluster.
WAITS: dict[str, tuple[str, Object, *tuple[Object, ...]]] = {
    "unhealthy, in slots mode": (
        "unhealthy",
        pod(limits=SLOT),
        gone(node("a", 15_079, slots=8, unhealthy="lost"), "slot"),
    ),
    "one card full and one unhealthy": ("full unhealthy", pod(), LOST, pod("f", 12, "a", 0)),
    "no slot free": ("no-slot", pod(limits=SLOT), node("a", 15_079, slots=1), pod("f", 4, "a", 0, limits=SLOT)),
    "same card elsewhere": (
        "same-card-elsewhere same-card-full",
        pod(wishes=GROUP),
        node(),
        node("b"),
        pod("f", 12, "a", 0, wishes=GROUP),
    ),
    "cordoned": ("cordoned", pod(), node(spec={"unschedulable": True})),
    "too small": ("too-small", pod(units=15), node()),
    "cpu": ("resources", pod(limits={"cpu": "9"}), node()),
    "no plugin": ("not-offered", pod(), gone(node())),
    "no plugin for long": ("not-offered", pod(), gone(node(), "mem", "capacity")),
    "no plugin of the original": ("not-offered", pod(), of_the_original(gone(node()))),
    "no plugin, and full": ("not-offered", pod(), gone(node()), *FULL),
    "no plugin, in slots mode": ("not-offered", pod(limits=SLOT), gone(node("a", 15_079, slots=8), "slot")),
    "no plugin, and no cards wanted": ("resources", pod(units=0, limits={"cpu": "9"}), gone(node())),
    "no plugin, and a taint": ("taint", pod(), gone(node(spec=TAINTED))),
    "room": ("has-room", pod(), node()),
    "room beside a node without cards": ("has-room", pod(), BARE, node()),
    "no card is asked for": ("has-room", pod(units=0), node("a", 14, unhealthy="lost")),
    "a pod of all of a card": ("fragmented no-preemption", pod(units=14, priority=5), node(), *SMALL),
    "another model has room": ("no-such-card", pod(wishes={"card-model": "A100"}, priority=5), node(), *FULL),
    "only a card that is not wished for": (
        "full",
        pod(priority=5, wishes={"card-uuid": "GPU-0"}),
        node(),
        pod("f", 12, "a", 0, priority=9),
        pod("g", 12, "a", 1),
    ),
    "only a card that is unhealthy": (
        "fragmented",
        pod(units=3, priority=5),
        LAST_LOST,
        pod("f", 12, "a", 0, priority=9),
        pod("g", 12, "a", 1, priority=9),
        LINGERING,
    ),
    "no shared cards": ("no-shared-cards", pod(), BARE),
    "no nodes are seen": ("", pod()),
    "gated": ("gated", pod(schedulingGates=[{"name": "g"}]), node()),
    "no claim": ("resource-claims", pod(conditions=[], resourceClaims=[{"name": "r"}]), node()),
    "no group": ("scheduler", pod(conditions=[], schedulingGroup={}), node()),
    "no scheduler": ("not-asked", pod(conditions=[]), node()),
}


@pytest.mark.parametrize("case", WAITS)
def test_each_kind_of_waiting_is_named(case: str) -> None:
    """The kinds are these and no others."""
    expected, asked, *objects = WAITS[case]

    assert set(causes(asked, *objects)) == set(expected.split())


def test_the_extender_is_away() -> None:
    """Its URL in the scheduler's words names it, in the condition or in the last event."""
    by_condition = causes(pod(conditions=report(AWAY, "SchedulerError")), node())
    old, new = (
        event("FailedScheduling", "0/1 nodes", when="2026-01-01T00:00:00Z"),
        event("FailedScheduling", AWAY, when="2026-01-01T00:00:00.5Z"),
    )
    by_event = causes(pod(conditions=[{"type": "Ready", "status": "False"}]), node(), events=(new, old))

    assert by_condition[kinds.EXTENDER_AWAY]["message"] == by_event[kinds.EXTENDER_AWAY]["message"] == AWAY
    assert set(by_condition) == set(by_event) == {kinds.EXTENDER_AWAY}
    assert kinds.EXTENDER_AWAY not in causes(pod(conditions=[]), node(), events=(old,))


APART = "node(s) didn't match pod anti-affinity rules"
STATES = {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
BOTH = ["a", "b"]


@pytest.mark.parametrize(
    ("nodes", "reasons", "expected"),
    [
        (2, f"2 {APART}", {"anti-affinity": (2, BOTH)}),
        (2, "2 node(s) didn't have free ports for the requested pod ports", {"host-port": (2, BOTH)}),
        (2, f"1 {APART}, 1 node(s) had volume node affinity conflict", {"anti-affinity": (1, []), "volumes": (1, [])}),
        (2, 'persistentvolumeclaim "x" not found', {"volumes": (None, None)}),
        (2, "2 a plugin's own words", {"scheduler": (2, BOTH)}),
        (0, "pod group team/g is not ready", {"scheduler": (None, None)}),
        (2, "2 Insufficient nvidia.com/gpu", {"resources": (2, BOTH)}),
        # The answer was about cards: these have room since.
        (2, f"1 {APART}, 1 Insufficient aliyun.com/gpu-mem", {"anti-affinity": (1, []), "has-room": (1, BOTH)}),
        (2, "2 Insufficient GPU Memory in one device", {"has-room": (2, BOTH)}),
        # One node is new, or was not looked at.
        (1, f"1 {APART}", {"anti-affinity": (1, []), "has-room": (1, BOTH)}),
        (2, f"1 {APART}", {"anti-affinity": (1, []), "has-room": (1, BOTH)}),
    ],
)
def test_the_schedulers_last_answer_is_not_overruled(nodes: int, reasons: str, expected: dict[str, Any]) -> None:
    """A rule that is not judged is the reason, with its nodes; a card has room only if the answer allows it."""
    text = f"0/{nodes} nodes are available: {reasons}." if nodes else reasons
    found = causes(pod(conditions=report(text)), node("a"), node("b"))

    assert {kind: (one.get("nodes"), one.get("examples")) for kind, one in found.items()} == expected


def test_a_node_that_the_answer_excludes_takes_no_pod() -> None:
    """Its cards have the scheduler's reason, or that there are several."""
    answers = [f"0/1 nodes are available: 1 {APART}.", f"0/1 nodes are available: 1 {APART}, 1 Insufficient cpu."]
    found = [explain_pod(subject(pod(conditions=report(text))), cluster(node()), ()) for text in answers]

    assert [one["fits"] for one in found] == [[], []]
    assert [one["nodes"][0]["rule"] for one in found] == [APART, "the scheduler excludes it by one of its reasons"]


def test_a_rule_that_is_judged_is_named_once() -> None:
    """With the nodes without cards counted: those that the scheduler names as well."""
    plain = {"metadata": {"name": "cpu"}, "spec": {}, "status": {"allocatable": {"pods": "9"}}}
    master = {"metadata": {"name": "m"}, "spec": TAINTED, "status": {}}
    text = "0/4 nodes are available: 1 Insufficient aliyun.com/gpu-mem, 1 {}, 2 node(s) had untolerated taint(s)."
    objects = (node("a"), node("b", spec=TAINTED), plain, master)
    found = causes(pod(conditions=report(text.format(APART))), *objects)

    assert {kind: one["nodes"] for kind, one in found.items()} == {kinds.ANTI_AFFINITY: 1, kinds.TAINT: 1}
    assert found[kinds.TAINT]["examples"] == ["b"]


UNREADY = "node a is NotReady since 2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("node.kubernetes.io/unreachable", UNREADY),
        ("node.kubernetes.io/not-ready", UNREADY),
        ("node.kubernetes.io/disk-pressure", "node a has the taint node.kubernetes.io/disk-pressure"),
        ("node.cilium.io/agent-not-ready", "node a has the taint node.cilium.io/agent-not-ready"),
    ],
)
def test_the_state_of_a_node_is_no_taint_to_tolerate(key: str, text: str) -> None:
    """It has its beginning and the next command; a taint of a person beside it is named, too."""
    unready = node(spec={"taints": [{"key": key, "effect": "NoSchedule"}]})
    unready["status"] |= STATES
    both = unready | {"spec": {"taints": [*TAINTED["taints"], {"key": key, "effect": "NoExecute"}]}}
    found = causes(pod(), unready)

    assert set(found) == {kinds.NODE_STATE}
    assert found[kinds.NODE_STATE]["message"] == text
    assert found[kinds.NODE_STATE]["do"].startswith("kubectl describe node a ")
    assert set(causes(pod(), both)) == {kinds.NODE_STATE, kinds.TAINT}


def test_a_state_of_a_node_has_its_reason() -> None:
    """As the kubelet wrote it."""
    full = node(spec={"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]})
    full["status"]["conditions"] = [
        {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure", "message": "full"}
    ]

    assert causes(pod(), full)[kinds.NODE_STATE]["message"] == "node a is DiskPressure (KubeletHasDiskPressure: full)"


def test_an_unhealthy_card_is_named_with_its_reason() -> None:
    """The plugin has the reason, and a ConfigMap none. A card is not named if it is full, of another model, or out of the group."""
    by_config_map = {"unhealthy-gpu-a": "0", "other": "0"}
    in_group = pod("f", 12, "a", 0, wishes=GROUP)
    found = [
        causes(pod(), node("a", 14, unhealthy="lost")),
        causes(pod(units=14), node("a", 14, unhealthy="lost")),
        causes(pod(wishes=GROUP), LOST, pod("f", 2, "a", 1, wishes=GROUP)),
        causes(pod(), node("a", 14), unhealthy=by_config_map),
        causes(pod(), of_the_original(node("a", 14)), unhealthy=by_config_map),
        causes(pod(), node("a", 14, unhealthy="lost"), pod("f", 12, "a", 0)),
    ]

    assert [one[kinds.UNHEALTHY]["message"] for one in found] == [
        *(f"node a: card {card}" for card in ("0: lost", "0: lost", "1: lost", *["0: declared unhealthy"] * 2)),
        wire.REASON_ALL_CARDS_UNHEALTHY,
    ]
    assert set(causes(pod(wishes=GROUP), LOST, in_group)) == {kinds.GROUP_FULL}


def test_messages_of_a_kind_stand_beside_each_other() -> None:
    """Each once; a kind that needs none has none."""
    found = causes(pod(), *(node(f"n{at}", spec={"taints": [TAINTED["taints"][0] | {"value": at}]}) for at in "xyx"))
    room = causes(pod(), node())

    assert found[kinds.TAINT]["message"] == (
        "node(s) had untolerated taint {gpu: x}; node(s) had untolerated taint {gpu: y}"
    )
    assert "message" not in room[kinds.HAS_ROOM]
    assert "message" not in causes(pod(priority=5), node(), *FULL)[kinds.NO_PREEMPTION]


def test_a_scheduler_that_has_not_reported_is_named() -> None:
    """A condition that is met is no report."""
    met = [{"type": "PodScheduled", "status": "True", "reason": "Done"}]
    unnamed, named = causes(pod(conditions=met), node()), causes(pod(conditions=[], schedulerName="mine"), node())

    assert unnamed[kinds.NOT_ASKED]["message"] == "schedulerName: default-scheduler"
    assert named[kinds.NOT_ASKED]["message"] == "schedulerName: mine"


@pytest.mark.parametrize(
    ("conditions", "events", "reason"),
    [
        ([], (), ""),
        ([{"type": "PodScheduled", "status": "False"}], (), ""),
        ([], (msgspec.structs.replace(event("FailedScheduling", ""), message=None),), "FailedScheduling"),
    ],
)
def test_a_report_may_have_no_text(conditions: list[Object], events: tuple[Event, ...], reason: str) -> None:
    """Then its text is empty."""
    answer = explain_pod(subject(pod(conditions=conditions)), cluster(node()), events)

    assert (answer["scheduler"]["reason"], answer["scheduler"]["message"]) == (reason, "")
    assert [one["message"] for one in answer["events"]] == [""] * len(events)


def test_a_node_of_a_newer_plugin_is_no_unhealthy_one() -> None:
    """Its cards are shown as unhealthy, and the reason is another."""
    newer = node("a", 14)
    annotations = newer["metadata"]["annotations"]
    annotations["aliyun.com/gpushare-cards"] = annotations["aliyun.com/gpushare-cards"].replace('"v": 1', '"v": 2')
    found = causes(pod(), newer)

    assert set(found) == {kinds.OTHER}
    assert found[kinds.OTHER]["message"] == wire.REASON_NEWER_CARDS


COUNT = {"aliyun.com/gpu-count": "2"}
SUM = (
    "node a: {} of its {} allocatable aliyun.com/gpu-{} are counted for pods, "
    "{} of them for pods on an unhealthy or removed card or on none"
)

FEWER = "; the node has {} in all, and its kubelet takes the others to be unhealthy"


DELETED = {"metadata": pod("h")["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
OF_ORIGINAL = of_the_original(offering(node(), mem=14))
ONE_CARD = node("a", 14)
ONE_SLOT = offering(node("a", 15_079, slots=8), slot=1)
# Counted, offered, and counted on no healthy card; then the pods that make room by their end.
Sums = tuple[str, int, int, int, str]


@pytest.mark.parametrize(
    ("asked", "objects", "message", "ended"),
    [
        # A card of the original's plugin, which alone knows that it is unhealthy; the same card, if a ConfigMap declares it.
        (pod(), (OF_ORIGINAL, pod("f", 12, "a", 0)), ("mem", 12, 14, 0, "team/f (12)"), "f"),
        (
            pod(),
            (OF_ORIGINAL, pod("g", 2, "a", 0), pod("f", 12, "a", 1)),
            ("mem", 14, 14, 12, "team/f (12)"),
            "f",
        ),
        # A pod on no card, and one on a card that was removed.
        (pod(units=14), (ONE_CARD, pod("f", 2, "a")), ("mem", 2, 14, 2, "team/f (2)"), "f"),
        (pod(units=14), (ONE_CARD, pod("f", 2, "a", 7)), ("mem", 2, 14, 2, "team/f (2)"), "f"),
        # One that is being deleted goes first; of the others the lowest priority, then the largest.
        (
            pod(units=14),
            (ONE_CARD, pod("f", 2, "a", priority=1), pod("g", 1, "a"), pod("h", 2, "a") | DELETED),
            ("mem", 5, 14, 5, "team/h (2), team/g (1), team/f (2)"),
            "hgf",
        ),
        # The kubelet offers less than the pod asks for.
        (pod(), (offering(node(), mem=2), pod("f", 1, "a", 0)), ("mem", 1, 2, 0, ""), ""),
        (pod(limits=COUNT), (node(), pod("f", 2, "a", 0, limits=COUNT)), ("count", 2, 2, 0, "team/f (2)"), "f"),
        (pod(limits=SLOT), (ONE_SLOT, pod("f", 0, "a", limits=SLOT)), ("slot", 1, 1, 1, "team/f (1)"), "f"),
    ],
)
def test_a_refusal_by_the_sum_of_a_node_names_the_pods(
    asked: Object, objects: tuple[Object, ...], message: Sums, ended: str
) -> None:
    """kube-scheduler counts pods without a healthy card, too: the end of these makes room, behind the card that has room."""
    resource, counted, offered, lost, named = message
    amounts = objects[0]["status"]
    fewer = FEWER.format(amounts["capacity"][f"aliyun.com/gpu-{resource}"]) * (
        amounts["capacity"] != amounts["allocatable"]
    )
    text = SUM.format(counted, offered, resource, lost) + fewer + (f"; the end of {named} makes room" if named else "")
    reported = asked | {
        "status": {"conditions": report(f"0/1 nodes are available: 1 Insufficient aliyun.com/gpu-{resource}.")}
    }
    declared = {"unhealthy-gpu-a": "1"} if lost == 12 else {}
    answer = explain_pod(subject(reported), cluster(*objects, unhealthy=declared), ())
    shown = [card for card in answer["nodes"][0]["cards"] if not card["reason"]]

    assert [(one["kind"], one["message"]) for one in answer["causes"]] == [(kinds.IN_SUM, text)]
    assert answer["fits"] == []
    assert ["".join(one["name"] for one in card.get("roomIfEnded", ())) for card in shown] == [ended] * len(shown)


def test_each_sum_that_is_too_small_is_named() -> None:
    """A resource that is not ours is a kind of its own. Pods are named only if they make room in each sum, and at most ten."""
    both = (offering(node("a", 15_079, slots=8), slot=0, mem=3), pod("f", 3, "a", limits={"cpu": "8"}))
    found = causes(pod(limits=SLOT | {"cpu": "1"}), offering(both[0], slot=1), pod("g", 0, "a", limits=SLOT), both[1])
    many = causes(pod(units=14), node("a", 14), *(pod(f"f{at:02}", 1, "a") for at in range(12)))
    absent = causes(pod(limits=SLOT), of_the_original(node()))

    assert {kind: one["message"] for kind, one in found.items()} == {
        kinds.IN_SUM: f"{SUM.format(1, 1, 'slot', 1)}{FEWER.format(8)}; the end of team/g (1) makes room; "
        f"{SUM.format(3, 3, 'mem', 3)}{FEWER.format(15_079)}",
        kinds.RESOURCES: "Insufficient cpu",
    }
    assert many[kinds.IN_SUM]["message"].endswith("team/f09 (1), and 2 more makes room")
    assert {kind: one["message"] for kind, one in absent.items()} == {
        kinds.RESOURCES: "Insufficient aliyun.com/gpu-slot"
    }


def test_a_slot_alone_is_named_as_such() -> None:
    """The extender refuses it in slots mode, and no node of the other modes need offer slots."""
    alone = pod(units=0, limits=SLOT)
    found = [
        causes(alone, one) for one in (node("a", 15_079, slots=8, unhealthy="lost"), node(), node("a", amounts=SLOT))
    ]

    assert [{*one} for one in found] == [{kinds.SLOT_MISSING}, {kinds.SLOT_MISSING}, {kinds.HAS_ROOM}]
    assert "aliyun.com/gpu-slot alone" in found[0][kinds.SLOT_MISSING]["means"]
    assert {*causes(alone | {"spec": alone["spec"] | {"nodeName": "a"}}, node())} == {kinds.SLOT_MISSING}


ALL = "nodes are available"


@pytest.mark.parametrize(
    ("text", "nodes", "reasons"),
    [
        ("", 0, []),
        (f"0/3 {ALL}", 3, []),
        (
            f"0/3 {ALL}: 1 node(s) had untolerated taint {{a.b/c: d}}, 2 Insufficient cpu. preemption: 0/3 {ALL}: 1 Preemption is "
            "not helpful for scheduling, 2 No preemption victims found for incoming pod.",
            3,
            [("node(s) had untolerated taint {a.b/c: d}", 1), ("Insufficient cpu", 2)],
        ),
        ("pod has unbound PersistentVolumeClaims", 0, [("pod has unbound PersistentVolumeClaims", None)]),
        (f'0/2 {ALL}: claim "x" not found. preemption: 0/2 {ALL}: 2 x', 2, [('claim "x" not found', None)]),
        (f"0/1 {ALL}: 1 no claims. still not schedulable, preemption: 0/1 {ALL}", 1, [("no claims", 1)]),
        (f"(combined from similar events): 0/1 {ALL}: 1 Too many pods.", 1, [("Too many pods", 1)]),
        (f"0/3 {ALL}: 3 a, b and c, 1 two, but, 2commas.", 3, [("a, b and c", 3), ("two, but, 2commas", 1)]),
        (f"0/3 {ALL}: 1 x, y.\n", 3, [("x, y", 1)]),
        (f"0/3 {ALL}: pod has unbound x. not found", 3, [("pod has unbound x", None)]),
    ],
)
def test_reasons_have_their_nodes(text: str, nodes: int, reasons: list[tuple[str, int | None]]) -> None:
    """In kube-scheduler's grammar; any other text is a reason about the pod."""
    answer = answer_in(text)

    assert (answer.nodes, [tuple(one) for one in answer.reasons]) == (nodes, reasons)


def test_nodes_without_a_reason_were_not_looked_at() -> None:
    """None, if a reason is about the pod or several are about one node."""
    texts = ("0/9 nodes are available: 2 a.", "0/1 nodes are available: 1 a, 1 b.", "0/9 nodes are available: gone.")

    assert [answer_in(text).unnamed for text in texts] == [7, 0, 0]


KINDS = {
    CARDS: ["Insufficient aliyun.com/gpu-mem", "Insufficient aliyun.com/gpu-slot", wire.REASON_NO_CARD_FITS],
    kinds.RESOURCES: [
        "Insufficient nvidia.com/gpu", "Insufficient hugepages-2Mi", "Insufficient ephemeral-storage", "Too many pods",
    ],
    kinds.CORDONED: ["node(s) were unschedulable"],
    kinds.NODE_STATE: [
        "node(s) had untolerated taint {node.kubernetes.io/not-ready: }",
        "node(s) had untolerated taint {node.cloudprovider.kubernetes.io/uninitialized: true}",
    ],
    kinds.TAINT: [
        "node(s) had untolerated taint(s)", "node(s) had untolerated taint {gpu: x}",
        "node(s) had taints that the pod didn't tolerate",
    ],
    kinds.NODE_SELECTOR: [
        "node(s) didn't match Pod's node affinity/selector", "node(s) didn't satisfy plugin(s) [NodeAffinity] simultaneously",
        "node(s) didn't match the requested node name", "node(s) didn't match scheduler-enforced node affinity",
    ],
    kinds.ANTI_AFFINITY: [
        "node(s) didn't match pod anti-affinity rules", "node(s) didn't satisfy existing pods anti-affinity rules",
    ],
    kinds.POD_AFFINITY: ["node(s) didn't match pod affinity rules"],
    kinds.SPREAD: ["node(s) didn't match pod topology spread constraints (missing required label)"],
    kinds.HOST_PORT: ["node(s) didn't have free ports for the requested pod ports"],
    kinds.VOLUMES: [
        'persistentvolumeclaim "x" not found', "pod has unbound immediate PersistentVolumeClaims",
        "node(s) had volume node affinity conflict", "node(s) didn't match PersistentVolume's node affinity",
        "node(s) had no available volume zone", "node(s) exceed max volume count", "node(s) did not have enough free storage",
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", "node(s) had no available disk",
        "ebs.csi.aws.com CSI driver is not installed on the node", 'looking up PVC team/x: persistentvolumeclaims "x" not found',
    ],
    kinds.CLAIMS: [
        "cannot allocate all claims", 'pod "team/p": ResourceClaim not created yet', 'resourceclaim "x" is being deleted',
    ],
    kinds.SCHEDULER: [
        "waiting for minCount pods from a gang to appear in scheduling queue", "optimistic locking failed",
    ],
    kinds.GATED: ["waiting for scheduling gates: [a b]"],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_reason_has_its_kind(kind: str) -> None:
    """By the words of Kubernetes 1.19 to 1.36; one that is not known is the scheduler's own."""
    found = {text: answer_in(f"0/1 nodes are available: 1 {text}.").reasons[0].kind for text in KINDS[kind]}

    assert found == dict.fromkeys(KINDS[kind], kind)
