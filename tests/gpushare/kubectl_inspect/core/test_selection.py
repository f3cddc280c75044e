"""Promises of which nodes and pods are shown."""

from __future__ import annotations

import msgspec
import pytest

from gpushare.kubectl_inspect.core.card_report import build
from gpushare.kubectl_inspect.core.selection import FIELDS, field_of, select
from gpushare.manifests import Pod
from tests.gpushare.kubectl_inspect.core.test_card_report import node, on, pod


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
    """Its pods alone are shown, on the nodes that have some; a card is as full as it is."""
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
    """With or without braces and dot."""
    assert field_of(form.format(field)) == field


@pytest.mark.parametrize("expression", ["", ".", "{.metadata.name}", "cards", ".Total"])
def test_an_unknown_field_is_none(expression: str) -> None:
    """A list, or what nodes do not have, sorts nothing."""
    assert field_of(expression) is None
