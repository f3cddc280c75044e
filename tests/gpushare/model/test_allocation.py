"""Promises of gpushare.model.allocation."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.errors import InvalidAllocationError
from gpushare.model.allocation import Allocation, blanks, decode, encode

ONE_CARD = st.builds(
    Allocation,
    shares=st.tuples(st.tuples(st.integers(0, 63), st.integers(1, 200_000))),
    device_units=st.integers(0, 200_000),
    assume_time=st.integers(0, 2**63 - 1),
    assigned=st.booleans(),
)


@given(ONE_CARD)
def test_decode_gives_back_what_encode_wrote(allocation: Allocation) -> None:
    """The codec loses nothing."""
    assert decode(encode(allocation), allocation.units) == allocation


def test_encode_writes_the_five_annotations_of_the_original() -> None:
    """Names and formats as recorded from the Go extender."""
    assert encode(Allocation(((0, 6),), 14, 1795239503289469921)) == {
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1795239503289469921",
        "ALIYUN_COM_GPU_MEM_DEV": "14",
        "ALIYUN_COM_GPU_MEM_IDX": "0",
        "ALIYUN_COM_GPU_MEM_POD": "6",
    }


def test_encode_refuses_several_cards() -> None:
    """The five annotations can say one card only."""
    with pytest.raises(InvalidAllocationError, match="2 cards"):
        encode(Allocation(((0, 1), (1, 1))))


@pytest.mark.parametrize("annotations", [None, {}, {"other": "1"}, {"ALIYUN_COM_GPU_MEM_POD": "3"}])
def test_a_pod_without_a_card_has_no_allocation(annotations: dict[str, str] | None) -> None:
    """No index and no multi-card annotation: nobody chose yet."""
    assert decode(annotations, 3) is None


def test_the_spec_says_how_much_is_booked_not_the_annotation() -> None:
    """Whoever may write a pod may write its annotations: a low POD must not free memory."""
    allocation = decode({"ALIYUN_COM_GPU_MEM_IDX": "1", "ALIYUN_COM_GPU_MEM_POD": "1"}, 8)

    assert allocation is not None
    assert allocation.shares == ((1, 8),)


def test_the_multi_card_annotation_wins_and_is_summed_by_card() -> None:
    """Containers of one pod may share a card; the index beside it says nothing more."""
    text = json.dumps({"0": {"1": 8, "3": 2}, "1": {"3": 10}})
    allocation = decode({"ALIYUN_COM_GPU_MEM_IDX": "0", "scheduler.framework.gpushare.allocation": text}, 20)

    assert allocation is not None
    assert (allocation.shares, allocation.units, allocation.index) == (((1, 8), (3, 12)), 20, 1)


@pytest.mark.parametrize("index", ["-1", "", "x", "1.0", " 1", "+1", "١", "1" * 20, "1_0"])
def test_an_index_that_is_no_card_number_is_an_error(index: str) -> None:
    """The error names the annotation and its value."""
    with pytest.raises(InvalidAllocationError, match="ALIYUN_COM_GPU_MEM_IDX"):
        decode({"ALIYUN_COM_GPU_MEM_IDX": index}, 1)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"0":{}}',
        '{"0":{"x":1}}',
        '{"x":{"0":1}}',
        '{"0":{"1":-1}}',
        '{"0":{"1":1.5}}',
        '{"0":{"-1":1}}',
        '"\ud800"',
    ],
)
def test_a_multi_card_annotation_that_makes_no_sense_is_an_error(text: str) -> None:
    """Broken JSON, no card, wrong numbers."""
    with pytest.raises(InvalidAllocationError, match="gpushare.allocation"):
        decode({"scheduler.framework.gpushare.allocation": text}, 1)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "ALIYUN_COM_GPU_MEM_IDX",
                "ALIYUN_COM_GPU_MEM_DEV",
                "ALIYUN_COM_GPU_MEM_ASSUME_TIME",
                "scheduler.framework.gpushare.allocation",
            ]
        ),
        st.text(max_size=30),
    )
)
def test_any_text_is_an_allocation_none_or_our_error(annotations: dict[str, str]) -> None:
    """Annotations are strangers' text: nothing else is ever raised."""
    try:
        allocation = decode(annotations, 1)
    except InvalidAllocationError:
        return
    assert allocation is None or all(index >= 0 and units >= 0 for index, units in allocation.shares)


def test_an_allocation_on_several_cards_is_read_back_as_written() -> None:
    """In the original's form: container to card to units; no index beside it."""
    shares = ((1, 8), (3, 12))
    written = encode(Allocation(shares, 40, 7, by_container={2: shares}))

    assert written["scheduler.framework.gpushare.allocation"] == '{"2":{"1":8,"3":12}}'
    assert "ALIYUN_COM_GPU_MEM_IDX" not in written
    assert decode(written, 20) == Allocation(shares, 40, 7, by_container={2: shares})


def test_what_a_pods_author_wrote_of_its_card_is_blanked() -> None:
    """D30: each form in which a card can be named, but the one that was written; and what is blank names no card."""
    forged = {
        "ALIYUN_COM_GPU_MEM_IDX": "0",
        "ALIYUN_COM_GPU_MEM_REPAIR": "1",
        "scheduler.framework.gpushare.allocation": '{"0":{"3":1}}',
    }
    written = encode(Allocation(((2, 5),), 14))
    merged = {**forged, **written, **blanks(forged, written)}

    assert blanks({}, written) == blanks(None, written) == {}
    assert decode(merged, 5) == Allocation(((2, 5),), 14)


def test_a_mark_of_repair_books_the_other_card_too() -> None:
    """The same amount, until the mark is gone."""
    annotations = encode(Allocation(((1, 6),), 14)) | {"ALIYUN_COM_GPU_MEM_REPAIR": "0"}
    found = decode(annotations, 6)

    assert found is not None
    assert (found.index, found.repair, found.shares, found.booked) == (1, 0, ((1, 6),), ((0, 6), (1, 6)))


@pytest.mark.parametrize(
    "text", ["", "-1", "x", "1", "\u0661"], ids=["empty", "negative", "word", "same card", "digit"]
)
def test_a_mark_that_names_no_other_card_is_none(text: str) -> None:
    """The index alone is a complete allocation."""
    found = decode(encode(Allocation(((1, 6),), 14)) | {"ALIYUN_COM_GPU_MEM_REPAIR": text}, 6)

    assert found is not None
    assert (found.repair, found.booked) == (None, ((1, 6),))


def test_a_multi_card_annotation_says_the_cards_of_each_container() -> None:
    """By the container's position; a mark of repair means nothing there."""
    annotations = {
        "scheduler.framework.gpushare.allocation": '{"1":{"3":10,"1":14},"0":{"1":2}}',
        "ALIYUN_COM_GPU_MEM_REPAIR": "0",
    }
    found = decode(annotations, 26)

    assert found is not None
    assert found.by_container == {0: ((1, 2),), 1: ((1, 14), (3, 10))}
    assert (found.shares, found.booked) == (((1, 16), (3, 10)), ((1, 16), (3, 10)))
