"""Boxes: the cards of a node, their models by driver, and the functions that a driver has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_nvml.box import MAX_CARDS, Box, catalogue, model
from fake_nvml.core.box_cards import CardModel
from fake_nvml.core.drivers import branch, complete, cuda_version
from fake_nvml.core.limits import LimitOptions
from fake_nvml.fake_nvml_errors import CatalogueError

UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MODELS = sorted(catalogue().values(), key=lambda card: card.id)
TESLA, GEFORCE, NVIDIA = 2, 5, 14


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
    """The argument wins over the file's driver; a box holds as many cards as a state file."""
    path = tmp_path / "my.yaml"
    path.write_text(
        f'driver: "418.87"\ncards: [{{model: t4, count: {MAX_CARDS}, numa: 1}}]\nlimits: misc\ncontext_mib: 518'
    )

    box = Box.load(str(path), seed="node", driver="535.104.05")

    assert (box.driver, cuda_version(box.driver)) == ("535.104.05", 12020)
    assert [(card.model.id, card.numa) for card in box.cards] == [("t4", 1)] * MAX_CARDS
    assert (box.limits, Box.load("t4x1", seed=None).limits) == (LimitOptions("misc", context_mib=518), LimitOptions())


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("\udcff\udcfe\0", "cannot be read as YAML"),
        ('driver: "418.87"\ncards: []\ncolour: red', "keys driver and cards"),
        ("driver: 418.87\ncards: []", "quote it"),
        ('driver: "new"\ncards: []', "no driver version"),
        ('driver: "418.87"', "cards is not a list"),
        ('driver: "418.87"\ncards: [t4]', r"cards\[0\]: 't4' is no card"),
        ('driver: "418.87"\ncards: [{model: t4}, {model: t4, count: -1}]', r"cards\[1\]: count"),
        ('driver: "418.87"\ncards: [{model: t4, below_root: 0}]', "below_root is one from 1"),
        ('driver: "418.87"\ncards: [{model: t9}]', "no card 't9'"),
        ('driver: "418.87"\ncards: [{model: l4}]', "does not know the card l4"),
        *(
            (f'driver: "615"\ncards: []\n{key}', "limits is one of dmem, misc, none")
            for key in ("limits: v1", "keeps_dead_limits: 1", "context_mib: -1")
        ),
        ('driver: "418.87"\ncards: [{model: t4, count: 60}, {model: t4, count: 60}]', "120 cards"),
        *(
            (f'driver: "535"\ncards: [{{model: t4, refuses: {refuses}}}]', says)
            for refuses, says in (
                ("{NOT_SUPPORTED: [nvmlDeviceGetMood]}", "no function 'nvmlDeviceGetMood'"),
                ("{SAD: [nvmlDeviceGetName]}", "not a return code"),
            )
        ),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_what_is_wrong(tmp_path: Path, content: str, says: str) -> None:
    """The place in the file is named."""
    path = tmp_path / "bad.yaml"
    path.write_bytes(content.encode(errors="surrogateescape"))

    with pytest.raises(CatalogueError, match=rf"bad\.yaml: .*{says}"):
        Box.load(str(path), seed="node")


def test_a_box_says_what_its_cards_do_not_answer(tmp_path: Path) -> None:
    """A name without a version, or without what was asked for, is all of them."""
    path = tmp_path / "box.yaml"
    names = "nvmlDeviceGetMemoryInfo, nvmlDeviceGetClockInfo memory, nvmlDeviceGetPcieThroughput"
    path.write_text(f'driver: "535"\ncards: [{{model: t4, refuses: {{UNKNOWN: [{names}]}}}}]')

    (card,) = Box.load(str(path), seed="node").cards

    keys = ("MemoryInfo", "MemoryInfo_v2", "ClockInfo memory", "PcieThroughput received", "PcieThroughput sent")
    assert card.refused == dict.fromkeys((f"nvmlDeviceGet{key}" for key in keys), 999)


@pytest.mark.parametrize(
    ("card", "driver", "mib", "name", "brand"),
    [
        ("t4", "418.87.00", 15079, "Tesla T4", TESLA),
        ("t4", "470.57.02", 15109, "Tesla T4", TESLA),
        ("t4", "570.124.06", 15360, "Tesla T4", NVIDIA),
        ("gtx1080ti", "418.87.00", 11178, "GeForce GTX 1080 Ti", GEFORCE),
        ("gtx1080ti", "535.104.05", 11264, "NVIDIA GeForce GTX 1080 Ti", GEFORCE),
        ("a100-sxm4-80gb", "535.104.05", 81920, "NVIDIA A100-SXM4-80GB", NVIDIA),
    ],
)
def test_a_model_is_as_its_driver_shows_it(card: str, driver: str, mib: int, name: str, brand: int) -> None:
    """Drivers from 510 on count reserved memory; names and brands change with the driver."""
    assert (model(card).memory_mib(driver), model(card).name(driver), model(card).brand(driver)) == (mib, name, brand)


@pytest.mark.parametrize("card", MODELS, ids=lambda card: card.id)
def test_every_entry_is_complete_and_of_the_right_types(card: CardModel) -> None:
    """No other code checks them before the YAML is used; no two models have the same PCI id."""
    tables = (card.names, card.memory, card.reserved, card.brands)
    assert all(isinstance(first, int) for table in tables for first in table)
    assert all(isinstance(name, str) for name in card.names.values())
    assert all(isinstance(mib, int) and (mib > 0 or card.id == "gb10") for mib in card.memory.values())
    assert min(card.names) == min(card.memory) == min(card.brands)
    assert set(card.brands.values()) <= {TESLA, GEFORCE, NVIDIA}
    assert [one.id for one in MODELS if one.pci_device == card.pci_device] == [card.id]
    assert all(isinstance(value, int) for value in (card.watts, card.nvlinks, card.mig, *card.compute))
    assert isinstance(card.data_center, bool)
    assert [len(clocks) for clocks in (card.clocks, card.idle_clocks)] == [3, 3]
    assert all(idle <= most for idle, most in zip(card.idle_clocks, card.clocks, strict=True))
    assert card.idle_state in (0, 8)
    assert card.pcie in range(1, 7)
    assert card.fan is None or 0 <= card.fan <= 100


@pytest.mark.parametrize("driver", ["", "418", "R418", "418.", "535.104.05.1", "304.1"])
def test_a_text_that_is_no_driver_is_refused(driver: str) -> None:
    """The error has a version as it should be, or the first that can be simulated."""
    says = f"driver {driver!r} is no driver version; write it as 418, 418.87 or 535.104.05"
    with pytest.raises(CatalogueError, match=f"^{says}$|^driver 304.1 is older than any .*; the first is 375$"):
        cuda_version(driver)


@pytest.mark.parametrize(
    ("driver", "full", "cuda"),
    [("418", "418.87.00", 10010), ("536", "536.00", 12020), ("375.66", "375.66", 8000), ("615", "615.71.09", 13040)],
)
def test_a_bare_branch_is_one_of_its_releases(driver: str, full: str, cuda: int) -> None:
    """A branch that is not known has the CUDA version of the one before it."""
    assert (complete(driver), cuda_version(full), branch(full)) == (full, cuda, int(full[:3]))
