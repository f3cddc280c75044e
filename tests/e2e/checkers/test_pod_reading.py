"""The judge reads wishes and quantities by its own rules; the product's must read the same."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e import spec
from e2e.builders import gpu_pod
from e2e.checkers.card_choice import wish_of
from e2e.checkers.pod_requests import whole_number
from gpushare.errors import InvalidQuantityError, InvalidWishError
from gpushare.manifests import Pod
from gpushare.model.pod import request_of
from gpushare.model.quantity import parse_units

_PARTS = st.lists(st.sampled_from(["8", "3", " 8", "3 ", "0", "1 1", ""]), max_size=3).map(",".join)


@given(_PARTS | st.sampled_from(["whole", " whole "]))
def test_the_judge_reads_a_split_as_the_extender_does(text: str) -> None:
    """Blanks count for nothing, and parts that make no sense for a refusal."""
    pod = gpu_pod("p", 11, annotations={spec.WISH_SPLIT: text})
    try:
        parts = request_of(msgspec.convert(pod, Pod)).wishes.split or (11,)
    except InvalidWishError:
        parts = ()
    judged = wish_of(pod)

    assert (judged.parts if judged is not None else ()) == parts


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
