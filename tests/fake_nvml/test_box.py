"""Boxes: the cards of a node."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_nvml.box import MAX_CARDS, Box, box_names
from fake_nvml.core.drivers import cuda_version
from fake_nvml.fake_nvml_errors import CatalogueError

UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.mark.parametrize("name", box_names())
def test_every_box_loads_under_its_own_driver(name: str) -> None:
    """Each card of a box is recorded, or one that its driver knows."""
    box = Box.load(name, seed="node")
    assert all(card.fields or card.model.name(box.driver) for card in box.cards)


@pytest.mark.parametrize(
    ("name", "models"),
    [
        ("gtx1080tix1", ["gtx1080ti"]),
        ("t4x1", ["t4"]),
        ("t4x2", ["t4", "t4"]),
        ("mixed", ["t4", "t4", "gtx1080ti"]),
        ("a100x8", ["a100-sxm4-80gb"] * 8),
        ("none", []),
    ],
)
def test_a_box_has_its_cards_in_order(name: str, models: list[str]) -> None:
    """Models and counts are as the file lists them."""
    assert [card.model.id for card in Box.load(name, seed="node").cards] == models


def test_the_cards_of_two_sockets_say_which() -> None:
    """Half of the eight are on each NUMA node."""
    assert [card.numa for card in Box.load("a100x8", seed="node").cards] == [0, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("driver", "full", "cuda"),
    [("418", "418.87.00", 10010), ("470", "470.161.03", 11040), ("535", "535.104.05", 12020)],
)
def test_a_bare_branch_stands_for_a_release_of_it(driver: str, full: str, cuda: int) -> None:
    """A branch has the CUDA version of that release."""
    box = Box.load("t4x1", seed="node", driver=driver)

    assert (box.driver, cuda_version(box.driver)) == (full, cuda)


def test_without_a_seed_a_box_is_that_of_one_node() -> None:
    """The default seed is always the same."""
    assert Box.load("mixed", seed=None) == Box.load("mixed", seed="node")


@given(st.text(), st.text())
def test_uuids_follow_from_the_seed_and_from_nothing_else(one: str, other: str) -> None:
    """Two seeds share no UUID."""
    first, again, others = (Box.load("mixed", seed=seed) for seed in (one, one, other))
    uuids = {card.uuid for card in first.cards}
    assert first == again
    assert len(uuids) == 3
    assert all(UUID.fullmatch(uuid) for uuid in uuids)
    assert one == other or uuids.isdisjoint(card.uuid for card in others.cards)


def test_a_file_is_a_box_too_and_a_driver_can_be_given(tmp_path: Path) -> None:
    """The argument wins over the file's driver."""
    path = tmp_path / "my.yaml"
    path.write_text('driver: "418.87"\ncards: [{model: t4, count: 2, numa: 1}]')

    box = Box.load(str(path), seed="node", driver="535.104.05")

    assert (box.driver, cuda_version(box.driver)) == ("535.104.05", 12020)
    assert [(card.model.id, card.numa) for card in box.cards] == [("t4", 1), ("t4", 1)]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("\udcff\udcfe\0", "cannot be read as YAML"),
        ("{", "cannot be read as YAML"),
        ("[]", "keys driver and cards"),
        ('driver: "418.87"\ncards: []\ncolour: red', "keys driver and cards"),
        ("driver: 418.87\ncards: []", "quote it"),
        ("cards: []", "driver is None"),
        ('driver: "new"\ncards: []', "no driver version"),
        ('driver: "418.87"', "cards is not a list"),
        ('driver: "418.87"\ncards: [t4]', r"cards\[0\]: 't4' is no card"),
        ('driver: "418.87"\ncards: [{model: t4, cuont: 2}]', r"cards\[0\]"),
        ('driver: "418.87"\ncards: [{model: t4}, {model: t4, count: -1}]', r"cards\[1\]: count"),
        ('driver: "418.87"\ncards: [{model: t4, count: true}]', "whole numbers"),
        ('driver: "418.87"\ncards: [{model: t4, numa: near}]', "whole numbers"),
        ('driver: "418.87"\ncards: [{model: t4, below_root: 0}]', "below_root is one from 1"),
        ('driver: "418.87"\ncards: [{model: t9}]', "no card 't9'"),
        ('driver: "418.87"\ncards: [{model: l4}]', "does not know the card l4"),
        ('driver: "418.87"\ncards: [{model: t4, count: 60}, {model: t4, count: 60}]', "120 cards"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_what_is_wrong(tmp_path: Path, content: str, says: str) -> None:
    """The place in the file is named."""
    path = tmp_path / "bad.yaml"
    path.write_bytes(content.encode(errors="surrogateescape"))

    with pytest.raises(CatalogueError, match=rf"bad\.yaml: .*{says}"):
        Box.load(str(path), seed="node")


def test_a_name_that_is_no_box_is_refused_with_the_boxes() -> None:
    """The error lists the known ones."""
    with pytest.raises(CatalogueError, match=r"no box and no file 't4x9'.*mixed"):
        Box.load("t4x9", seed="node")


def test_a_full_box_holds_as_many_cards_as_the_state_file(tmp_path: Path) -> None:
    """A box with as many cards as the state file holds is accepted."""
    path = tmp_path / "full.yaml"
    path.write_text(f'driver: "418.87"\ncards: [{{model: t4, count: {MAX_CARDS}}}]')

    assert len(Box.load(str(path), seed="node").cards) == MAX_CARDS


def test_a_box_says_what_its_cards_do_not_answer(tmp_path: Path) -> None:
    """A name without a version, or without what was asked for, is all of them."""
    path = tmp_path / "box.yaml"
    names = "nvmlDeviceGetMemoryInfo, nvmlDeviceGetClockInfo memory, nvmlDeviceGetPcieThroughput"
    path.write_text(f'driver: "535"\ncards: [{{model: t4, refuses: {{UNKNOWN: [{names}]}}}}]')

    (card,) = Box.load(str(path), seed="node").cards

    assert card.refused == dict.fromkeys(
        (
            "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetClockInfo memory",
            "nvmlDeviceGetPcieThroughput received", "nvmlDeviceGetPcieThroughput sent",
        ), 999,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("refuses", "says"),
    [
        ("{NOT_SUPPORTED: [nvmlDeviceGetMood]}", "no function 'nvmlDeviceGetMood'"),
        ("{SAD: [nvmlDeviceGetName]}", "not a return code"),
        ("{NOT_SUPPORTED: nvmlDeviceGetName}", "not a return code"),
        ("[nvmlDeviceGetName]", "not a return code"),
    ],
)
def test_what_no_card_can_refuse_is_an_error(tmp_path: Path, refuses: str, says: str) -> None:
    """Functions and codes are checked."""
    path = tmp_path / "box.yaml"
    path.write_text(f'driver: "535"\ncards: [{{model: t4, refuses: {refuses}}}]')

    with pytest.raises(CatalogueError, match=says):
        Box.load(str(path), seed="node")
