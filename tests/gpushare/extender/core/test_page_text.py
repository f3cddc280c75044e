"""Promises of gpushare.extender.core.page_text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpushare.extender.core import page_text as module
from gpushare.extender.core.page_document import Facts, PageDocument, WaitingPod
from gpushare.extender.core.page_history import NOT_BOUND, Decision, Point
from gpushare.extender.core.page_text import View, ago, amount, chosen, fragments, freshness, percent, view_of
from gpushare.model.eviction import FIXED
from gpushare.model.limits import CardOveruse
from gpushare.model.node import Booking, Device, NodeInfo, Published, lay_out

T4, P4 = "Tesla T4", "Tesla P4"
NODES = (
    lay_out("big-1", (Device(0, 40, 10, model=P4, unit_mib=1024),), []),
    lay_out("full-1", (Device(0, 14, 14, model=T4, unit_mib=1024),), []),
    lay_out(
        "unhealthy-1", (Device(0, 14, 2, healthy=False, model=T4, reason="Xid <48>"), Device(1, 14, 13, model=T4)), []
    ),
    lay_out("odd-1", (Device(0, 14, 20, model=T4),), [Booking("u", "ns", "p", 3, ())], Published("too new")),
)


def shown(*nodes: NodeInfo, now: float = 100.0, facts: Facts | None = None) -> PageDocument:
    """A document of these nodes."""
    document = PageDocument()
    for _ in document.rows.follow(nodes):
        pass
    document.now = now
    document.facts = facts or Facts("1.2", "binpack", True, {"nodes": 40, "pods": 98})
    return document


def texts(html: str) -> list[str]:
    """The texts of a fragment, one for each element that has some."""
    found: list[str] = []

    class Reader(HTMLParser):
        def handle_data(self, data: str) -> None:
            found.append(data.strip())

    Reader().feed(html)
    return [text for text in found if text]


@pytest.mark.parametrize(
    ("query", "view"),
    [
        ("", View()),
        ("q=%20gpu+t4%20&show=full&sort=free&page=3", View("gpu t4", "full", "free", 3)),
        ("show=x&sort=x&page=-1&other=1", View()),
        ("page=0", View()),
        ("page=123456", View()),
        ("page=²", View()),
        ("q=a&q=b", View("b")),
        ("q=" + "x" * 300, View("x" * 253)),
    ],
)
def test_the_address_says_which_nodes_are_shown(query: str, view: View) -> None:
    """A value that makes no sense counts as not given."""
    assert view_of(query) == view


@given(
    st.builds(
        View,
        st.text("ab &=%<é", max_size=9).map(str.strip),
        st.sampled_from([*module.SHOWN]),
        st.sampled_from([*module.SORTED]),
    ),
    st.integers(1, 99),
)
def test_a_link_leads_to_another_page_of_the_same(view: View, page: int) -> None:
    """The address of a view is read back as that view."""
    assert view_of(view.link(page).removeprefix("ui?")) == view._replace(page=page)


@pytest.mark.parametrize(
    ("view", "names"),
    [
        (View(), ["big-1", "full-1", "unhealthy-1", "odd-1"]),
        (View("I-1"), []),
        (View("FULL"), ["full-1"]),
        (View("p4"), ["big-1"]),
        (View("t4 unhealthy"), ["unhealthy-1"]),
        (View("t4 big"), []),
        (View(show="attention"), ["unhealthy-1", "odd-1"]),
        (View(show="free"), ["big-1", "unhealthy-1"]),
        (View(show="full"), ["full-1", "odd-1"]),
        (View(sort="free"), ["big-1", "unhealthy-1", "full-1", "odd-1"]),
        (View(sort="booked"), ["odd-1", "full-1", "unhealthy-1", "big-1"]),
        (View("t4", "full", "booked"), ["odd-1", "full-1"]),
    ],
)
def test_nodes_are_found_by_words_and_state(view: View, names: list[str]) -> None:
    """Each word is in the node's name, in the model of one of its cards, or in a pod of it with its namespace."""
    assert [one.row.name for one in chosen(shown(*NODES), view)] == names


def test_nodes_are_found_by_their_pods() -> None:
    """By words of namespace/name; the map has the nodes that are found, and no list of all of them."""
    web, batch = Booking("u", "team", "web-0", 3, ((0, 3),)), Booking("v", "team", "batch", 3, ((0, 3),))
    document = shown(lay_out("a", (Device(0, 14),), [web, batch]), lay_out("b", (Device(0, 14),), [web]))
    assert [one.row.name for one in chosen(document, View("b web"))] == ["a", "b"]
    assert [one.row.name for one in chosen(document, View("batch"))] == ["a"]
    found = [fragments(document, view)["found"] for view in (View(), View(page=2), View("TEAM/B"), View(sort="free"))]
    assert found == ["", "", "[&quot;a&quot;]", "[&quot;b&quot;,&quot;a&quot;]"]


