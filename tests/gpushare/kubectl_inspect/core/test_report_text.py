"""Promises of the tables beyond the recordings, of the other forms, and of which nodes and pods are shown."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import msgspec
import pytest
import yaml

from gpushare.cli.answer_forms import JSON, YAML
from gpushare.kubectl_inspect.core.card_report import NodeReport
from gpushare.kubectl_inspect.core.report_text import FIELDS, details, field_of, render, select, summary, wide
from gpushare.manifests import Node, Pod
from gpushare.model.node import Booking, Device, lay_out
from tests.gpushare.kubectl_inspect.core.test_card_report import build, cards, node, on, pod


def sized(name: str, totals: dict[int, int], *pods: tuple[str, int, dict[int, int]], unit: str = "GiB") -> NodeReport:
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
    nodes = [sized("big", {0: 80, 1: 24}, ("a", 52, {0: 52})), sized("small", {0: 14}, ("b", 3, {}), ("c", 2, {0: 2}))]

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
    nodes = [sized("a", {0: 14}, ("p", 3, {0: 3})), sized("bb", {0: 8}, ("q", 4, {0: 1}))]

    assert shown(details(nodes, headers=False)) == "a   p  default  3··\nbb  q  default  1  3··\n"


def test_details_of_several_nodes() -> None:
    """Each node with its own cards; all lines of dashes as long as the first node's."""
    table = details(
        [sized("a", {0: 14}, ("p", 3, {0: 3})), sized("b", {0: 8, 1: 8}, ("q", 3, {}), ("r", 4, {0: 1, 1: 3}))]
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
    gap = sized("n", {0: 8, 10**9: 16}, ("p", 4, {10**9: 4}))
    header, row, *_ = summary([gap]).splitlines()

    assert header.split()[2:4] == ["GPU0(Allocated/Total)", "GPU1000000000(Allocated/Total)"]
    assert row.split() == ["n", "10.0.0.1", "0/8", "4/16", "4/24"]
    assert "GPU0(Allocated)  GPU1000000000(Allocated)" in details([gap])


@pytest.mark.parametrize(("total", "used", "share"), [(100, 29, "29/100 (28%)"), (16, 20, "20/16 (125%)")])
def test_percent_is_cut_as_the_original_cuts_it(total: int, used: int, share: str) -> None:
    """In binary fractions: 29 of 100 is 28 %. An over-committed node has more than a hundred."""
    assert share in summary([sized("n", {0: total}, ("p", used, {0: used}))])


def test_the_unit_is_the_first_nodes_that_has_cards() -> None:
    """The table has the unit of the first node that has cards, as the original has one unit for the whole table."""
    nodes = [sized("a", {}), sized("b", {0: 14}, unit="256MiB"), sized("c", {0: 8}, unit="MiB")]

    assert summary(nodes).splitlines()[0].endswith("GPU Memory(256MiB)")


def document(form: str = JSON, units: str = "28", annotations: Any = None, *pods: Any) -> dict[str, Any]:
    """The document of one node, parsed."""
    reports, problems = build([node(units=units, annotations=annotations or cards(14, 14))], pods)
    text = render(form, reports, problems)
    assert text.startswith("{") == (form == JSON)
    return dict(json.loads(text) if form == JSON else yaml.safe_load(text))


@pytest.mark.parametrize("form", [JSON, YAML])
def test_everything_of_a_node_is_in_the_document(form: str) -> None:
    """Sums, cards, pods with the units on each card, and units of pods that no card is known for."""
    found = document(form, "28", None, pod("a", "3", on("1")), pod("b", "2"))

    assert (found["apiVersion"], found["kind"]) == ("inspect.gpushare.aliyun.com/v1", "GPUShareInspection")
    assert found["nodes"] == [
        {
            "name": "n", "address": "10.0.0.1", "unit": "GiB", "total": 28, "allocated": 5, "pending": 2,
            "cards": [
                {
                    "index": index, "uuid": f"GPU-{index}", "model": "T4", "total": 14, "allocated": used, "free": 14 - used,
                    "healthy": True, "reason": "",
                }
                for index, used in ((0, 0), (1, 3))
            ],
            "pods": [
                {
                    "namespace": "default", "name": "a", "uid": "a", "allocated": 3, "pending": 0,
                    "cards": [{"index": 1, "allocated": 3}],
                },
                {"namespace": "default", "name": "b", "uid": "b", "allocated": 2, "pending": 2, "cards": []},
            ],
        }
    ]  # fmt: skip
    assert found["warnings"] == []


def test_an_unhealthy_card_has_nothing_free_and_a_reason() -> None:
    """The table shows such a card as free; the document does not, and its warning is the table's."""
    found = document(JSON, "28", cards(14, 14, unhealthy={1: "Xid 79"}))
    card = found["nodes"][0]["cards"][1]

    assert (card["total"], card["free"], card["healthy"], card["reason"]) == (14, 0, False, "Xid 79")
    assert found["warnings"] == ["node n: card 1 (T4, GPU-1) gets no pods: Xid 79"]


def test_slots_are_shown_in_slots_mode() -> None:
    """The number of containers that the card takes, and of those on it."""
    asked = node(units="15360", count="1", annotations=cards(15_360, unit="MiB", slots=4))
    reports, _ = build([asked], [pod("a", "1000", on("0"))])
    (card,) = json.loads(render(JSON, reports, ()))["nodes"][0]["cards"]

    assert (card["slots"], card["slotsUsed"], card["allocated"]) == (4, 1, 1000)


def of(namespace: str, item: Pod) -> Pod:
    """The pod in another namespace."""
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, namespace=namespace))


