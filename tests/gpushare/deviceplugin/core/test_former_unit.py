"""Promises of gpushare.deviceplugin.core.former_unit."""

from __future__ import annotations

import msgspec
import pytest

from gpushare import wire
from gpushare.deviceplugin.core.announced_cards import PhysicalCard, describe_cards
from gpushare.deviceplugin.core.former_unit import advice, pods_of_other_units, unit_before
from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.manifests import Node, NodeStatus, ObjectMeta
from gpushare.model.cards import NodeCards, encode_cards
from gpushare.model.quantity import MemoryUnit
from tests.gpushare.deviceplugin.core.bound_pod import bound_pod

GIB, MIB, QUARTER = MemoryUnit(1024), MemoryUnit(1), MemoryUnit(256)


def cards_in(unit: MemoryUnit, *, slots: int = 0) -> NodeCards:
    """A T4 and a GTX 1080 Ti, announced in this unit."""
    physical = [PhysicalCard(0, "GPU-aaaaaaaa", "T4", 15360), PhysicalCard(1, "GPU-bbbbbbbb", "1080 Ti", 11264)]
    return describe_cards(physical, unit, "boot", slots=slots)


def node_of(cards: NodeCards | None, memory: int | None = None) -> Node:
    """The node as a plugin left it; ``memory`` is another sum than that of the cards."""
    total = sum(card.units for card in cards.cards) if cards is not None else 0
    annotations = {} if cards is None else {wire.ANNOTATION_CARDS: encode_cards(cards)}
    shown = total if memory is None else memory
    return Node(ObjectMeta("n", annotations=annotations), NodeStatus(capacity={wire.RESOURCE_MEMORY: shown}))


def pod(name: str, size: int | None, *, index: str | None = "0", phase: str = "Running") -> KeptPod:
    """A pod of three units; ``size`` is how many its card had when it was bound."""
    written = {} if size is None else {wire.ANNOTATION_DEVICE_UNITS: str(size)}
    return bound_pod(name, 3, index, phase, **written)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (node_of(cards_in(GIB)), GIB),
        (node_of(cards_in(QUARTER)), QUARTER),
        (node_of(cards_in(MIB, slots=4)), MIB),
        (node_of(cards_in(GIB), memory=0), GIB),
        (node_of(cards_in(GIB), memory=26624), None),
        (node_of(None), None),
        (node_of(msgspec.structs.replace(cards_in(GIB), unit="ells")), None),
    ],
    ids=["GiB", "256MiB", "slots", "no plugin serves it", "the Go plugin's MiB", "never ours", "no unit"],
)
def test_the_former_unit_is_that_of_our_last_plugin(node: Node, expected: MemoryUnit | None) -> None:
    """An annotation that the node's sum contradicts was left behind by an earlier plugin."""
    assert unit_before(node) == expected


@pytest.mark.parametrize(
    ("now", "before", "size", "is_other"),
    [
        (MIB, GIB, 15, True),
        (GIB, MIB, 15360, True),
        (GIB, QUARTER, 60, True),
        (QUARTER, GIB, 15, True),
        (MIB, QUARTER, 60, True),
        (GIB, GIB, 15, False),
        (QUARTER, QUARTER, 58, False),
        (MIB, None, 15, True),
        (GIB, None, 15360, True),
        (QUARTER, None, 15, True),
        (QUARTER, None, 60, False),
        (GIB, None, 13, False),
        (MIB, None, None, False),
        (MIB, GIB, None, True),
    ],
)
def test_pods_of_another_unit_are_found(
    now: MemoryUnit, before: MemoryUnit | None, size: int | None, is_other: bool
) -> None:
    """In every direction, by our last plugin's unit or by the card's size; a mean size of the Go extender is no other unit."""
    found = pods_of_other_units([pod("a", size)], cards_in(now), before)

    assert bool(found) is is_other


def test_a_pod_that_has_no_card_yet_is_not_waited_for() -> None:
    """A pod that was not given a card yet has no memory of the former unit."""
    found = pods_of_other_units([pod("a", None, index=None, phase="Pending"), pod("b", 15)], cards_in(MIB), GIB)

    assert [one.metadata.uid for one in found] == ["b"]


def test_a_started_pod_without_a_readable_card_is_waited_for() -> None:
    """A started pod without a readable card is waited for, because its containers hold memory on some card."""
    started = (pod("a", 15, index="x"),)

    assert pods_of_other_units(started, cards_in(MIB), GIB) == started
    assert pods_of_other_units(started, cards_in(MIB), None) == ()


@pytest.mark.parametrize(
    ("count", "before", "expected"),
    [
        (1, GIB, ["in GiB (1: d/p0)", "not served in MiB", "Drain", "--memory-unit"]),
        (5, GIB, ["(5: d/p0, d/p1, d/p2, d/p3, d/p4)"]),
        (7, None, ["in another unit (7: d/p0, d/p1, d/p2, d/p3, d/p4 and 2 more)"]),
        (0, GIB, []),
    ],
)
def test_the_advice_names_the_pods_and_the_ways_out(count: int, before: MemoryUnit | None, expected: list[str]) -> None:
    """The reason names five pods at most, both units, and what to do; without pods there is none."""
    text = advice([pod(f"p{number}", 15) for number in range(count)], "MiB", before)

    assert bool(text) is bool(expected)
    assert [words for words in expected if words not in text] == []