def test_a_node_without_cards_can_be_sorted() -> None:
    """Cards of nothing have no share that is booked."""
    tiny, large = (
        lay_out(name, (Device(0, size, used, unit_mib=1),), []) for name, size, used in (("b", 1, 1), ("a", 8, 7))
    )
    document = shown(lay_out("none", (Device(0, 0),), []), large, tiny)
    assert [one.row.name for one in chosen(document, View(sort="booked"))] == ["b", "a", "none"]
    assert "0% of 0 GiB" in texts(fragments(document, View())["nodes"])


def test_each_place_of_the_page_has_its_text() -> None:
    """The names of the fragments are those that ``page.html`` has, and no other."""
    places = re.findall("{{(.+?)}}", (files("gpushare.extender") / "page.html").read_text())
    assert sorted(fragments(shown(), View())) == sorted({*places})


def test_classes_and_links_are_those_of_the_script() -> None:
    """Each fragment of a small cluster is the same to the byte: the style and the script find parts of it by these."""
    overuse, pod = (CardOveruse("u", 0, 1024, 1253),), Booking("u", "team", "<p>", 1, ((0, 1),))
    document = shown(
        lay_out("a/b", (Device(0, 10, 3, model=T4), Device(1, 8, 9, healthy=False, model=P4)), []),
        lay_out("c", (Device(0, 10),), []),
        lay_out("greedy", (Device(0, 14, model=T4),), [pod], Published(overuse=overuse)),
        lay_out(
            "loose", (Device(0, 10),), [replace(pod, unlimited=((0, "loose"),))], Published(unlimited="it is <False>")
        ),
        lay_out("odd", (Device(0, 14, 20, model=T4),), [Booking("u", "ns", "p", 3, ())], Published("too <new>")),
        lay_out("slots", (Device(0, 14000, 2, slots=1, slots_used=1, unit_mib=1),), []),
    )
    document.waiting = [
        WaitingPod("ns/1", "p/1", 2, "full", {"full": 1}, 1, 1, 0, None, "", ""),
        WaitingPod("n", "o", 2, "full", {"full": 1, "odd": 2}, 2, 1, 0, None, "", ""),
        WaitingPod("n", "q", 2, "refused by its scheduler", {}, 0, 0, 0, 40, "other", "0/1 nodes"),
    ]
    document.waiting_count = 4
    document.decisions = [Decision(40, "bound", "ns", "p", "n"), Decision(40, NOT_BOUND, "ns", "c", "refused", 2, 20)]
    document.points = [Point(40, 1024, 2048, 512, 5, 6)] * 2
    written = yaml.safe_load(Path(__file__).with_name("page_fragments.yaml").read_text())
    assert fragments(document, View("", "all", "free")) == written


def test_the_list_of_trouble_names_card_and_mark() -> None:
    """In one line for each node, with why a card is unhealthy; a link finds the rest."""
    assert texts(fragments(shown(*NODES), View())["attention"]) == [
        "unhealthy-1", "card 0: ✕ unhealthy: Xid <48>", "odd-1", "card 0: ▲ over-booked; too new; 3 units of pods on no card of it",
    ]  # fmt: skip
    for more in (0, 2):
        many = shown(*(lay_out(f"n{number}", (Device(0, 1, 2),), []) for number in range(module.MOST_MARKED + more)))
        found = texts(fragments(many, View())["attention"])
        assert found[2 * module.MOST_MARKED - 1 :] == ["card 0: ▲ over-booked", "2 more nodes"][: 1 + (more > 0)]
    assert texts(fragments(shown(*NODES[:2]), View())["attention"]) == [
        "Every card is healthy, and none is over-booked."
    ]


def test_many_nodes_come_in_pages() -> None:
    """With links to the neighbours; a page behind the last is the last."""
    document = shown(*(lay_out(f"n{number:03}", (Device(0, 4),), []) for number in range(101)))
    first, last = fragments(document, View("n", page=1)), fragments(document, View("n", page=9))

    assert (texts(first["pages"]), texts(last["pages"])) == (["page 1 of 3", "next"], ["previous", "page 3 of 3"])
    assert 'href="ui?q=n&amp;page=2" rel="next"' in first["pages"]
    assert 'href="ui?q=n&amp;page=2" rel="prev"' in last["pages"]
    assert texts(fragments(document, View("n", page=2))["pages"]) == ["previous", "page 2 of 3", "next"]
    assert first["count"] == "101 of 101 nodes; 101 cards in all"
    assert (first["nodes"].count("<tr>"), last["nodes"].count("<tr>")) == (50, 1)
    assert fragments(shown(*NODES), View())["pages"] == ""