REPORTS, _ = build(
    [node("a", "28"), node("b", "10", "1"), node("c", "28")],
    [
        pod("mine", "3", on("0"), node="a"),
        of("other", pod("theirs", "4", on("0"), node="a")),
        of("other", pod("more", "9", on("0"), node="b")),
    ],
)


def test_a_namespace_leaves_the_sums_of_a_node() -> None:
    """A namespace shows its own pods alone, on the nodes that have some. The sums of a node and its cards stay."""
    (shown,) = select(REPORTS, "default", "name")

    assert (shown.name, [one.name for one in shown.info.bookings]) == ("a", ["mine"])
    assert (shown.used, shown.info.devices[0].used) == (7, 7)
    assert select(REPORTS, "nowhere", "name") == ()
    assert select(REPORTS, None, "name") == REPORTS


@pytest.mark.parametrize(
    ("field", "expected"),
    [("name", "abc"), ("total", "bac"), ("allocated", "cab"), ("pending", "abc"), ("unit", "abc")],
)
def test_nodes_are_sorted_by_a_field(field: str, expected: str) -> None:
    """The smallest first, and nodes of equal value by name."""
    assert "".join(one.name for one in select(REPORTS, None, field)) == expected


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("form", ["{{.{}}}", ".{}", "{}", "{{ .{} }}"])
def test_a_field_is_named_as_kubectl_names_it(field: str, form: str) -> None:
    """A field is named as kubectl names it, with or without braces and dot."""
    assert field_of(form.format(field)) == field


@pytest.mark.parametrize("expression", ["", ".", "{.metadata.name}", "cards", ".Total"])
def test_an_unknown_field_is_none(expression: str) -> None:
    """A list, or what nodes do not have, sorts nothing."""
    assert field_of(expression) is None


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


LIMITS = '[["c",0,"enforced",4096],["d",0,"none",0]]'


def test_limits_are_shown_where_a_plugin_publishes_them() -> None:
    """By the worst state of each pod on the card; the document has each pod's."""
    limits = [
        {"ALIYUN_COM_GPU_MEM_LIMITS": text}
        for text in (LIMITS, '[["c",0,"enforced",2048]]', '[["c",1,"loose",9]]', "?")
    ]
    pods = [pod(name, "2", on(card) | more) for name, card, more in zip("abcd", "0012", limits, strict=True)]
    reports, _ = build([node(units="42", count="3", annotations=cards(14, 14, 14))], pods)

    lines = [line.split("   ") for line in wide(reports).splitlines()]
    assert [line[-1].strip() for line in lines] == ["LIMIT", "1 none, 1 enforced", "1 loose", "-"]
    (document,) = json.loads(render("json", reports, []))["nodes"]
    assert [one["cards"][0].get("limit") for one in document["pods"]] == [
        {"state": "none", "mib": 4096}, {"state": "enforced", "mib": 2048}, {"state": "loose", "mib": 9}, None,
    ]  # fmt: skip


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
