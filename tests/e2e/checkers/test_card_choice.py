"""The judge reads wishes by its own rules; the product's must read the same."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from e2e import spec
from e2e.builders import gpu_pod
from e2e.checkers.card_choice import wish_of
from gpushare.errors import InvalidWishError
from gpushare.manifests import Pod
from gpushare.model.pod import request_of

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
