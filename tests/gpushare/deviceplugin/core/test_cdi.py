"""Promises of gpushare.deviceplugin.core.cdi."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.cdi import annotation, device_name


def test_a_card_is_named_by_its_kind() -> None:
    """As runtimes and specifications write it."""
    assert device_name("nvidia.com/gpu", "GPU-1a2b") == "nvidia.com/gpu=GPU-1a2b"


def test_an_annotation_asks_for_all_cards_of_a_request() -> None:
    """One key for each request, the names with commas."""
    assert annotation("cdi.k8s.io/", "nvidia.com/gpu", ["0", "3"], "gs-1a2b3c4d-7") == {
        "cdi.k8s.io/gpushare_gs-1a2b3c4d-7": "nvidia.com/gpu=0,nvidia.com/gpu=3"
    }


@given(st.text("abc019-_.", min_size=1, max_size=120))
def test_an_annotations_key_is_never_too_long(request: str) -> None:
    """At most 63 characters after the slash, and it ends with a letter or digit."""
    (key,) = annotation("cdi.k8s.io/", "nvidia.com/gpu", ["0"], request)
    name = key.removeprefix("cdi.k8s.io/")

    assert len(name) <= 63
    assert name[-1].isalnum()
