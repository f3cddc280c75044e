"""Promises of gpushare.model.overuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.bounds import OVERUSE_TEXT, OVERUSERS
from gpushare.model.overuse import CardOveruse, encode_overuse, read_overuse
from gpushare.model.quantity import LARGEST

UIDS = st.uuids().map(str)
NUMBERS = st.integers(0, LARGEST)
PODS = st.lists(st.builds(CardOveruse, UIDS, st.integers(0, 127), NUMBERS, NUMBERS), max_size=8)


@given(found=PODS)
def test_reader_gets_what_the_writer_published(found: list[CardOveruse]) -> None:
    """In the order of cards, whatever the order of the look."""
    assert read_overuse(encode_overuse(found)) == tuple(sorted(found, key=lambda one: (one.index, one.uid)))


def test_no_pods_are_no_annotation() -> None:
    """The annotation goes away with the last pod."""
    assert encode_overuse([]) == ""
    assert read_overuse(None) == read_overuse("") == ()


def test_worst_pods_of_too_many_are_named() -> None:
    """The text stays within what its readers take, and with the largest numbers too."""
    pods = [CardOveruse(f"{number:036}", 0, 1024, 1024 + number) for number in range(1000)]
    named = read_overuse(encode_overuse(pods))
    largest = [CardOveruse("u" * 36, 127, LARGEST, LARGEST)] * 1000

    assert [one.used - 1024 for one in named] == [*range(1000 - OVERUSERS.most, 1000)]
    assert len(encode_overuse(largest)) <= OVERUSE_TEXT.most


@pytest.mark.parametrize(
    "text",
    [
        "no json", "{}", '[["u",0,1]]', '[["u",0,1,"2"]]', '[["u",-1,1,2]]', f'[["u",0,1,{LARGEST + 1}]]',
        f'[["{"u" * 254}",0,1,2]]', f'[["u",0,1,2]]{" " * OVERUSE_TEXT.most}', '[["\ud800",0,1,2]]',
        "[" + '["u",0,1,2],' * OVERUSERS.most + '["u",0,1,2]]', "[" * 1500 + "]" * 1500,
    ],
)  # fmt: skip
def test_a_text_that_is_not_ours_names_no_pods(text: str) -> None:
    """A node can write anything."""
    assert read_overuse(text) == ()
