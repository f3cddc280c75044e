"""Promises of ``--check``: each thing that is wrong has a line, and nothing else has."""

from __future__ import annotations

from typing import Any

import pytest

from gpushare.kubectl_inspect.core.card_report import bound_pod, findings, nodes_of_pods, report
from gpushare.manifests import Node, Pod
from tests.gpushare.kubectl_inspect.core.test_card_report import cards, node, on, pod

# When the pods below were given their cards.
SECONDS = 1_790_000_000
ASSUMED = {"ALIYUN_COM_GPU_MEM_ASSUME_TIME": f"{SECONDS}000000000"}


def found(one: Node, *pods: Pod, later: float = 0) -> list[str]:
    """The findings on a node, so many seconds after its pods were given their cards."""
    bound = [each for each in map(bound_pod, pods) if each is not None]
    reports, problems = report([one], bound)
    return findings([one], bound, reports, problems, SECONDS + later, 300.0)


DESCRIBED, ONE_SLOT = node(annotations=cards(14, 14)), node(annotations=cards(14, 14, slots=1))
NEW = pod("b", "14", on("1") | ASSUMED, status={"phase": "Pending"})
# A node of the original's plugin has nothing else to show an unhealthy card by; no card is over-booked by that.
LESS = node(units="30", allocatable={"aliyun.com/gpu-mem": "15", "aliyun.com/gpu-count": "2"})
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
        (LESS, [pod("a", "12", on("0"))], 0, [f"{OFFERED} 3"]),
        (LESS, [pod("a", "16", on("0"))], 0, ["node n: card 0 is over-booked: 16 of 15 units", f"{OFFERED} 0"]),
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
