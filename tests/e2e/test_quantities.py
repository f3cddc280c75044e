"""The suite's own reading of quantities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.checkers.pod_requests import whole_number
from gpushare.errors import InvalidQuantityError
from gpushare.model.quantity import parse_units


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
