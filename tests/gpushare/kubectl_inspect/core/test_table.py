"""Promises of the tables beyond the recordings: several nodes, cards of several sizes, and what is odd."""

from __future__ import annotations

import textwrap

import pytest

from gpushare.kubectl_inspect.core.card_report import NodeReport
from gpushare.kubectl_inspect.core.report_text import details, summary
from gpushare.model.node import Booking, Device, lay_out


def node(name: str, totals: dict[int, int], *pods: tuple[str, int, dict[int, int]], unit: str = "GiB") -> NodeReport:
    """A node with cards of these sizes and pods ``(name, units, units by card)``."""
    devices = tuple(Device(index, total) for index, total in totals.items())
    bookings = [Booking(f"u-{pod}", "default", pod, units, tuple(cards.items())) for pod, units, cards in pods]
    info = lay_out(name, devices, bookings)
    return NodeReport(name, "10.0.0.1", sum(totals.values()), unit if totals else "", info)


def shown(text: str) -> str:
    """With the blanks at line ends visible."""
    return "".join(
        line[: len(line.rstrip())] + "·" * (len(line) - len(line.rstrip())) + "\n" for line in text.splitlines()
    )


def test_summary_of_several_nodes() -> None:
    """Cards up to the largest count, 0/0 if a node has none, a blank if it has nothing pending."""
    nodes = [node("big", {0: 80, 1: 24}, ("a", 52, {0: 52})), node("small", {0: 14}, ("b", 3, {}), ("c", 2, {0: 2}))]

    assert summary(nodes[:1], headers=False) == "big  10.0.0.1  52/80  0/24  52/104\n"
    assert shown(summary(nodes)) == textwrap.dedent(
        """\
        NAME   IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  PENDING(Allocated)  GPU Memory(GiB)
        big    10.0.0.1   52/80                  0/24                                       52/104
        small  10.0.0.1   2/14                   0/0                    3                   5/14
        ----------------------------------------------------
        Allocated/Total GPU Memory In Cluster:
        57/118 (48%)··
        """
    )


def test_details_without_headers() -> None:
    """A line for each pod, which begins with its node."""
    nodes = [node("a", {0: 14}, ("p", 3, {0: 3})), node("bb", {0: 8}, ("q", 4, {0: 1}))]

    assert shown(details(nodes, headers=False)) == "a   p  default  3··\nbb  q  default  1  3··\n"


def test_details_of_several_nodes() -> None:
    """Each node with its own cards; all lines of dashes as long as the first node's."""
    table = details(
        [node("a", {0: 14}, ("p", 3, {0: 3})), node("b", {0: 8, 1: 8}, ("q", 3, {}), ("r", 4, {0: 1, 1: 3}))]
    )

    assert shown(table) == textwrap.dedent(
        """\

        NAME:       a
        IPADDRESS:  10.0.0.1

        NAME         NAMESPACE  GPU0(Allocated)··
        p            default    3················
        Allocated :  3 (21%)····
        Total :      14·········
        -----------------------

        NAME:       b
        IPADDRESS:  10.0.0.1

        NAME         NAMESPACE  GPU0(Allocated)  GPU1(Allocated)  Pending(Allocated)··
        q            default    0                0                3···················
        r            default    1                3                0···················
        Allocated :  7 (43%)····
        Total :      16·········
        -----------------------


        Allocated/Total GPU Memory In Cluster:  10/30 (33%)··
        """
    )


def test_gap_in_the_indices_keeps_cards_under_their_headings() -> None:
    """A card that was taken out has no column, however high the indices are."""
    gap = node("n", {0: 8, 10**9: 16}, ("p", 4, {10**9: 4}))
    header, row, *_ = summary([gap]).splitlines()

    assert header.split()[2:4] == ["GPU0(Allocated/Total)", "GPU1000000000(Allocated/Total)"]
    assert row.split() == ["n", "10.0.0.1", "0/8", "4/16", "4/24"]
    assert "GPU0(Allocated)  GPU1000000000(Allocated)" in details([gap])


@pytest.mark.parametrize(("total", "used", "share"), [(100, 29, "29/100 (28%)"), (16, 20, "20/16 (125%)")])
def test_percent_is_cut_as_the_original_cuts_it(total: int, used: int, share: str) -> None:
    """In binary fractions: 29 of 100 is 28 %. An over-committed node has more than a hundred."""
    assert share in summary([node("n", {0: total}, ("p", used, {0: used}))])


def test_the_unit_is_the_first_nodes_that_has_cards() -> None:
    """The table has the unit of the first node that has cards, as the original has one unit for the whole table."""
    nodes = [node("a", {}), node("b", {0: 14}, unit="256MiB"), node("c", {0: 8}, unit="MiB")]

    assert summary(nodes).splitlines()[0].endswith("GPU Memory(256MiB)")
