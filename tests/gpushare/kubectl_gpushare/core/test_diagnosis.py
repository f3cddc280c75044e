"""Promises of ``doctor``: each fault has the next command, and a cluster that is well has none."""

from __future__ import annotations

import json
import shlex
from typing import Any

import msgspec
import pytest

from gpushare.kubectl_gpushare import gpushare_arguments
from gpushare.kubectl_gpushare.core.answer_text import diagnosis_text
from gpushare.kubectl_gpushare.core.diagnosis import Installation, SeenPods, diagnosis, not_asked
from gpushare.kubectl_inspect import inspect_arguments
from gpushare.kubectl_inspect.core.card_report import LIMITS, UNHEALTHY, Finding
from gpushare.manifests import Pod, ReportedNode
from gpushare.setup.core.faults import Fault
from tests.gpushare.kubectl_gpushare.small_cluster import Object, node, of_the_original, offering, pod, report

LABEL = {"gpushare": "true"}
NOW = 1800.0
STALE = "node a: GPUShareHealthy is True, and its device plugin has not written it for half an hour"
EXTENDER = {"spec": {"replicas": 1}, "status": {"readyReplicas": 1}}
SELECTOR = {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux", "gpushare": "true"}}}}
PLUGIN = {"spec": SELECTOR, "status": {"desiredNumberScheduled": 1, "numberReady": 1}}


# Of kubectl's own, those that are printed here.
VERBS = ("describe", "get", "label", "logs", "scale", "apply")


def is_command(text: str) -> bool:
    """Is each part a command that kubectl takes, with arguments that its plugin of ours takes?"""
    for part in text.split(";"):
        program, *words = shlex.split(part, comments=True)
        assert program == "kubectl"
        if words[0] == "gpushare":
            gpushare_arguments.parse("kubectl-gpushare", words[1:])
        elif words[:2] == ["inspect", "gpushare"]:
            inspect_arguments.parse("kubectl-inspect-gpushare", words[2:])
        else:
            assert (words[2] if words[0] == "-n" else words[0]) in VERBS
    return True


def found(
    *objects: Object,
    installed: Installation | None = None,
    findings: tuple[Finding, ...] = (),
    faults: tuple[Fault, ...] = (),
) -> list[tuple[str, str]]:
    """The faults of these nodes and pods, and the next command."""
    nodes = [one for one in objects if "containers" not in one.get("spec", {})]
    seen = SeenPods()
    for one in objects:
        if one not in nodes:
            seen.take(msgspec.convert(one, Pod))
    converted = [msgspec.convert(one, ReportedNode) for one in nodes]
    answer = diagnosis(installed, faults, findings, converted, seen, NOW, [])
    given = {fault.fix for fault in faults}
    for one in answer["findings"]:
        assert one["do"] in given or is_command(one["do"]), one["do"]
    return [(one["what"], one["do"]) for one in answer["findings"]]


def with_condition(item: Object, status: str, heartbeat: str | None = "1970-01-01T00:00:00Z", **more: str) -> Object:
    """The node with the condition of its device plugin, or another."""
    condition = {"type": "GPUShareHealthy", "status": status, "lastHeartbeatTime": heartbeat} | more
    item["status"] = item.get("status", {}) | {"conditions": [condition]}
    return item


def test_each_finding_has_the_next_command() -> None:
    """Those of the objects first, then nodes, then pods; the document has its version and what is hidden."""
    bare = {"metadata": {"name": "s", "labels": LABEL}}
    lines = (Finding("over-booked", "a"), Finding("not started", "p", "team"), Finding("no limit", "a", kind=LIMITS))
    every = found(bare, findings=lines, faults=(Fault("a pod bypasses it", "name another"),))
    answer = diagnosis(None, [Fault("no extender", "install it")], (), [], SeenPods(), NOW, ["x"])

    assert every == [
        ("a pod bypasses it", "name another"),
        (
            "node s has the label gpushare=true and reports no aliyun.com/gpu-mem",
            "kubectl gpushare events node/s; kubectl -n kube-system describe daemonset/gpushare-device-plugin-ds",
        ),
        ("over-booked", "kubectl inspect gpushare -d a"),
        ("not started", "kubectl gpushare explain pod/p -n team"),
        ("no limit", "kubectl gpushare top pods -A; kubectl gpushare events -A  # docs/memory-limit.md"),
    ]
    assert diagnosis_text(answer) == "no extender\n  → install it\n"
    assert (answer["apiVersion"], answer["kind"]) == ("kubectl.gpushare.aliyun.com/v1", "Diagnosis")
    assert answer["hidden"] == ["x"]


def test_a_node_that_shares_no_card_is_told_by_its_events() -> None:
    """As with all its cards in MIG mode: the table of cards would be empty."""
    item = node(labels=LABEL)
    item["metadata"]["annotations"]["aliyun.com/gpushare-cards"] = json.dumps(
        {"v": 1, "mode": "ids", "unit": "GiB", "boot": "b", "cards": []}
    )
    item["status"] = {}
    finding = found(with_condition(item, "False", reason="NoCards", message="no card is shared"))

    assert finding == [
        ("node a: GPUShareHealthy is False (NoCards): no card is shared", "kubectl gpushare events node/a"),
    ]


def test_a_cluster_that_is_well_has_no_finding() -> None:
    """A node without cards needs no label."""
    nodes = (with_condition(node(labels=LABEL | {"kubernetes.io/os": "linux"}), "True"), {"metadata": {"name": "cpu"}})

    assert found(*nodes, installed=Installation(EXTENDER, PLUGIN, 1)) == []
    assert diagnosis_text({"findings": []}) == "good: nothing that can be seen is wrong\n"


def test_programs_that_run_without_objects_are_no_fault() -> None:
    """If their device plugins write; else nothing is installed. One object without the other is a fault."""
    alive, bare = with_condition(node(), "True"), node()
    names = (
        "deployment gpushare-schd-extender is not in kube-system",
        "daemonset gpushare-device-plugin-ds is not in kube-system",
    )

    assert found(alive, installed=Installation()) == []
    assert tuple(what for what, _ in found(bare, installed=Installation())) == names
    assert [what for what, _ in found(alive, installed=Installation(None, {"status": PLUGIN["status"]}))] == [names[0]]


def test_an_extender_that_cannot_be_reached_is_a_fault() -> None:
    """It is scaled to none, or no ready pod is behind its Service; without a Service none is needed."""
    healthy = with_condition(node(labels=LABEL | {"kubernetes.io/os": "linux"}), "True")
    none = Installation({"spec": {"replicas": 0}, "status": {}}, PLUGIN, 0)
    behind = [found(healthy, installed=Installation(EXTENDER, PLUGIN, backends)) for backends in (None, 0)]

    assert found(healthy, installed=none) == [
        (
            "deployment gpushare-schd-extender is scaled to 0: no pod that waits gets a card",
            "kubectl -n kube-system scale deployment/gpushare-schd-extender --replicas=1",
        )
    ]
    assert behind[0] == []
    assert [do for _, do in behind[1]] == ["kubectl -n kube-system describe service/gpushare-schd-extender"]


def test_a_node_that_is_not_ready_is_the_fault_of_that_node() -> None:
    """And nothing else of it, with the time and the kubelet's reason; a node without cards is not ours."""
    unready = {"type": "Ready", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R", "message": "gone"}
    cards = with_condition(node(), "Unknown", **unready)
    labelled, plain = {"metadata": {"name": "b", "labels": LABEL}}, {"metadata": {"name": "c"}}
    others = [with_condition(one, "False", **unready) for one in (labelled, plain)]

    assert found(cards, *others) == [
        ("node a is NotReady since 2026-01-01T00:00:00Z (R: gone)", "kubectl describe node a"),
        ("node b is NotReady since 2026-01-01T00:00:00Z (R: gone)", "kubectl describe node b"),
    ]
    assert found(with_condition(node(), "True", **unready)) == []


def test_a_label_that_a_node_with_cards_lacks_is_a_fault() -> None:
    """The labels are those by which the DaemonSet chooses its nodes; a plugin of another DaemonSet may serve the node."""
    without = node(labels={"kubernetes.io/os": "linux"})
    plugin = pod("plugin-x", 0, "a")
    plugin["metadata"]["labels"] = {"app.kubernetes.io/component": "device-plugin"}

    assert found(without, installed=Installation(EXTENDER, PLUGIN)) == [
        (
            "node a has cards and lacks the label gpushare=true: no device plugin serves it",
            "kubectl label node a gpushare=true --overwrite",
        )
    ]
    assert found(without, installed=Installation(EXTENDER, {"status": PLUGIN["status"]})) == []
    assert found(without, plugin, installed=Installation(EXTENDER, PLUGIN)) == []


def test_cards_that_a_node_does_not_offer_are_a_fault() -> None:
    """The kubelet offers none for minutes after the device plugin is gone. Unhealthy cards are no such fault."""
    there, unhealthy = (offering(one, mem=0) for one in (node(), node("s", 14, unhealthy="lost")))
    plugin = pod("plugin-x", 0, "a")
    plugin["metadata"]["labels"] = {"app.kubernetes.io/component": "device-plugin"}

    assert found(there, unhealthy, node("healthy"), plugin) == [
        (
            "node a has cards and offers none of them: its device plugin is away or waits",
            "kubectl gpushare events node/a; kubectl -n team logs plugin-x",
        )
    ]


@pytest.mark.parametrize(
    ("status", "heartbeat", "whats"),
    [
        ("True", "1970-01-01T00:00:00Z", []),
        ("False", "1970-01-01T00:00:00Z", ["node a: GPUShareHealthy is False (CardsUnhealthy): card 0 is unhealthy"]),
        (
            "Unknown",
            "1970-01-01T00:00:00Z",
            ["node a: GPUShareHealthy is Unknown (CardsUnhealthy): card 0 is unhealthy"],
        ),
        ("True", "1969-12-31T00:00:00Z", [STALE]),
        ("True", None, [STALE]),
    ],
)
def test_condition_of_a_node_is_a_fault(status: str, heartbeat: str | None, whats: list[str]) -> None:
    """One that is not True, or that its plugin has left behind."""
    item = with_condition(node(), status, heartbeat, reason="CardsUnhealthy", message="card 0 is unhealthy")

    card, other = (Finding(f"card of {name}", name, kind=UNHEALTHY) for name in "ab")
    every = found({"metadata": {"name": "without"}}, item, findings=(card, other))

    assert [what for what, _ in found({"metadata": {"name": "without"}}, item)] == whats
    # The condition names the cards that are unhealthy.
    assert [what for what, _ in every] == [*whats, *([] if status == "False" else ["card of a"]), "card of b"]


def waits(name: str, message: str = "", born: str | None = "1970-01-01T00:10:00Z", **spec: Any) -> Object:
    """A pod that waits for a card."""
    one = pod(name, conditions=report(message) if message else [], **spec)
    one["metadata"]["creationTimestamp"] = born
    return one


def test_pods_that_wait_are_faults() -> None:
    """Those with the same reasons together; one that has come only now may get its card yet."""
    full = "0/{} nodes are available: {} Insufficient aliyun.com/gpu-mem."
    late = waits("late", "x", "1970-01-01T00:29:55Z")
    pods = (
        waits("b", full.format(3, 2)),
        waits("a", full.format(4, 1), "1970-01-01T00:05:00Z"),
        late,
        waits("c", born=None),
    )

    assert found(*pods, waits("d", schedulingGates=[{"name": "g"}])) == [
        (
            "2 pods wait for a card, the first is team/a: 1 Insufficient aliyun.com/gpu-mem",
            "kubectl gpushare explain pod/a -n team",
        ),
        ("a pod waits for a card: team/c: no scheduler has reported on it", "kubectl gpushare explain pod/c -n team"),
        ("a pod waits for a card: team/d; it has scheduling gates", "kubectl gpushare explain pod/d -n team"),
    ]
    many = found(*(waits(f"p{at}", f"reason {at}") for at in range(7)))
    assert (len(many), many[-1][0]) == (6, "2 more pods wait for other reasons")


def test_a_wish_for_a_card_that_is_nowhere_is_named() -> None:
    """By the wish, with the models that there are; a wish that a card meets is no reason. Without known cards none is."""
    waiting = waits("a", "0/1 nodes are available: 1 no GPU of the node is one that the pod wishes for.")
    met = waits("b", "x")
    waiting["metadata"]["annotations"] = {"gpushare.aliyun.com/card-model": "A100"}
    met["metadata"]["annotations"] = {"gpushare.aliyun.com/card-model": "T4"}
    wish = "no card of the cluster is one that it wishes for (card-model=A100); the models are: "

    assert found(node(), waiting, met) == [
        (f"a pod waits for a card: team/a: {wish}Tesla T4", "kubectl gpushare explain pod/a -n team"),
        ("a pod waits for a card: team/b: x", "kubectl gpushare explain pod/b -n team"),
    ]
    assert found(of_the_original(node()), waiting)[0][0].endswith(f"{wish}not published")
    assert wish not in found(waiting)[0][0]


def test_pods_of_schedulers_that_ask_no_extender_are_seen() -> None:
    """JupyterHub has such a scheduler."""
    seen = SeenPods()
    for name, scheduler in (("a", "hub-user-scheduler"), ("b", "default-scheduler")):
        seen.take(msgspec.convert(pod(name, 4, "n", schedulerName=scheduler), Pod))

    assert [one.metadata.name for one in seen.bypassing] == ["a"]


def test_overuse_on_a_node_is_a_fault() -> None:
    """With the command that names the pods."""
    item = {"metadata": {"name": "a", "annotations": {"aliyun.com/gpushare-overuse": '[["u",0,1,2],["v",0,1,2]]'}}}

    assert found(item) == [("node a: 2 pods use more of a card than they booked", "kubectl gpushare top pods -A")]
    item["metadata"]["annotations"] = {"aliyun.com/gpushare-overuse": '[["u",0,1,2]]'}
    assert found(item)[0][0] == "node a: 1 pod uses more of a card than it booked"


@pytest.mark.parametrize(
    ("by", "scheduler", "card", "is_fault"),
    [
        ("default-scheduler", "default-scheduler", "device plugin", True),
        ("default-scheduler", "default-scheduler", "", True),
        ("default-scheduler", "default-scheduler", "extender or device plugin", False),
        ("gpushare", "default-scheduler", "extender", False),
        ("nodeName", "", "device plugin", False),
        ("", "", "", False),
    ],
)
def test_a_scheduler_that_bound_without_the_extender(by: str, scheduler: str, card: str, is_fault: bool) -> None:
    """Only if that is certain, with the next commands."""
    fault = not_asked({"boundBy": by, "scheduler": scheduler, "cardBy": card}, "team", "p")

    assert (fault is not None) == is_fault
    assert fault is None or is_command(fault.fix)
