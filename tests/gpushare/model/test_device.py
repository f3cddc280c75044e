"""Promises of amounts in another unit, and of the layout of a node whose unit has changed."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.model.node import Booking, Device, laid_out_with, lay_out, unit_of_size, units_now


@given(st.integers(0, 100), st.integers(0, 300))
def test_free_is_never_negative_and_never_more_than_total(total: int, used: int) -> None:
    """Used beyond total (defect D12 of the original: it wrapped) leaves nothing."""
    assert Device(0, total, used).free == max(0, total - used) <= total


def test_a_booked_card_is_the_same_card() -> None:
    """Every other fact stays; a fact that is added later has to be here, too."""
    card = Device(
        3, 14, 2, healthy=False, uuid="u", model="m", slots=4, slots_used=1, numa=1, unit_mib=1024, reason="r"
    )
    assert all(getattr(card, field.name) != field.default for field in fields(card))

    assert card.booked(5, 2) == replace(card, used=5, slots_used=2)
    assert card.booked(2, 2) == replace(card, slots_used=2)
    assert card.booked(5, 1) == replace(card, used=5)


GIB, MIB = 1024, 1


def card(mib: int, unit: int, *, index: int = 0, is_published: bool = True) -> Device:
    """A card of this amount of memory on a node with this unit."""
    return Device(index, mib // unit, unit_mib=unit if is_published else 0)


@pytest.mark.parametrize(
    ("units", "size_then", "now", "expected"),
    [
        (14, 15, card(15360, MIB), 14336),
        (14000, 15360, card(15360, GIB), 14),
        (3, 0, card(15360, MIB), 3),
        (3, 15, card(15360, GIB), 3),
        (8, 13, card(11264, GIB), 8),
        (8, 13, card(11264, MIB, is_published=False), 8192),
        (56, 60, card(15360, 256), 56),
        (14, 15360, card(15360, GIB), 14),
        (300, 512, card(512, MIB), 300),
        (14, 13, card(11264, GIB), 14),
        (15, 15360, card(15360, GIB), 15),
    ],
    ids=[
        "to MiB",
        "to GiB",
        "size not known",
        "same",
        "mean size",
        "to MiB, mean size",
        "other unit",
        "small number",
        "small card",
        "more than the card has",
        "all that the card has",
    ],
)
def test_units_keep_their_amount_of_memory(units: int, size_then: int, now: Device, expected: int) -> None:
    """A pod of a former unit counts with the memory that it was bound with, and never with less."""
    assert units_now(units, size_then, now) == expected


@given(
    st.integers(2048, 200_000),
    st.lists(st.tuples(st.sampled_from([GIB, MIB]), st.integers(1, 200_000)), max_size=6),
)
def test_a_change_of_unit_promises_no_memory_twice(mib: int, phases: list[tuple[int, int]]) -> None:
    """Whatever the units were when pods came, the sum of what they were promised stays within the card."""
    promised, bookings = 0, []
    for number, (unit, wanted) in enumerate(phases):
        now = card(mib, unit)
        free = lay_out("n", (now,), bookings).devices[0].free
        units = min(wanted, free)
        if units:
            promised += units * unit
            bookings.append(Booking(f"u{number}", "d", f"p{number}", units, ((0, units),), card_size=now.total))
        # A pod of one unit that the layout counted in another may be larger than it looks, never smaller.
        assert promised <= mib


def test_a_converted_booking_is_converted_once() -> None:
    """Laying the pods of a node out again keeps their amounts."""
    node = lay_out("n", (card(15360, MIB),), [Booking("u", "d", "p", 14, ((0, 14),), card_size=15)])
    again = laid_out_with(node, node.bookings)

    assert (node.devices[0].used, again.devices[0].used, again.bookings[0].units) == (14336, 14336, 14336)
    assert again.bookings[0].card_size == 0


def test_a_card_that_is_not_there_has_no_unit() -> None:
    """The amount on it stays as it is, and the card beside it counts in its present unit."""
    node = lay_out("n", (card(15360, MIB),), [Booking("u", "d", "p", 6, ((0, 3), (7, 3)), card_size=15)])

    assert (node.devices[0].used, node.bookings[0].shares) == (3072, ((0, 3072), (7, 3)))


@pytest.mark.parametrize(
    ("cards", "size", "shares"),
    [
        ((card(15360, MIB),), 15, ()),
        ((card(512, MIB), card(15360, MIB, index=1)), 512, ((0, 3), (1, 3))),
        ((card(15360, MIB), card(15, MIB, index=15)), 15, ((0, 14),)),
    ],
    ids=["no card", "a card of another size", "an index as large as the card"],
)
def test_each_share_is_in_the_unit_of_its_card(
    cards: tuple[Device, ...], size: int, shares: tuple[tuple[int, int], ...]
) -> None:
    """The size of one card shows nothing of another one, whichever index it has."""
    (laid,) = lay_out("n", cards, [Booking("u", "d", "p", 14, shares, card_size=size)]).bookings
    by_index = {one.index: one for one in cards}

    assert laid.shares == tuple((index, units_now(units, size, by_index[index])) for index, units in shares)


@pytest.mark.parametrize(("size", "unit"), [(1, GIB), (192, GIB), (1023, GIB), (1024, MIB), (196608, MIB)])
def test_the_size_of_a_card_shows_its_unit(size: int, unit: int) -> None:
    """A card with less than 1024 units counts in GiB."""
    assert unit_of_size(size) == unit
