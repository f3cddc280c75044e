"""Promises of the forms that the original does not have, and of which nodes and pods are shown."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml

from gpushare.cli.answer_forms import JSON, YAML
from gpushare.kubectl_inspect.core.report_text import FIELDS, field_of, render, select, wide
from gpushare.manifests import Node, Pod
from tests.gpushare.kubectl_inspect.core.test_card_report import build, cards, node, on, pod


def document(form: str = JSON, units: str = "28", annotations: Any = None, *pods: Any) -> dict[str, Any]:
    """The document of one node, parsed."""
    reports, problems = build([node(units=units, annotations=annotations or cards(14, 14))], pods)
    text = "".join(render(form, reports, problems))
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
    (card,) = json.loads("".join(render(JSON, reports, ())))["nodes"][0]["cards"]

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
