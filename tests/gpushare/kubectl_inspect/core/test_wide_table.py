"""Promises of the forms that the original does not have."""

from __future__ import annotations

import pytest

from gpushare.kubectl_inspect.core.report_text import wide
from gpushare.manifests import Node
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
    described = node(units="42", count="3", annotations=cards(14, 14, 14, unhealthy={1: "lost"}))
    reports, _ = build([described], [pod("a", "15", on("0")), pod("b", "14", on("2")), pod("c", "2")])

    assert wide(reports) == WIDE
    assert wide(reports, headers=False).count("\n") == 4


NEWER = {name: text.replace('"v": 1', '"v": 2') for name, text in cards(14, 14).items()}


@pytest.mark.parametrize(
    ("one", "cells"),
    [
        # Neither card nor unit is known of it.
        (node(units="3000000", count="3000000"), "- - - 3 - - pending -"),
        # The original's plugin publishes neither models nor health.
        (node(), "0 - - 3 14 GiB ok 1"),
        # An unhealthy card without a reason is called unhealthy, and one that must not be used has the node's reason.
        (node(annotations=cards(14, 14, unhealthy={0: ""})), "0 T4 GPU-0 3 14 GiB unhealthy 1"),
        (
            node(annotations=NEWER),
            "0 T4 GPU-0 3 14 GiB the node's GPUs are described by a newer version of gpushare 1",
        ),
    ],
)
def test_what_is_not_known_is_a_dash(one: Node, cells: str) -> None:
    """A node without cards has a line for its pods."""
    reports, _ = build([one], [pod("a", "3", on("0"))])

    assert " ".join(wide(reports, headers=False).split("\n")[0].split()) == f"n 10.0.0.1 {cells}"
