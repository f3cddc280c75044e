"""Promises of gpushare.extender.core.page_rows."""

from __future__ import annotations

import json

import pytest

from gpushare.extender.core import page_rows as module
from gpushare.extender.core.page_rows import NO_SLOT, OVER_BOOKED, OVERUSED, UNHEALTHY, Card, Overuser, Row, Rows, Sums
from gpushare.model.node import Booking, Device, NodeInfo, lay_out
from gpushare.model.overuse import CardOveruse


def node(name: str, *devices: Device, unplaced: int = 0, refusal: str | None = None) -> NodeInfo:
    """A node with these cards, and perhaps a pod on none of them."""
    pods = [Booking("u", "ns", "p", unplaced, ())] if unplaced else []
    return lay_out(name, devices, pods, refusal)


def followed(*nodes: NodeInfo, rows: Rows | None = None) -> Rows:
    """The rows of these nodes."""
    found = rows or Rows()
    for _ in found.follow(nodes):
        pass
    return found


def test_a_row_has_each_card_in_units() -> None:
    """In the unit of the node, with the place of its model."""
    two = node("n", Device(0, 14, 3, model="T4", unit_mib=1024), Device(2, 10, 10, model="P4", unit_mib=1024))
    rows = followed(two, node("m", Device(0, 14, model="T4", unit_mib=1024)))
    (entry, other) = rows.entries()

    assert rows.models == ["T4", "P4"]
    assert [*entry.row.each_card()] == [Card(0, 3, 14, 0, 0), Card(2, 10, 10, 1, 0)]
    assert json.loads(entry.text) == ["n", 1024, [0, 3, 14, 0, 0, 2, 10, 10, 1, 0], 0, "", [], None]
    assert (entry.models, other.models) == ({0, 1}, {0})
    assert rows.texts() == [entry.text, rows.text_of("m")]


def test_models_that_are_gone_are_forgotten() -> None:
    """A node that names other models each time takes no more places than it has cards; other rows keep theirs."""
    other, rows = node("m", Device(0, 14, model="T4")), Rows()
    for number in range(50):
        followed(other, node("n", Device(0, 14, model=f"X{number}"), Device(1, 14, model="")), rows=rows)

    # A new model is there before the one that it replaces is gone.
    assert len(rows.models) <= 4
    assert [[rows.models[card.model] for card in one.row.each_card()] for one in rows.entries()] == [
        ["T4"],
        ["X49", ""],
    ]


@pytest.mark.parametrize(
    ("device", "marks", "free"),
    [
        (Device(0, 14, 4), 0, 10),
        (Device(0, 14, 4, healthy=False), UNHEALTHY, 0),
        (Device(0, 14, 15), OVER_BOOKED, 0),
        (Device(0, 14, 14), 0, 0),
        (Device(0, 14, 15, healthy=False), UNHEALTHY + OVER_BOOKED, 0),
        (Device(0, 14, 4, slots=2, slots_used=2), NO_SLOT, 0),
        (Device(0, 14, 4, healthy=False, slots=2, slots_used=2), UNHEALTHY + NO_SLOT, 0),
        (Device(0, 14, 4, slots=2, slots_used=1), 0, 10),
    ],
)
def test_unhealthy_over_booked_and_slotless_cards_are_marked(device: Device, marks: int, free: int) -> None:
    """A pod can get nothing of a card that is unhealthy, full or without a slot."""
    (entry,) = followed(node("n", device)).entries()
    (card,) = entry.row.each_card()

    assert (card.marks, card.free) == (marks, free)
    assert entry.needs_attention is bool(marks & (UNHEALTHY | OVER_BOOKED))


def test_an_unhealthy_card_has_the_reason_that_is_published() -> None:
    """By node and card; a healthy card has none, whatever is published, and a node that is healthy is not there."""
    unhealthy = Device(1, 14, healthy=False, reason="Xid 48")
    rows = followed(
        node("n", Device(0, 14, reason="old"), unhealthy, Device(2, 14, healthy=False)), node("m", Device(0, 14))
    )
    assert Rows().reasons == {}
    assert rows.reasons == {"n": {1: "Xid 48"}}
    assert followed(node("n", Device(0, 14)), rows=rows).reasons == {}


