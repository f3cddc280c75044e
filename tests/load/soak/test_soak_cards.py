"""The count of the cards of a soak: a pod with too much, without a card, or gone."""

from __future__ import annotations

from typing import Any

from load.simulated.simulated_world import Node
from load.soak.soak_churn import SeenCards


def a_pod(name: str, units: int = 8, card: str | None = "0", node: str = "n1") -> dict[str, Any]:
    """Bound, unless ``node`` is empty."""
    return {
        "metadata": {"name": name, "annotations": {} if card is None else {"ALIYUN_COM_GPU_MEM_IDX": card}},
        "spec": {"nodeName": node, "containers": [{"resources": {"limits": {"aliyun.com/gpu-mem": str(units)}}}]},
    }


def cards() -> SeenCards:
    """A node of two cards of 16 units."""
    return SeenCards([Node("n1", 2, 16)])


def test_full_card_is_not_over_booked_and_one_unit_more_is() -> None:
    """Counted once, however often the pod is seen."""
    found = cards()
    for name in ("a", "b"):
        found.see("MODIFIED", a_pod(name))
    assert found.over_booked == 0

    for _ in range(3):
        found.see("MODIFIED", a_pod("c", units=1))
    assert (found.over_booked, found.without_a_card) == (1, 0)


def test_a_pod_that_is_gone_leaves_its_room() -> None:
    """A deleted pod leaves its room; a pod that is deleted unbound leaves nothing, because it had no card."""
    found = cards()
    found.see("ADDED", a_pod("a", units=16))
    found.see("DELETED", a_pod("waits", node=""))
    found.see("DELETED", a_pod("a", units=16))
    found.see("MODIFIED", a_pod("b", units=16))
    assert found.over_booked == 0


def test_a_pod_on_a_node_without_a_card_is_counted() -> None:
    """A bound pod counts if its card is missing, is not one of the node's, or is no number; a pod that waits does not count."""
    found = cards()
    for number, card in enumerate((None, "2", "-1", "x")):
        found.see("MODIFIED", a_pod(f"p{number}", card=card))
    found.see("ADDED", a_pod("waits", card=None, node=""))
    assert (found.over_booked, found.without_a_card) == (0, 4)
