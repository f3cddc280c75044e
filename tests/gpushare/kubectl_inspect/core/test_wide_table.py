"""Promises of the forms that the original does not have."""

from __future__ import annotations

from gpushare.kubectl_inspect.core.report_text import wide
from tests.gpushare.kubectl_inspect.core.test_card_report import build, cards, node, on, pod

WIDE = """\
NODE   IPADDRESS   CARD   MODEL   UUID    ALLOCATED   TOTAL   UNIT   HEALTH        PODS
n      10.0.0.1    0      T4      GPU-0   15          14      GiB    over-booked   1
n      10.0.0.1    1      T4      GPU-1   0           14      GiB    lost          0
n      10.0.0.1    2      T4      GPU-2   14          14      GiB    ok            1
n      10.0.0.1    -      -       -       2           -       GiB    pending       -
"""


def test_each_card_has_a_line() -> None:
    """With its health; units on no card have one, too."""
    described = node(units="42", count="3", annotations=cards(14, 14, 14, sick={1: "lost"}))
    reports, _ = build([described], [pod("a", "15", on("0")), pod("b", "14", on("2")), pod("c", "2")])

    assert wide(reports) == WIDE
    assert wide(reports, headers=False).count("\n") == 4


def test_a_node_without_cards_has_a_line_for_its_pods() -> None:
    """Neither card nor unit is known of it."""
    reports, _ = build([node(units="3000000", count="3000000")], [pod("a", "3", on("0"))])

    assert wide(reports, headers=False).split() == ["n", "10.0.0.1", "-", "-", "-", "3", "-", "-", "pending", "-"]


def test_a_node_of_the_originals_plugin_has_dashes() -> None:
    """It publishes neither models nor health."""
    reports, _ = build([node()], [])

    assert wide(reports, headers=False).split("\n")[0].split() == [
        "n", "10.0.0.1", "0", "-", "-", "0", "14", "GiB", "ok", "0",
    ]  # fmt: skip


def test_a_card_that_must_not_be_used_has_the_nodes_reason() -> None:
    """A card that is sick without a reason is called sick."""
    newer = {name: text.replace('"v": 1', '"v": 2') for name, text in cards(14, 14).items()}
    refused, _ = build([node(annotations=newer)], [])
    sick, _ = build([node(annotations=cards(14, 14, sick={0: ""}))], [])

    assert "described by a newer version" in wide(refused)
    assert wide(sick, headers=False).split("\n")[0].split()[-2:] == ["sick", "0"]
