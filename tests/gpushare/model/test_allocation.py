"""Promises of gpushare.model.allocation."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpushare.errors import InvalidAllocationError
from gpushare.manifests import Pod
from gpushare.model.allocation import Allocation, blanks, decode, encode, read_allocation

ONE_CARD = st.builds(
    Allocation,
    shares=st.tuples(st.tuples(st.integers(0, 63), st.integers(1, 200_000))),
    device_units=st.integers(0, 200_000),
    assume_time=st.integers(0, 2**63 - 1),
    assigned=st.booleans(),
)


@example(Allocation(((0, 6),), 14, 1795239503289469921))
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
    """No index and no multi-card annotation: no card is chosen yet."""
    assert decode(annotations, 3) is None


def test_the_multi_card_annotation_wins_and_is_summed_by_card() -> None:
    """Containers of one pod may share a card; the index and the mark beside it add nothing. A low POD frees no memory."""
    one_card = decode({"ALIYUN_COM_GPU_MEM_IDX": "1", "ALIYUN_COM_GPU_MEM_POD": "1"}, 8)
    assert one_card is not None
    assert one_card.shares == ((1, 8),)
    text = json.dumps({"1": {"3": 10}, "0": {"3": 2, "1": 8}})
    others = {"ALIYUN_COM_GPU_MEM_IDX": "0", "ALIYUN_COM_GPU_MEM_REPAIR": "2"}
    allocation = decode({"scheduler.framework.gpushare.allocation": text, **others}, 20)

    assert allocation is not None
    assert (allocation.shares, allocation.units, allocation.index) == (((1, 8), (3, 12)), 20, 1)
    assert (allocation.by_container, allocation.booked) == ({0: ((1, 8), (3, 2)), 1: ((3, 10),)}, allocation.shares)


@pytest.mark.parametrize("index", ["-1", "", "x", "1.0", " 1", "+1", "١", "1" * 20, "1_0", "x" * 300])
def test_an_index_that_is_no_card_number_is_an_error(index: str) -> None:
    """The error names the annotation and the beginning of its value."""
    with pytest.raises(InvalidAllocationError, match=re.escape(f"ALIYUN_COM_GPU_MEM_IDX is {index[:200]!r}, not a")):
        decode({"ALIYUN_COM_GPU_MEM_IDX": index}, 1)


@pytest.mark.parametrize("name", ["ALIYUN_COM_GPU_MEM_DEV", "ALIYUN_COM_GPU_MEM_ASSUME_TIME"])
def test_a_number_that_cannot_be_read_is_an_error(name: str) -> None:
    """The error names the annotation, whichever it is; one that is not there is 0."""
    with pytest.raises(InvalidAllocationError, match=f"annotation {name} is 'x', not a number from 0 up"):
        decode({"ALIYUN_COM_GPU_MEM_IDX": "0", name: "x"}, 1)
    assert decode({"ALIYUN_COM_GPU_MEM_IDX": "0"}, 1) == Allocation(((0, 1),), 0, 0)


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
        '{"0":{"1":%s}}' % ("9" * 4000),
        '{"0":{"%s":1}}' % ("1" * 4000),
        '{"%s":{"1":1}}' % ("1" * 4000),
    ],
)
def test_a_multi_card_annotation_that_makes_no_sense_is_an_error(text: str) -> None:
    """Broken JSON, no card, wrong numbers."""
    with pytest.raises(InvalidAllocationError, match="gpushare.allocation"):
        decode({"scheduler.framework.gpushare.allocation": text}, 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"0":{"1":4}}', "names 4 units, and the pod asks for 20"),
        ('{"0":{"1":999,"3":12}}', "names 1011 units, and the pod asks for 20"),
        ('{"0":{"1":8},"1":{"3":12}}', "names 8 units for container 0, which asks for 10"),
        ('{"0":{"1":10},"2":{"3":10}}', "names 0 units for container 1, which asks for 10"),
        ('{"0":{"1":10},"1":{"1":10},"2":{"3":0}}', None),
    ],
)
def test_amounts_are_those_that_are_asked_for(text: str, reason: str | None) -> None:
    """The multi-card annotation gives each container what it asks for, no more and no less, or it is none."""
    annotations = {"scheduler.framework.gpushare.allocation": text}
    if reason is None:
        assert decode(annotations, 20, [10, 10]) is not None
        return
    with pytest.raises(InvalidAllocationError, match=reason):
        decode(annotations, 20, [10, 10])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"0":{"1":20%s}}' % (" " * 250_000), "limited to 8192 characters"),
        (json.dumps({"0": {str(card): 1 for card in range(600)}}), "limited to 512 entries"),
    ],
    ids=["characters", "entries"],
)
def test_a_long_allocation_is_refused(text: str, reason: str) -> None:
    """The reason is short, however long the annotation is."""
    with pytest.raises(InvalidAllocationError, match=reason) as found:
        decode({"scheduler.framework.gpushare.allocation": text}, 20)
    assert len(str(found.value)) < 500


@pytest.mark.parametrize(
    ("text", "containers", "found"),
    [
        ('{"0":{"1":8},"1":{"3":12}}', (8, 12), ((1, 8), (3, 12))),
        ('{"0":{"1":8},"1":{"3":12}}', (20,), None),
        ('{"0":{"1":8},"1":{"3":12}}', (8, 4), None),
        ('{"0":{"1":1}}', (1,), ((1, 1),)),
    ],
    ids=["as asked", "one", "less", "one unit"],
)
def test_a_pod_is_read_with_its_containers(text: str, containers: tuple[int, ...], found: object) -> None:
    """The pod's spec has the request of each container; a pod on one card needs no such look."""
    limits = [{"name": f"c{at}", "resources": {"limits": {"aliyun.com/gpu-mem": n}}} for at, n in enumerate(containers)]
    pod = msgspec.convert(
        {
            "metadata": {"annotations": {"scheduler.framework.gpushare.allocation": text}},
            "spec": {"containers": limits},
        },
        Pod,
    )
    allocation, problem = read_allocation(pod, pod.metadata.annotations)
    assert (allocation and allocation.shares, problem is None) == (found, found is not None)


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


@pytest.mark.parametrize(
    ("text", "card"),
    [("0", 0), ("", None), ("-1", None), ("x", None), ("1", None), ("\u0661", None)],
    ids=["another card", "empty", "negative", "word", "same card", "digit"],
)
def test_a_mark_of_repair_books_the_other_card_too(text: str, card: int | None) -> None:
    """The same amount, until the mark is gone; one that names no other card is none: the index alone is a complete allocation."""
    found = decode(encode(Allocation(((1, 6),), 14)) | {"ALIYUN_COM_GPU_MEM_REPAIR": text}, 6)

    assert found is not None
    assert (found.index, found.repair, found.shares) == (1, card, ((1, 6),))
    assert found.booked == (((1, 6),) if card is None else ((0, 6), (1, 6)))
