"""Promises of e2e.parity.sides: the table of differences."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.parity import sides
from e2e.parity.sides import difference, normalised


@pytest.mark.parametrize(("first", "second"), [(1, True), (1, 1.0), (0, False), (0, None), ("1", 1)])
def test_values_that_only_python_takes_for_equal_differ(first: Any, second: Any) -> None:
    """A client in Go cannot read 1.0 or true in the place of 1."""
    assert difference({"count": first}, {"count": second}, ("real", "embedded"))


def test_order_of_fields_is_no_difference_and_of_a_list_is() -> None:
    """The order of fields makes no difference and that of a list does, as in JSON."""
    names = ("real", "embedded")

    assert difference({"a": 1, "b": 2}, {"b": 2, "a": 1}, names) == ""
    assert difference([1, 2], [2, 1], names)


def refusal(message: str, *fields: str) -> Any:
    """A refusal as it is compared."""
    causes = [{"field": field, "reason": "FieldValueInvalid", "message": message} for field in fields]
    return normalised({"kind": "Status", "status": "Failure", "message": message, "details": {"causes": causes}})


def test_the_fields_of_a_refusal_are_compared() -> None:
    """A refusal's set of fields and the thing that it forbids are compared; order, repetition and words are not."""
    assert refusal("wrong", "a", "b", "a") == refusal("not right", "b", "a")
    assert refusal("wrong", "a") != refusal("wrong", "b")
    assert refusal('pods "p" is forbidden: one') != refusal('pods "p" is forbidden: other')


def test_every_difference_is_shown_by_a_case_or_says_why_not() -> None:
    """A row that no case names would be an excuse without a proof."""
    texts = [path.read_text() for path in sides.TABLE.parent.glob("*.py")]
    unshown = [one for one, row in sides.load().items() if not any(one in text for text in texts)]

    assert unshown == [one for one, row in sides.load().items() if row.no_case]
