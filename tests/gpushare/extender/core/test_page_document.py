"""Promises of gpushare.extender.core.page_document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from gpushare.extender.core import page_document as module
from gpushare.extender.core.book import Book
from gpushare.extender.core.decisions import BOUND, Decisions
from gpushare.extender.core.explain import describe_node, nodes_with_cards
from gpushare.extender.core.filter import FilterResult
from gpushare.extender.core.filter_cache import FilterCache
from gpushare.extender.core.page_document import MOST_WAITING, Facts, PageDocument
from gpushare.manifests import PodCondition, PodStatus, Presence
from gpushare.model.cards import CardFacts, NodeCards, encode_cards
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


def test_the_document_has_the_cards_as_inspect_has_them(page: Page) -> None:
    """By name, used and total of each card are those of /inspect; nodes without cards are not there."""
    page.book.set_node(node("a", 10, 1))
    page.book.set_node(node("without", 0, 0))
    page.book.set_pod(pod("p", 3, on="n", card=1, phase="Running"))
    page.at()
    assert page.whole()["models"] == page.document.rows.models == [""]

    inspected = [describe_node(one) for one in nodes_with_cards(page.book.snapshot())]
    shown = [
        {
            "name": name,
            "devs": [[cards[at], cards[at + 2], cards[at + 1]] for at in range(0, len(cards), 5)],
        }
        for name, _, cards, *_ in page.whole()["nodes"]
    ]
    devices = [[[dev["id"], dev["totalGPU"], dev["usedGPU"]] for dev in one["devs"]] for one in inspected]
    assert shown == [{"name": one["name"], "devs": of} for one, of in zip(inspected, devices, strict=True)]
    assert page.whole()["numbers"]["booked"] == 3 * 1024


def test_the_head_says_what_the_document_is_of(page: Page) -> None:
    """Version, the clock of all times in it, and when the API server answered last."""
    page.at(100.04)
    assert page.whole()["now"] == 100.0
    page.decisions.note(101, BOUND, "ns", "p", "n, card 0")
    page.at(101.26)
    whole = page.whole()

    assert (whole["version"], whole["now"], whole["contacts"]) == (2, 101.3, CONTACTS)
    assert whole["extender"] == {"version": "1.2", "policy": "binpack", "ready": True}
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
    assert changes["nodes"] == [["n", 1024, [0, 2, 14, 0, 0, 1, 0, 14, 0, 0], 0, "", [], None]]


def test_overuse_on_a_node_is_a_change_of_its_row(page: Page) -> None:
    """It comes and goes with the annotation of the node, and changes no number."""
    page.book.set_pod(pod("p", 2, on="n", card=0, phase="Running"))
    page.at()
    overused = node("n")
    overused.metadata.annotations = {"aliyun.com/gpushare-overuse": '[["p",0,2048,3000]]'}
    page.book.set_node(overused)
    changes = page.at(101)

    assert set(changes) == {"base", "version", "now", "contacts", "nodes"}
    assert [row[5] for row in changes["nodes"]] == [[[0, "default", "p", 2048, 3000]]]
    page.book.set_node(node("n"))
    assert [row[5] for row in page.at(102)["nodes"]] == [[]]


def test_the_document_has_why_cards_are_unhealthy(page: Page) -> None:
    """By node and card, as the node published it; none is unhealthy at first."""
    page.at()
    assert page.whole()["reasons"] == {}
    cards = (CardFacts(0, "GPU-0", "", 14336, 14), CardFacts(1, "GPU-1", "", 14336, 14, healthy=False, reason="Xid 48"))
    unhealthy = node("n")
    unhealthy.metadata.annotations = {"aliyun.com/gpushare-cards": encode_cards(NodeCards(1, "ids", "GiB", "", cards))}
    page.book.set_node(unhealthy)

    assert page.at(101)["reasons"] == page.whole()["reasons"] == {"n": {"1": "Xid 48"}}


def test_changes_added_to_a_document_are_the_next_one(page: Page) -> None:
    """A viewer that has one document and gets each change has the same as one that asks again."""
    page.at()
    mine = page.whole()
    for step in range(4):
        page.wait(f"w{step}")
        page.book.set_pod(pod(f"p{step}", 1, on="n", card=0, phase="Running"))
        changes = page.at(101.0 + step)
        assert changes.pop("base") == mine["version"]
        rows = {row[0]: row for row in (*mine["nodes"], *changes.pop("nodes", []))}
        mine |= changes | {"nodes": [*rows.values()]}
        assert mine == page.whole()


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
        [100, 0, 28672, 28672, 14336, 1, 0, 0],
        [160, 3072, 25600, 28672, 14336, 1, 0, 0],
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