def test_an_empty_cluster_has_a_page() -> None:
    """Each place has a text for nothing."""
    found = fragments(shown(), View())

    assert [texts(found[name]) for name in ("nodes", "pods", "decisions", "hour")] == [
        ["No node is like that."], ["No pod waits for a card."], ["No decision since the extender started."], ["No minute yet."],
    ]  # fmt: skip
    assert (found["largest-note"], found["booked-note"]) == ("no card has room", "0% of 0 GiB")
    columns = [re.findall(r'colspan="(\d)"', found[name]) for name in ("nodes", "pods", "decisions", "hour")]
    assert columns == [["4"], ["2"], ["3"], ["6"]]


def test_freshness_is_the_age_of_the_last_answers() -> None:
    """About nodes and pods; before the first list there is none."""
    cases = (
        shown(),
        shown(facts=Facts("", "", True, {"nodes": None, "pods": 98})),
        shown(facts=Facts("", "", False, {})),
    )
    assert [" ".join(texts(freshness(one))) for one in cases] == [
        "The API server last answered about nodes 1 min ago , about pods 2 s ago",
        "The API server last answered about pods 2 s ago",
        "The extender has not read the cluster yet.",
    ]


def page_with(text: str) -> dict[str, str]:
    """A page on which all that comes from others is this text."""
    document = shown(lay_out(text, (Device(0, 4, 5, model=text), Device(1, 4)), [], Published(text)))
    document.decisions = [Decision(1, "bound", text, text, text)]
    document.waiting = [
        WaitingPod(text, text, 1, text, {text: 1}, 1, 1, 0, 1, text, ""),
        WaitingPod(text, text, 1, text, {}, 0, 0, 0, 1, text, text),
    ]
    return fragments(document, View(text))


@given(st.text("<>&\"'/ a", max_size=20))
def test_no_name_or_reason_becomes_markup(text: str) -> None:
    """Names, models, reasons and the words of the address come from others; each is text, and no element or attribute."""
    plain, found = page_with("x"), page_with(f"x{text}")
    for name, html in found.items():
        assert [html.count(mark) for mark in "<>\"'"] == [plain[name].count(mark) for mark in "<>\"'"], name


def test_amounts_are_rounded_to_a_tenth() -> None:
    """A tenth that is 0 is left out."""
    sizes = (0, 51, 52, 1024, 1536, 13_312, 10_239_948, 10_239_949, 10_000 * 1024, 15 * 1024 * 1024 + 600_000)
    assert [amount(mib) for mib in sizes] == [
        "0 GiB", "0 GiB", "0.1 GiB", "1 GiB", "1.5 GiB", "13 GiB", "9,999.9 GiB", "10,000 GiB", "9.8 TiB", "15.6 TiB",
    ]  # fmt: skip
    assert [percent(1, 3), percent(4, 4), percent(0, 0)] == ["33%", "100%", "0%"]
    assert [ago(seconds) for seconds in (-1, 59.9, 60, 7200, 86_400, 200_000)] == [
        "0 s ago", "59 s ago", "1 min ago", "2 h ago", "1 d ago", "2 d ago",
    ]  # fmt: skip


def test_a_node_whose_sum_is_too_small_offers_what_is_left() -> None:
    """Its largest block is what kube-scheduler has left, which it names; a pod that has ended by its phase does not count."""
    cards, ended = (Device(0, 15), Device(1, 15)), replace(FIXED, is_lingering=True)
    pods = [Booking("u", "team", "p", 12, ((0, 12),)), Booking("v", "team", "q", 1, ((0, 1),), evictable=ended)]
    found = fragments(shown(lay_out("n", cards, pods, Published(offered=15))), View())
    enough = fragments(shown(lay_out("n", cards, pods, Published(offered=30))), View())

    assert texts(found["attention"]) == ["n", "kube-scheduler has 3 units left in sum"]
    assert "kube-scheduler has 3 units left in sum" in texts(found["nodes"])
    assert (texts(found["nodes"])[-1], texts(enough["nodes"])[-1]) == ("3 GiB", "15 GiB")
    assert fragments(shown(lay_out("n", cards, pods, Published(offered=5))), View())["nodes"].count("0 GiB") >= 1