def test_a_row_has_a_line_for_each_pod() -> None:
    """It is searched by namespace and name."""
    pods = [Booking(name, "ns", name, 1, ((0, 1),)) for name in "pq"]
    (entry,) = followed(lay_out("n", (Device(0, 14),), pods)).entries()

    assert entry.pods.splitlines() == ["ns/p", "ns/q"]


def test_lost_pods_and_a_refusal_need_attention() -> None:
    """A pod on no card, and a node that may not be used, are rare and need a person."""
    lost, refused = followed(node("a", Device(0, 4), unplaced=3), node("b", Device(0, 4), refusal="newer")).entries()

    assert (lost.needs_attention, lost.row.unplaced) == (True, 3)
    assert (refused.needs_attention, refused.row.refusal) == (True, "newer")


def test_sums_are_in_mib_whatever_the_units_are() -> None:
    """The size of a card shows the unit of a node that publishes none."""
    gib = node("a", Device(0, 14, 4), Device(1, 14, 20, healthy=False))
    mib = node("b", Device(0, 15000, 1000), Device(1, 15000, 16000))
    small = node("c", Device(0, 8, 8, unit_mib=256))
    rows = followed(gib, mib, small)

    assert [one.row.unit_mib for one in rows.entries()] == [1024, 1, 256]
    assert rows.sums == Sums(
        nodes=3,
        cards=5,
        booked=24 * 1024 + 17000 + 8 * 256,
        free=10 * 1024 + 14000,
        total=28 * 1024 + 30000 + 8 * 256,
        largest=14000,
        largest_on="b",
        unhealthy=1,
        over_booked=2,
    )
    assert followed(small).sums[5:7] == (0, "")
    assert followed(node("a", Device(0, 4)), node("b", Device(0, 4))).sums.largest_on == "a"


def test_only_changed_nodes_are_made_again() -> None:
    """A node that the book has laid out again without a change is not reported."""
    same, changing, going = node("a", Device(0, 4)), node("b", Device(0, 4)), node("c", Device(0, 4))
    rows = followed(same, changing, going)
    before, again = rows.entries(), node("b", Device(0, 4))
    assert (rows.changed, rows.gone) == (["a", "b", "c"], [])

    followed(same, again, rows=rows)
    assert (rows.changed, rows.gone) == ([], ["c"])
    assert (rows.entries()[0] is before[0], rows.entries()[1].node is again) == (True, True)
    followed(same, node("b", Device(0, 4, 1)), rows=rows)
    assert (rows.changed, rows.gone) == (["b"], [])
    assert rows.entries()[1].row == Row("b", 1024, (0, 1, 4, 0, 0), 0, "")


def test_before_the_first_nodes_there_is_nothing() -> None:
    """No sums and no changes."""
    rows = Rows()
    assert (rows.entries(), rows.sums, rows.changed, rows.gone) == ([], Sums(), (), ())


def test_rows_stay_whole_while_they_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """In slices; a reader between two of them sees the former state."""
    monkeypatch.setattr(module, "_NODES_AT_ONCE", 2)
    rows = followed(node("a", Device(0, 4)))
    steps = rows.follow([node(name, Device(0, 4, 2)) for name in "abcde"])

    seen = [([one.row.name for one in rows.entries()], rows.sums.booked, [*rows.changed]) for _ in steps]
    assert seen == [(["a"], 0, ["a"])] * 2 + [([*"abcde"], 10 * 1024, [*"abcde"])] * 2
    assert ([one.row.name for one in rows.entries()], rows.sums.booked) == ([*"abcde"], 10 * 1024)


def test_pods_that_overuse_are_named_while_they_are_there() -> None:
    """With the amounts that the node publishes; the card is marked, and the node needs attention."""
    booking = Booking("u", "team", "greedy", 1, ((0, 1),))
    overuse = (CardOveruse("u", 0, 1024, 1253), CardOveruse("gone", 1, 1024, 2000))
    devices = (Device(0, 14, unit_mib=1024), Device(1, 14, unit_mib=1024))
    (entry,) = followed(lay_out("n", devices, [booking], None, overuse)).entries()

    assert entry.row.overusers == (Overuser(0, "team", "greedy", 1024, 1253),)
    assert [card.marks for card in entry.row.each_card()] == [OVERUSED, 0]
    assert entry.needs_attention
    assert entry.sums.free == 27 * 1024
