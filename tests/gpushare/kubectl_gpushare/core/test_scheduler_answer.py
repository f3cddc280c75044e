"""Promises of a scheduler's answer: each reason with its number of nodes, and the kind of waiting that it is."""

from __future__ import annotations

import pytest

from gpushare import wire
from gpushare.kubectl_gpushare.core import waiting_kinds as kinds
from gpushare.kubectl_gpushare.core.waiting_kinds import CARDS, answer_in


@pytest.mark.parametrize(
    ("text", "nodes", "reasons"),
    [
        ("", 0, []),
        ("0/3 nodes are available", 3, []),
        ("0/1 nodes are available: 1 Too many pods.", 1, [("Too many pods", 1)]),
        (
            "0/3 nodes are available: 1 node(s) had untolerated taint {a.b/c: d}, 2 Insufficient cpu. preemption: 0/3 nodes are "
            "available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod.",
            3,
            [("node(s) had untolerated taint {a.b/c: d}", 1), ("Insufficient cpu", 2)],
        ),
        (
            "pod has unbound immediate PersistentVolumeClaims",
            0,
            [("pod has unbound immediate PersistentVolumeClaims", None)],
        ),
        (
            '0/2 nodes are available: persistentvolumeclaim "x" not found. preemption: 0/2 nodes are available: 2 x',
            2,
            [('persistentvolumeclaim "x" not found', None)],
        ),
        (
            "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available",
            1,
            [("cannot allocate all claims", 1)],
        ),
        ("(combined from similar events): 0/1 nodes are available: 1 Too many pods.", 1, [("Too many pods", 1)]),
        (
            "0/3 nodes are available: 3 a, b and c, 1 two words, but, 2commas.",
            3,
            [("a, b and c", 3), ("two words, but, 2commas", 1)],
        ),
        ("0/3 nodes are available: 1 x, y.\n", 3, [("x, y", 1)]),
        ("0/3 nodes are available: pod has unbound x. not found", 3, [("pod has unbound x", None)]),
        ("pod group not ready: 1 of 3", 0, [("pod group not ready: 1 of 3", None)]),
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
        "Insufficient nvidia.com/gpu",
        "Insufficient hugepages-2Mi",
        "Insufficient ephemeral-storage",
        "Too many pods",
    ],
    kinds.CORDONED: ["node(s) were unschedulable"],
    kinds.NODE_STATE: [
        "node(s) had untolerated taint {node.kubernetes.io/not-ready: }",
        "node(s) had untolerated taint {node.cloudprovider.kubernetes.io/uninitialized: true}",
    ],
    kinds.TAINT: [
        "node(s) had untolerated taint(s)",
        "node(s) had untolerated taint {gpu: x}",
        "node(s) had taints that the pod didn't tolerate",
    ],
    kinds.NODE_SELECTOR: [
        "node(s) didn't match Pod's node affinity/selector",
        "node(s) didn't satisfy plugin(s) [NodeAffinity] simultaneously",
        "node(s) didn't match the requested node name",
        "node(s) didn't match scheduler-enforced node affinity",
    ],
    kinds.ANTI_AFFINITY: [
        "node(s) didn't match pod anti-affinity rules",
        "node(s) didn't satisfy existing pods anti-affinity rules",
    ],
    kinds.POD_AFFINITY: ["node(s) didn't match pod affinity rules"],
    kinds.SPREAD: ["node(s) didn't match pod topology spread constraints (missing required label)"],
    kinds.HOST_PORT: ["node(s) didn't have free ports for the requested pod ports"],
    kinds.VOLUMES: [
        'persistentvolumeclaim "x" not found',
        "pod has unbound immediate PersistentVolumeClaims",
        "node(s) had volume node affinity conflict",
        "node(s) didn't match PersistentVolume's node affinity",
        "node(s) had no available volume zone",
        "node(s) exceed max volume count",
        "node(s) did not have enough free storage",
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        "node(s) had no available disk",
        "ebs.csi.aws.com CSI driver is not installed on the node",
        'looking up PVC team/x: persistentvolumeclaims "x" not found',
    ],
    kinds.CLAIMS: [
        "cannot allocate all claims",
        'pod "team/p": ResourceClaim not created yet',
        'resourceclaim "x" is being deleted',
    ],
    kinds.SCHEDULER: [
        "waiting for minCount pods from a gang to appear in scheduling queue",
        "optimistic locking failed",
    ],
    kinds.GATED: ["waiting for scheduling gates: [a b]"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_reason_has_its_kind(kind: str) -> None:
    """By the words of Kubernetes 1.19 to 1.36; one that is not known is the scheduler's own."""
    found = {text: answer_in(f"0/1 nodes are available: 1 {text}.").reasons[0].kind for text in KINDS[kind]}

    assert found == dict.fromkeys(KINDS[kind], kind)
