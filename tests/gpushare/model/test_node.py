"""Promises of gpushare.model.node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from gpushare import wire
from gpushare.manifests import Node
from gpushare.model.cards import CardFacts, NodeCards, encode_cards, read_cards
from gpushare.model.node import (
    Booking,
    Device,
    NodeInfo,
    Published,
    boot_of,
    devices_of,
    is_unoffered,
    laid_out_with,
    lay_out,
    offered_memory,
    parse_unhealthy,
    unit_of_size,
    units_now,
    units_on,
)

MIXED = NodeCards(
    1,
    "ids",
    "GiB",
    "boot",
    (
        CardFacts(1, "GPU-b", "Tesla T4", 15079, 14, numa=1),
        CardFacts(0, "GPU-a", "Tesla T4", 15079, 14),
        CardFacts(2, "GPU-c", "GeForce GTX 1080 Ti", 11178, 10, healthy=False, reason="Xid 79"),
    ),
)


def node(capacity: dict[str, object] | None, annotation: str | None = None) -> Node:
    """A node as the API server would send it."""
    annotations = {} if annotation is None else {"aliyun.com/gpushare-cards": annotation}
    return msgspec.convert(
        {"metadata": {"name": "n", "annotations": annotations}, "status": {"capacity": capacity}}, Node
    )


def gpus(memory: object, count: object) -> dict[str, object]:
    """Capacity with cards."""
    return {"cpu": "8", "aliyun.com/gpu-mem": memory, "aliyun.com/gpu-count": count}


@pytest.mark.parametrize(
    ("capacity", "allocatable", "annotation", "is_so"),
    [
        (gpus("28", "2"), "0", None, True),
        (gpus("28", "2"), "14", None, False),
        (gpus("0", "0"), "0", None, False),
        ({"cpu": "8"}, None, None, False),
        (gpus("38", "3"), "0", encode_cards(MIXED), True),
        (gpus("0", "0"), None, encode_cards(MIXED), True),
        (gpus("38", "3"), "28", encode_cards(MIXED), False),
    ],
)
def test_a_node_whose_plugin_is_gone_offers_no_card(
    capacity: dict[str, object], allocatable: str | None, annotation: str | None, *, is_so: bool
) -> None:
    """Its capacity or its annotation has cards, and pods may use no unit of them; a node without cards is another matter."""
    one = node(capacity, annotation)
    assert one.status is not None
    one.status.allocatable = {} if allocatable is None else {"aliyun.com/gpu-mem": allocatable}

    assert is_unoffered(one) is is_so


def test_cards_come_from_the_annotation_where_it_is_valid() -> None:
    """Each card has its own size and health, by index: a mixed node is not averaged (defects D05, D06)."""
    assert read_cards(encode_cards(MIXED)) == (MIXED, None)
    assert devices_of(node(gpus("38", "3"), encode_cards(MIXED))) == (
        Device(0, 14, uuid="GPU-a", model="Tesla T4", unit_mib=1024),
        Device(1, 14, uuid="GPU-b", model="Tesla T4", numa=1, unit_mib=1024),
        Device(2, 10, healthy=False, uuid="GPU-c", model="GeForce GTX 1080 Ti", unit_mib=1024, reason="Xid 79"),
    )


@pytest.mark.parametrize("capacity", [gpus("42", "3"), gpus("38", "2"), gpus("28", "2")])
def test_annotation_that_contradicts_the_capacity_is_no_belief(capacity: dict[str, object]) -> None:
    """After a rollback to the Go plugin it is stale: total divided by count, as that plugin means it."""
    count, memory = int(str(capacity["aliyun.com/gpu-count"])), int(str(capacity["aliyun.com/gpu-mem"]))

    assert devices_of(node(capacity, encode_cards(MIXED))) == tuple(
        Device(index, memory // count) for index in range(count)
    )


@pytest.mark.parametrize(
    "capacity",
    [None, {}, {"cpu": "8"}, gpus("14", "0"), gpus("0", "1"), gpus("x", "1"), gpus("1.5", "1"), gpus("28", "-2")],
)
def test_a_node_without_sensible_numbers_has_no_cards(capacity: dict[str, object] | None) -> None:
    """No status, no memory, no count, or something that is no whole number: not a GPU node, and no crash."""
    assert devices_of(node(capacity)) == devices_of(Node()) == ()


def test_declared_unhealthy_cards_are_unhealthy() -> None:
    """The ConfigMap of the contract bans by index."""
    assert [device.healthy for device in devices_of(node(gpus("28", "2")), frozenset({1, 7}))] == [True, False]


@pytest.mark.parametrize(
    ("text", "indices", "odd"),
    [
        ("0,2", {0, 2}, ()),
        (" 1 ", {1}, ()),
        ("", set(), ()),
        (",", set(), ()),
        ("x,3", {3}, ("x",)),
        ("-1", set(), ("-1",)),
        ("1.5", set(), ("1.5",)),
        ("0 2", set(), ("0 2",)),
        ("9" * 19 + "," + "1" * 20, {10**19 - 1}, ("1" * 20,)),
        ("1" * 4000 + ",1", {1}, ("1" * 4000,)),
    ],
)
def test_unhealthy_text_that_is_no_number_bans_no_card(text: str, indices: set[int], odd: tuple[str, ...]) -> None:
    """The original banned card 0 for every word that it could not read (defect D11); here each is named."""
    assert parse_unhealthy(text) == (indices, odd)


BOOKINGS = st.lists(
    st.builds(
        Booking,
        uid=st.uuids().map(str),
        namespace=st.just("default"),
        name=st.text("ab", max_size=3),
        units=st.integers(0, 40),
        shares=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), max_size=2).map(tuple),
    ),
    max_size=8,
)


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=4), BOOKINGS)
def test_laying_out_books_every_unit_exactly_once(cards: list[tuple[int, bool]], bookings: list[Booking]) -> None:
    """Used is the sum of the shares on each card; the largest free block is the best card's."""
    devices = tuple(Device(index, total, healthy=healthy) for index, (total, healthy) in enumerate(cards))
    info = lay_out("n", devices, bookings)

    for device in info.devices:
        assert device.used == sum(units_on(booking, device.index) for booking in bookings)
    assert info.largest_free == max((device.free for device in info.devices), default=0)
    assert info.largest_total == max((device.total for device in info.devices if device.healthy), default=0)


