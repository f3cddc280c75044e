"""Promises of gpushare.extender.filter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpushare import wire
from gpushare.extender.filter import filter_nodes
from gpushare.model.device import Device
from gpushare.model.node import lay_out
from gpushare.model.snapshot import Snapshot

FULL = lay_out("full", (Device(0, 14, 10), Device(1, 14, 9)), [])
FREE = lay_out("free", (Device(0, 14),), [])
SMALL = lay_out("small", (Device(0, 4),), [])
SICK = lay_out("sick", (Device(0, 14, healthy=False),), [])
PLAIN = lay_out("plain", (), [])
CLUSTER = Snapshot({node.name: node for node in (FULL, FREE, SMALL, SICK, PLAIN)})


def test_a_node_fits_when_one_card_holds_the_request() -> None:
    """Nine units free in total on two cards do not hold six on one."""
    result = filter_nodes(6, ["full", "free"], CLUSTER)

    assert (result.fitting, result.failed, result.unresolvable) == (["free"], {"full": wire.REASON_NO_CARD_FITS}, {})


def test_a_request_as_large_as_the_free_card_fits() -> None:
    """To the last unit, and not one beyond."""
    assert filter_nodes(14, ["free"], CLUSTER).fitting == ["free"]
    assert filter_nodes(5, ["full"], CLUSTER).fitting == ["full"]
    assert filter_nodes(15, ["free"], CLUSTER).fitting == []


def test_what_eviction_cannot_cure_is_unresolvable() -> None:
    """No large enough card, no healthy card, no card, no node: preemption must not kill pods there."""
    result = filter_nodes(6, ["small", "sick", "plain", "gone"], CLUSTER)

    assert (result.fitting, result.failed) == ([], {})
    assert result.unresolvable == {
        "small": wire.REASON_NO_CARD_LARGE_ENOUGH,
        "sick": wire.REASON_ALL_CARDS_UNHEALTHY,
        "plain": wire.REASON_NOT_A_GPU_NODE,
        "gone": wire.REASON_UNKNOWN_NODE,
    }


def test_a_pod_that_asks_for_nothing_fits_everywhere() -> None:
    """Also on nodes without cards and on nodes that we do not know."""
    assert filter_nodes(0, ["plain", "gone", "free"], CLUSTER).fitting == ["plain", "gone", "free"]


@given(st.lists(st.sampled_from(["full", "free", "small", "sick", "plain", "gone"]), max_size=12), st.integers(0, 20))
def test_every_name_comes_back_exactly_once(names: list[str], request: int) -> None:
    """In one of the three answers, in the order asked; nothing is invented."""
    result = filter_nodes(request, names, CLUSTER)
    answered = [*result.fitting, *result.failed, *result.unresolvable]

    assert sorted(answered) == sorted(set(names))
    assert result.fitting == [name for name in dict.fromkeys(names) if name in result.fitting]


def test_reasons_name_no_node() -> None:
    """The scheduler counts equal texts; a node's name in them defeats that."""
    result = filter_nodes(6, list(CLUSTER.nodes), CLUSTER)

    for name, reason in {**result.failed, **result.unresolvable}.items():
        assert name not in reason.split()
