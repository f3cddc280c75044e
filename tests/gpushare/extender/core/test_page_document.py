"""Promises of gpushare.extender.core.page_document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from gpushare.extender.core import page_document as module
from gpushare.extender.core.book import Book
from gpushare.extender.core.filter import FilterResult
from gpushare.extender.core.filter_cache import FilterCache
from gpushare.extender.core.page_document import (
    MOST_WAITING,
    NO_SLOT,
    OVER_BOOKED,
    OVERUSED,
    UNHEALTHY,
    UNLIMITED,
    Card,
    Facts,
    Overuser,
    PageDocument,
    Row,
    Rows,
    Sums,
    Unlimited,
)
from gpushare.extender.core.page_history import BOUND, Decisions
from gpushare.manifests import PodCondition, PodStatus, Presence
from gpushare.model.cards import CardFacts, NodeCards, encode_cards
from gpushare.model.limits import CardOveruse
from gpushare.model.node import Booking, Device, NodeInfo, Published, lay_out
from gpushare.model.pod import Request
from tests.gpushare.extender.core.booked import node, pod

NO_ROOM = FilterResult([], {"full": ["n"]}, {"small": ["m", "o"]})
CONTACTS: Mapping[str, int | None] = {"nodes": 90, "pods": 99, "configmaps": None}


class Page:
    """A document over a book."""

    def __init__(self, book: Book) -> None:
        self.book, self.filter_cache, self.decisions, self.document = book, FilterCache(), Decisions(), PageDocument()

    def at(self, now: float = 100.0, *, ready: bool = True, ahead: float = 0.0) -> dict[str, Any]:
        """The changes by then; empty if there are none."""
        facts = Facts("1.2", "binpack", ready, CONTACTS, ahead)
        for _ in self.document.refresh(self.book, self.filter_cache, self.decisions, facts, now):
            pass
        return json.loads(self.document.changes or b"{}")

    def whole(self) -> dict[str, Any]:
        """The document."""
        return json.loads(self.document.whole)

    def wait(self, name: str, units: int | None = 9, priority: int = 0, *, is_there: bool = True) -> None:
        """A pod that no node held."""
        waiting = pod(name, units or 9)
        waiting.spec.priority = priority
        if is_there:
            self.book.set_pod(waiting)
        request = Request(units) if units else None
        self.filter_cache.note(waiting.metadata, request, NO_ROOM, b"", 50.5, priority)


@pytest.fixture
def page(book: Book) -> Page:
    """A page about one node with two cards."""
    return Page(book)


def test_the_head_says_what_the_document_is_of(page: Page) -> None:
    """Version, the clock of all times in it, and when the API server answered last."""
    page.at(100.04)
    assert page.whole()["now"] == 100.0
    page.decisions.note(101, BOUND, "ns", "p", "n, card 0")
    page.at(101.26)
    whole = page.whole()

    assert (whole["version"], whole["now"], whole["contacts"]) == (2, 101.3, CONTACTS)
    assert whole["extender"] == {"version": "1.2", "policy": "binpack", "ready": True}
    assert whole["models"] == page.document.rows.models == [""]
    assert whole["decisions"] == [[101, "bound", "ns", "p", "n, card 0", 1, 101]]
    assert json.loads(page.document.beat) == {"version": 2, "now": 101.3, "contacts": CONTACTS}


def test_changes_are_what_differs_since_the_version_before(page: Page) -> None:
    """Rows that changed, nodes that are gone, sections that differ, and nothing else."""
    first = page.at()
    assert (first["base"], first["version"]) == (0, 1)
    assert [row[0] for row in first["nodes"]] == ["n"]
    assert page.at(101) == {}
    assert (page.document.version, page.document.changes) == (1, b"")

    page.book.set_node(node("m", 10, 1))
    page.at(102)
    page.book.set_pod(pod("p", 2, on="n", card=0, phase="Running"))
    page.book.remove_node("m")
    changes = page.at(103)
    assert set(changes) == {"base", "version", "now", "contacts", "numbers", "nodes", "gone"}
    assert (changes["base"], changes["version"], changes["gone"]) == (2, 3, ["m"])
    assert changes["nodes"] == [["n", "GiB", [0, 2, 14, 0, 0, 1, 0, 14, 0, 0], 0, "", [], None]]


def test_the_document_has_why_cards_are_unhealthy(page: Page) -> None:
    """By node and card, as the node published it; none is unhealthy at first."""
    page.at()
    assert page.whole()["reasons"] == {}
    cards = (CardFacts(0, "GPU-0", "", 14336, 14), CardFacts(1, "GPU-1", "", 14336, 14, healthy=False, reason="Xid 48"))
    page.book.set_node(node("n", cards=encode_cards(NodeCards(1, "ids", "GiB", "", cards))))

    assert page.at(101)["reasons"] == page.whole()["reasons"] == {"n": {"1": "Xid 48"}}


def test_waiting_pods_have_their_reasons(page: Page) -> None:
    """With how many nodes gave each, also for a pod with wishes that make no sense."""
    page.wait("odd", None)
    page.wait("p")
    page.wait("p")
    page.wait("gone", is_there=False)
    page.at()
    reasons = {"full": 1, "small": 2}

    assert page.whole()["waiting"] == [
        ["default", "odd", 9, "full", reasons, 1, 50, 0, None, "", ""],
        ["default", "p", 9, "full", reasons, 2, 50, 0, None, "", ""],
    ]
    assert page.whole()["numbers"]["waiting"] == 2


def test_pods_wait_although_the_extender_was_never_asked(page: Page) -> None:
    """Such a pod has the words of its scheduler, and its time from its creation on; bound pods and others do not wait."""
    refused = pod("sum", 9)
    refused.metadata.creation_timestamp = "1970-01-01T00:01:40Z"
    refused.spec.priority = 5
    message = "0/1 nodes are available: 1 Insufficient aliyun.com/gpu-mem."
    refused.status = PodStatus("Pending", conditions=[PodCondition("PodScheduled", "False", "Unschedulable", message)])
    gated = pod("gated", "1.5")
    gated.spec.scheduling_gates, gated.spec.scheduler_name = [Presence()], "other"
    held = pod("held", 3)
    page.filter_cache.note(held.metadata, Request(3), FilterResult(["n"], {}, {}), b"", 50.5)
    for one in (refused, gated, held, pod("new", 3), pod("none", 0), pod("bound", 1, on="n", card=0)):
        page.book.set_pod(one)
    page.at(ahead=60.0)

    assert page.whole()["waiting"] == [
        ["default", "sum", 9, "refused by its scheduler", {}, 0, 0, 5, 40, "", message],
        ["default", "gated", 0, "scheduling gates", {}, 0, 0, 0, None, "other", ""],
        ["default", "new", 3, "no report of its scheduler", {}, 0, 0, 0, None, "", ""],
    ]
    assert page.whole()["numbers"]["waiting"] == 3


def test_of_many_waiting_pods_the_most_important_are_listed(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """By priority, then by name; all are counted. They are looked at in slices."""
    monkeypatch.setattr(module, "_PODS_AT_ONCE", 64)
    for number in range(MOST_WAITING + 60):
        page.wait(f"p{number:03}", priority=number == 255)
    steps = len([*page.document.refresh(page.book, page.filter_cache, page.decisions, Facts("", "", True, {}), 1.0)])

    names = [one.name for one in page.document.waiting]
    assert names == ["p255", *(f"p{number:03}" for number in range(MOST_WAITING - 1))]
    assert (page.document.waiting_count, steps) == (MOST_WAITING + 60, 1 + 5)


def test_the_trends_get_a_point_each_minute(page: Page) -> None:
    """It has the numbers as they are then."""
    page.wait("p")
    page.at(100)
    page.at(159)
    page.book.set_pod(pod("q", 3, on="n", card=1, phase="Running"))
    changes = page.at(160)

    assert changes["trends"] == [
        [100, 0, 28672, 14336, 1, 0],
        [160, 3072, 25600, 14336, 1, 0],
    ]


def test_a_book_that_is_not_complete_is_not_looked_at() -> None:
    """From the first look on each event would lay out its node; there is no point of the trends yet."""
    book = Book()
    book.set_node(node())
    page = Page(book)
    page.at(ready=False)

    assert (page.whole()["nodes"], page.whole()["trends"]) == ([], [])
    assert page.whole()["extender"]["ready"] is False
    assert not book._is_looked_at  # noqa: SLF001  # only the time of later events would show it
    page.at(101)
    assert len(page.whole()["nodes"]) == 1


def info(name: str, *devices: Device, unplaced: int = 0, refusal: str | None = None) -> NodeInfo:
    """A node with these cards, and perhaps a pod on none of them."""
    pods = [Booking("u", "ns", "p", unplaced, ())] if unplaced else []
    return lay_out(name, devices, pods, Published(refusal))


def followed(*nodes: NodeInfo, rows: Rows | None = None) -> Rows:
    """The rows of these nodes."""
    found = rows or Rows()
    for _ in found.follow(nodes):
        pass
    return found


def test_a_row_has_each_card_in_units() -> None:
    """In the unit of the node, with the place of its model."""
    two = info("n", Device(0, 14, 3, model="T4", unit_mib=1024), Device(2, 10, 10, model="P4", unit_mib=1024))
    rows = followed(two, info("m", Device(0, 14, model="T4", unit_mib=1024)))
    (entry, other) = rows.entries()

    assert rows.models == ["T4", "P4"]
    assert [*entry.row.each_card()] == [Card(0, 3, 14, 0, 0), Card(2, 10, 10, 1, 0)]
    assert json.loads(entry.text) == ["n", "GiB", [0, 3, 14, 0, 0, 2, 10, 10, 1, 0], 0, "", [], None]
    assert (entry.models, other.models) == ({0, 1}, {0})
    assert rows.texts() == [entry.text, rows.text_of("m")]


def test_models_that_are_gone_are_forgotten() -> None:
    """A node that names other models each time takes no more places than it has cards; other rows keep theirs."""
    other, rows = info("m", Device(0, 14, model="T4")), Rows()
    for number in range(50):
        followed(other, info("n", Device(0, 14, model=f"X{number}"), Device(1, 14, model="")), rows=rows)

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
    (entry,) = followed(info("n", device)).entries()
    (card,) = entry.row.each_card()

    assert (card.marks, card.free) == (marks, free)
    assert entry.needs_attention is bool(marks & (UNHEALTHY | OVER_BOOKED))


def test_an_unhealthy_card_has_the_reason_that_is_published() -> None:
    """By node and card; a healthy card has none, whatever is published, and a node that is healthy is not there."""
    unhealthy = Device(1, 14, healthy=False, reason="Xid 48")
    rows = followed(
        info("n", Device(0, 14, reason="old"), unhealthy, Device(2, 14, healthy=False)), info("m", Device(0, 14))
    )
    assert Rows().reasons == {}
    assert rows.reasons == {"n": {1: "Xid 48"}}
    assert followed(info("n", Device(0, 14)), rows=rows).reasons == {}


def test_lost_pods_and_a_refusal_need_attention() -> None:
    """A pod on no card, and a node that may not be used, are rare and need a person."""
    lost, refused = followed(info("a", Device(0, 4), unplaced=3), info("b", Device(0, 4), refusal="newer")).entries()

    assert (lost.needs_attention, lost.row.unplaced) == (True, 3)
    assert (refused.needs_attention, refused.row.refusal) == (True, "newer")


def test_sums_are_in_mib_whatever_the_units_are() -> None:
    """The size of a card shows the unit of a node that publishes none."""
    gib = info("a", Device(0, 14, 4), Device(1, 14, 20, healthy=False))
    mib = info("b", Device(0, 15000, 1000), Device(1, 15000, 16000))
    small = info("c", Device(0, 8, 8, unit_mib=256))
    rows = followed(gib, mib, small)

    assert [one.row.unit for one in rows.entries()] == ["GiB", "MiB", "units of 256 MiB"]
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
    assert followed(info("a", Device(0, 4)), info("b", Device(0, 4))).sums.largest_on == "a"


def test_only_changed_nodes_are_made_again() -> None:
    """A node that the book has laid out again without a change is not reported."""
    same, changing, going = info("a", Device(0, 4)), info("b", Device(0, 4)), info("c", Device(0, 4))
    rows = followed(same, changing, going)
    before, again = rows.entries(), info("b", Device(0, 4))
    assert (rows.changed, rows.gone) == (["a", "b", "c"], [])

    followed(same, again, rows=rows)
    assert (rows.changed, rows.gone) == ([], ["c"])
    assert (rows.entries()[0] is before[0], rows.entries()[1].node is again) == (True, True)
    followed(same, info("b", Device(0, 4, 1)), rows=rows)
    assert (rows.changed, rows.gone) == (["b"], [])
    assert rows.entries()[1].row == Row("b", "GiB", (0, 1, 4, 0, 0), 0, "")


def test_rows_stay_whole_while_they_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """In slices; a reader between two of them sees the former state."""
    monkeypatch.setattr(module, "_NODES_AT_ONCE", 2)
    rows = followed(info("a", Device(0, 4)))
    steps = rows.follow([info(name, Device(0, 4, 2)) for name in "abcde"])

    seen = [([one.row.name for one in rows.entries()], rows.sums.booked, [*rows.changed]) for _ in steps]
    assert seen == [(["a"], 0, ["a"])] * 2 + [([*"abcde"], 10 * 1024, [*"abcde"])] * 2
    assert ([one.row.name for one in rows.entries()], rows.sums.booked) == ([*"abcde"], 10 * 1024)


def test_pods_that_overuse_are_named_while_they_are_there() -> None:
    """With the amounts that the node publishes; the card is marked, and the node needs attention."""
    booking = Booking("u", "team", "greedy", 1, ((0, 1),))
    overuse = (CardOveruse("u", 0, 1024, 1253), CardOveruse("gone", 1, 1024, 2000))
    devices = (Device(0, 14, unit_mib=1024), Device(1, 14, unit_mib=1024))
    (entry,) = followed(lay_out("n", devices, [booking], Published(overuse=overuse))).entries()

    assert entry.row.overusers == (Overuser(0, "team", "greedy", 1024, 1253),)
    assert [card.marks for card in entry.row.each_card()] == [OVERUSED, 0]
    assert entry.needs_attention
    assert entry.sums.free == 27 * 1024


def test_pods_without_their_limit_are_marked() -> None:
    """At their cards and behind the node's row, beside the condition; the first eight are named, and nothing if all are limited."""
    pods = [Booking(f"u{at}", "team", f"p{at}", 1, ((1, 1),), unlimited=((1, "none"),)) for at in range(9)]
    devices, plain = (Device(0, 14), Device(1, 14)), Booking("v", "team", "q", 1, ((0, 1),))
    overuse = (CardOveruse("u0", 1, 1024, 1253),)
    entry, false, good = followed(
        lay_out("a", devices, [*pods, plain], Published(overuse=overuse)),
        lay_out("b", devices, [plain], Published(unlimited="it is False")),
        lay_out("c", devices, [plain]),
    ).entries()

    assert entry.row.limits == ("", tuple(Unlimited(1, "team", f"p{at}", "none") for at in range(8)))
    assert [card.marks for card in entry.row.each_card()] == [0, OVERUSED + UNLIMITED]
    assert json.loads(false.text)[-1] == ["it is False", []]
    assert (json.loads(good.text)[-1], len(json.loads(good.text))) == (None, len(Row._fields) - 1)
    assert (false.needs_attention, good.needs_attention) == (True, False)
