"""Promises of gpushare.setup.core.fleet."""

from __future__ import annotations

import msgspec
import pytest

from gpushare.manifests import Node
from gpushare.setup.core.fleet import Plugin, fleet_of
from tests.gpushare.setup.core.fleets import node, on_several, pod


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


def test_a_pods_card_and_binder_are_read() -> None:
    """Cards, units, the binder, and why annotations cannot be read, are there for each pod."""
    seen = [
        pod("a"),
        pod("b", EXTENDER="gpushare/1"),
        pod("c", card="x"),
        pod("e", "3", init="5"),
        on_several({"0": 1, "1": 2}),
    ]
    (found,) = fleet_of([node()], seen)

    assert [(one.shares, one.units, one.app_units, one.is_ours, one.is_started) for one in found.holders] == [
        (((0, 3),), 3, 3, False, True),
        (((0, 3),), 3, 3, True, True),
        ((), 3, 3, False, True),
        (((0, 5),), 5, 3, False, True),
        (((0, 1), (1, 2)), 3, 3, True, True),
    ]
    assert [one.problem is None for one in found.holders] == [True, True, False, True, True]


def test_each_card_has_the_bookings_of_its_pods() -> None:
    """In the node's present unit, also if a pod was bound in another; a node that gets no pods has the reason."""
    seen = node(total="30k")
    (found,) = fleet_of([seen], [pod("a", "2", size="14"), pod("b", "3", None)])

    assert [device.used for device in found.info.devices] == [2048, 0]
    assert (found.info.name, found.info.unplaced) == ("n", 3)
    assert [(one.uid, one.namespace, one.name, one.units, one.card_size) for one in found.info.bookings] == [
        ("a", "d", "a", 2048, 0),
        ("b", "d", "b", 3, 0),
    ]
    (later,) = fleet_of([node(cards=[14, 14], v=2)], [])
    assert later.info.refusal == "the node's GPUs are described by a newer version of gpushare"


def test_a_request_that_is_no_number_is_a_problem() -> None:
    """A pod with an unreadable request is shown with the reason."""
    (found,) = fleet_of([node()], [pod(units="1.5")])

    assert [(one.units, one.problem) for one in found.holders] == [
        (0, "'1.5' is not a whole, non-negative number of units")
    ]