def test_a_laid_out_node_has_its_sums() -> None:
    """Over healthy cards; those with room come tightest first. To lay the same pods on it again changes nothing."""
    cards = (Device(0, 14), Device(1, 6), Device(2, 8, healthy=False), Device(3, 10))
    bookings = [
        Booking(name, "d", name, units, ((at, units),)) for at, name, units in ((0, "a", 9), (1, "b", 6), (2, "c", 2))
    ]
    info = lay_out("n", cards, bookings, Published("why"))

    laid = (Device(0, 14, 9), Device(1, 6, 6), Device(2, 8, 2, healthy=False), Device(3, 10))
    rooms = ((5, 0), (10, 3))
    assert info == NodeInfo("n", laid, tuple(bookings), 10, 14, 0, rooms, 30, 15, False, Published("why"))
    assert laid_out_with(info, bookings) == info
    assert laid_out_with(info, []) == lay_out("n", cards, [], Published("why"))


def test_a_share_on_a_card_that_is_not_there_is_unplaced() -> None:
    """A share on a card that is not there is unplaced, as is a pod without any card. It counts on no other card."""
    info = lay_out(
        "n",
        (Device(0, 14),),
        [Booking("u", "d", "a", 3, ((7, 3),)), Booking("v", "d", "b", 2, ()), Booking("w", "d", "c", 4, ((0, 4),))],
    )

    assert (info.devices[0].used, info.unplaced) == (4, 5)


SLOTTED = NodeCards(
    1,
    "slots",
    "MiB",
    "boot",
    (CardFacts(0, "GPU-a", "A", 81920, 81920, slots=2), CardFacts(1, "GPU-b", "A", 81920, 81920, slots=3)),
)


