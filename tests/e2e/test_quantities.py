"""The suite's own reading of quantities."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e import spec
from e2e.quantities import whole_number
from e2e.site.node_cards import UnreadableError, amount
from gpushare.errors import InvalidQuantityError
from gpushare.model.quantity import parse_units


def node(quantity: object) -> dict[str, Any]:
    """A node that offers this much card memory."""
    return {"metadata": {"name": "n"}, "status": {"capacity": {spec.RESOURCE_MEMORY: quantity}}}


@given(st.text("0123456789.eE+-kKMGim ", max_size=8) | st.integers(-5, 2**40) | st.floats(0, 1e15))
def test_the_product_reads_the_same_numbers(quantity: str | float) -> None:
    """Judge and product take the same texts for whole numbers, and the same for none."""
    try:
        expected = parse_units(quantity)
    except InvalidQuantityError:
        with pytest.raises(ValueError, match="is not a"):
            whole_number(quantity)
    else:
        assert whole_number(quantity) == expected


@pytest.mark.parametrize("quantity", ["1.5", "-1", "500m", "", "many", "1e9999999999", None, True])
def test_a_capacity_that_is_no_number_is_unreadable(quantity: object) -> None:
    """No such capacity counts as 0, and the error has the resource and the text."""
    with pytest.raises(UnreadableError, match=rf"capacity.* {spec.RESOURCE_MEMORY}.*'{quantity}'"):
        amount(node(quantity), spec.RESOURCE_MEMORY)
