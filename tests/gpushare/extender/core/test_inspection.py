"""Promises of gpushare.extender.core.inspection."""

from __future__ import annotations

from gpushare.extender.core.inspection import describe_node, inspect_node, nodes_with_cards
from gpushare.model.device import Device
from gpushare.model.node import Booking, lay_out
from gpushare.model.placement import Snapshot

BOOKINGS = [
    Booking("2", "default", "b", 3, ((1, 3),)),
    Booking("1", "default", "a", 4, ((0, 1), (1, 3))),
    Booking("3", "default", "lost", 2, ()),
]
CLUSTER = Snapshot(
    {
        "z": lay_out("z", (Device(0, 14), Device(1, 10)), BOOKINGS),
        "a": lay_out("a", (Device(0, 8),), []),
        "cpu": lay_out("cpu", (), []),
    }
)
Z = {
    "name": "z",
    "totalGPU": 24,
    "usedGPU": 7,
    "devs": [
        {"id": 0, "totalGPU": 14, "usedGPU": 1, "pods": [{"name": "a", "namespace": "default", "usedGPU": 1}]},
        {
            "id": 1,
            "totalGPU": 10,
            "usedGPU": 6,
            "pods": [
                {"name": "a", "namespace": "default", "usedGPU": 3},
                {"name": "b", "namespace": "default", "usedGPU": 3},
            ],
        },
    ],
}
A = {"name": "a", "totalGPU": 8, "usedGPU": 0, "devs": [{"id": 0, "totalGPU": 8, "usedGPU": 0, "pods": []}]}


def test_all_nodes_with_cards_are_listed_by_name() -> None:
    """Nodes without cards are left out, as in the original."""
    assert [describe_node(node) for node in nodes_with_cards(CLUSTER)] == [A, Z]


def test_one_node_is_described_alone() -> None:
    """The inspection of one node describes it as the inspection of all nodes does."""
    assert inspect_node(CLUSTER, "z") == {"nodes": [Z]}


def test_an_unknown_node_is_an_error_that_names_it() -> None:
    """The original closes the connection (defect D19)."""
    assert inspect_node(CLUSTER, "nope") == {"nodes": [], "error": "node nope is not known to the extender"}


def test_slots_mode_shows_mebibytes_with_the_originals_keys() -> None:
    """Readers of /inspect know no slots: they see the exact amounts."""
    node = lay_out("s", (Device(0, 81920, slots=2),), [Booking("1", "default", "a", 8138, ((0, 8138),))])
    card = {"id": 0, "totalGPU": 81920, "usedGPU": 8138}
    pods = [{"name": "a", "namespace": "default", "usedGPU": 8138}]

    assert inspect_node(Snapshot({"s": node}), "s") == {
        "nodes": [{"name": "s", "totalGPU": 81920, "usedGPU": 8138, "devs": [{**card, "pods": pods}]}]
    }
