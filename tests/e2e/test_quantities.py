"""The suite's own reading of quantities."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded.apiserver.api_quantities import canonical
from e2e import spec
from e2e.checkers.pod_requests import units_of
from e2e.quantities import whole_number
from e2e.site.node_cards import UnreadableError, amount
from gpushare.errors import InvalidQuantityError
from gpushare.model.quantity import parse_units

AMOUNTS = st.integers(0, 2**33 - 1)
SCALES = {"": 1, "k": 1000, "M": 10**6, "G": 10**9, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "e3": 1000, "E2": 100}


def node(quantity: object) -> dict[str, Any]:
    """A node that offers this much card memory."""
    return {"metadata": {"name": "n"}, "status": {"capacity": {spec.RESOURCE_MEMORY: quantity}}}


def pod(quantity: object) -> dict[str, Any]:
    """A pod that asks for this much."""
    return {"spec": {"containers": [{"name": "c", "resources": {"limits": {spec.RESOURCE_MEMORY: quantity}}}]}}


@given(AMOUNTS, st.sampled_from(sorted(SCALES)))
def test_every_way_of_writing_a_number_is_read(number: int, suffix: str) -> None:
    """A node's capacity and a pod's limit are the number that was written, with any suffix."""
    written = f"{number}{suffix}"

    assert whole_number(written) == amount(node(written), spec.RESOURCE_MEMORY) == number * SCALES[suffix]
    assert units_of(pod(written)) == number * SCALES[suffix]


@given(AMOUNTS, st.sampled_from(["", "Ki", "e0"]))
def test_the_form_that_an_api_server_stores_is_read(number: int, suffix: str) -> None:
    """Canonical quantities are the same number."""
    written = f"{number}{suffix}"

    assert whole_number(canonical(written)) == whole_number(written)


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