def test_slots_are_counted_where_the_annotation_says_slots_mode() -> None:
    """In MiB, with each card's own number; in ids mode the number means nothing."""
    slotted = node(gpus("163840", "2"), encode_cards(SLOTTED))
    as_ids = node(gpus("163840", "2"), encode_cards(NodeCards(1, "ids", "MiB", "boot", SLOTTED.cards)))

    assert [(device.total, device.slots) for device in devices_of(slotted)] == [(81920, 2), (81920, 3)]
    assert [device.slots for device in devices_of(as_ids)] == [0, 0]


def test_a_booking_takes_its_slots_of_each_of_its_cards() -> None:
    """A booking takes its slots of each of its cards. A card without a free slot is not free, however much memory it has."""
    devices = (Device(0, 80, slots=2), Device(1, 40, slots=3))
    info = lay_out("n", devices, [Booking("u", "d", "a", 5, ((0, 2), (1, 3)), 2)])

    assert [(device.slots_used, device.free_slots) for device in info.devices] == [(2, 0), (2, 1)]
    assert (info.counts_slots, info.largest_free, info.largest_total, info.unplaced) == (True, 37, 80, 0)
    assert laid_out_with(info, info.bookings) == info


def test_a_node_with_too_many_pods_gets_no_more() -> None:
    """An author can name a node in any number of pods; they are not laid out, and no card counts as free."""
    bookings = [Booking(str(at), "d", str(at), 1, ((0, 1),)) for at in range(1025)]
    most, too_many = (lay_out("n", (Device(0, 2000),), bookings[:count]) for count in (1024, 1025))

    assert (most.published.refusal, most.largest_free) == (None, 976)
    assert (too_many.published.refusal, too_many.largest_free) == (
        "the number of pods on the GPUs of a node is limited to 1024 pods",
        0,
    )
    assert len(too_many.bookings) == 1024
    assert too_many.devices == (Device(0, 2000, 1024, healthy=False),)


@pytest.mark.parametrize(
    ("node", "boot"),
    [
        (None, ""),
        ({"metadata": {"name": "n"}}, ""),
        ({"status": {}}, ""),
        ({"status": {"nodeInfo": {"bootID": "boot-1"}}}, "boot-1"),
    ],
)
def test_a_boot_is_the_one_that_the_kubelet_reports(node: dict[str, Any] | None, boot: str) -> None:
    """It is not known of a node that is not there, or that has no kubelet yet."""
    assert boot_of(None if node is None else msgspec.convert(node, Node)) == boot


def test_allocatable_memory_is_kept_as_it_is_offered() -> None:
    """An amount that cannot be read is not known; of a node without it, nothing is."""
    shown = [
        msgspec.convert({"status": {"capacity": {}, "allocatable": amounts}}, Node)
        for amounts in ({wire.RESOURCE_MEMORY: "15"}, {wire.RESOURCE_MEMORY: "x"}, {}, None)
    ]

    assert [offered_memory(one) for one in shown] == [15, None, None, None]
    assert lay_out("n", (Device(0, 14),), []).left_in_sum is None
    assert lay_out("n", (Device(0, 14, 14),), [], Published(offered=0)).left_in_sum is None


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


# The units of a pod, the size that its card had then, the card now, and the units of it that the pod holds.
UNITS: dict[str, tuple[int, int, Device, int]] = {
    "to MiB": (14, 15, card(15360, MIB), 14336),
    "to GiB": (14000, 15360, card(15360, GIB), 14),
    "size not known": (3, 0, card(15360, MIB), 3),
    "same": (3, 15, card(15360, GIB), 3),
    "mean size": (8, 13, card(11264, GIB), 8),
    "to MiB, mean size": (8, 13, card(11264, MIB, is_published=False), 8192),
    "other unit": (56, 60, card(15360, 256), 56),
    "small number": (14, 15360, card(15360, GIB), 14),
    "small card": (300, 512, card(512, MIB), 300),
    "more than the card has": (14, 13, card(11264, GIB), 14),
    "all that the card has": (15, 15360, card(15360, GIB), 15),
}


@pytest.mark.parametrize(("units", "size_then", "now", "expected"), UNITS.values(), ids=UNITS.keys())
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
