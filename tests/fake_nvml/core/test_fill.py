"""A box as records: what each field of a card begins with, and which calls the card refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fake_nvml.core.answers import KEYS, OF_NVLINKS
from fake_nvml.core.box_cards import BoxCard, CardModel
from fake_nvml.core.fill import MIB, architecture, fill
from fake_nvml.core.layout import UNKNOWN32, StateFile, blank
from fake_nvml.core.returns import Code
from fake_nvml.eras import RECOVERY_ACTION_SINCE
from fake_nvml.fake_nvml_errors import CatalogueError

FULL = CardModel(
    "full", {400: "Old", 500: "New"}, {400: 1000, 500: 1024}, pci_device=0x1EB8, compute=(7, 5), watts=80, brands={0: 2},
    data_center=True, reserved={500: 24}, nvlinks=3, nvswitches=2, mig=4, clocks=(1590, 5001, 1470), idle_clocks=(300, 405, 540),
    pcie=3, fan=23,
)  # fmt: skip
BARE = CardModel(
    "bare",
    {400: "Bare"},
    {400: 1000},
    pci_device=1,
    compute=(5, 2),
    watts=9,
    brands={0: 5},
    data_center=False,
    idle_state=0,
)


def filled(*cards: BoxCard, driver: str = "535.104.05", content: StateFile | None = None, **refused: int) -> StateFile:
    """The records of a box."""
    content = content or blank()
    fill(content, driver, cards, refused)
    return content


def shown(record: Any) -> dict[str, Any]:
    """The fields that are not zero."""
    fields = {name: getattr(record, name) for name, _ in record._fields_ if name not in ("refused", "reserved")}
    return {name: value for name, value in fields.items() if value}


def refusals(record: Any) -> dict[str, int]:
    """The calls that are not answered."""
    return {KEYS[place]: code for place, code in enumerate(record.refused) if code}


def test_each_field_of_a_card_is_its_models() -> None:
    """Idle and healthy, with the name and the memory of the driver."""
    content = blank()
    content.header.next_event = 5
    content.header.card_count = 1
    filled(BoxCard(BARE, "GPU-b", "", None), BoxCard(FULL, "GPU-a", "123", 0), content=content)

    assert shown(content.cards[1]) == {
        "uuid": b"GPU-a", "name": b"New", "serial": b"123", "minor": 1, "memory_total": 1024 * MIB,
        "memory_reserved": 24 * MIB, "pci_bus": 7, "pci_device_id": 0x1EB810DE, "pci_subsystem_id": 0x1EB810DE,
        "compute_major": 7, "compute_minor": 5, "brand": 2, "nvlinks": 3, "temperature": 33, "power": 10_000,
        "power_limit": 80_000, "mig_slices": 4, "ecc_supported": 1, "ecc_mode": 1, "ecc_pending": 1, "first_event": 5,
        "events": 0b1011, "architecture": 6, "idle_state": 8, "fan": 23, "fans": 1, "sampling_period": 167_000,
        "clock_graphics": 1590, "clock_sm": 1590, "clock_memory": 5001, "clock_video": 1470, "idle_graphics": 300,
        "idle_sm": 300, "idle_memory": 405, "idle_video": 540, "pcie_generation": 3, "idle_pcie_generation": 1,
        "pcie_width": 16, "nvswitches": 2, "pci_root": 6,
    }  # fmt: skip
    assert shown(content.cards[0]) == {
        "uuid": b"GPU-b", "name": b"Bare", "memory_total": 1000 * MIB, "pci_bus": 4, "pci_device_id": 0x000110DE,
        "pci_subsystem_id": 0x000110DE, "numa": -1, "compute_major": 5, "compute_minor": 2, "brand": 5,
        "temperature": 33, "power": 1125, "power_limit": 9000, "first_event": 5, "events": 0b1000,
        "architecture": UNKNOWN32, "sampling_period": 167_000, "pcie_width": 16, "pci_root": 3,
    }  # fmt: skip


def test_a_card_refuses_what_its_model_lacks() -> None:
    """Without fans each number of a fan is wrong. A function that the driver lacks is absent, and not refused."""
    content = filled(
        BoxCard(BARE, "GPU-b", "", None), BoxCard(replace(FULL, fan=0), "GPU-a", "1", 0), driver="580.65.06"
    )
    lacking = [f"TotalEccErrors {kind}" for kind in ("corrected", "uncorrected")]
    lacking += ["Serial", "EccMode", "MigMode", "FanSpeed", "MemoryAffinity"]
    lacking += [key.removeprefix("nvmlDeviceGet") for key in OF_NVLINKS]

    assert refusals(content.cards[0]) == {
        **{f"nvmlDeviceGet{name}": Code.NOT_SUPPORTED for name in lacking},
        "nvmlDeviceGetFanSpeed_v2": Code.INVALID_ARGUMENT,
    }
    assert refusals(content.cards[1]) == {}
    older = filled(BoxCard(BARE, "GPU-b", "", None), driver="418.87.00")
    assert "nvmlDeviceGetMigMode" not in refusals(older.cards[0])
    (unanswered,) = refusals(filled(BoxCard(FULL, "GPU-a", "1", 0)).cards[0])
    assert unanswered == "nvmlDeviceGetFieldValues recovery action"
    first = f"{RECOVERY_ACTION_SINCE}.10"
    assert refusals(filled(BoxCard(FULL, "GPU-a", "1", 0), driver=first).cards[0]) == {}


def test_a_card_of_unknown_memory_refuses_to_tell_it() -> None:
    """Memory that the card shares with the processor."""
    shared = replace(FULL, memory={400: 0}, reserved={})

    assert {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"} <= refusals(
        filled(BoxCard(shared, "GPU-a", "1", 0)).cards[0]
    ).keys()


def test_recorded_fields_and_refusals_win() -> None:
    """A recorded card has its own address, and the others get what is left; it refuses what it refused."""
    fields: dict[str, int | bytes] = {"pci_bus": 4, "architecture": 9, "fan": 61, "name": b"Recorded"}
    recorded = BoxCard(FULL, "GPU-r", "", None, fields, {"nvmlDeviceGetBrand": Code.NO_PERMISSION})
    content = filled(BoxCard(FULL, "GPU-a", "1", 0), recorded)

    assert [card.pci_bus for card in content.cards[:2]] == [5, 4]
    card = content.cards[1]
    assert (card.architecture, card.fan, card.name) == (9, 61, b"Recorded")
    assert refusals(card) == {"nvmlDeviceGetBrand": Code.NO_PERMISSION}


def test_a_new_box_leaves_nothing_of_the_old() -> None:
    """Events go on from the last number, so that no listener gets one twice."""
    content = blank()
    content.header.next_event, content.header.generation, content.header.process_rows = 300, 8, 2
    content.header.init_return = content.header.missing_files = 1
    content.header.refused[0] = 3
    content.cards[5].uuid = b"GPU-old"
    content.processes[1].kind = content.events[7].number = content.faults[3].used = 1
    filled(BoxCard(FULL, "GPU-a", "1", 0), content=content, nvmlSystemGetProcessName=Code.NOT_SUPPORTED)

    header = content.header
    assert shown(header) == {
        "magic": b"FAKENVML", "version": 4, "size": 221_696, "generation": 9, "next_event": 300, "card_count": 1,
        "cuda": 12020, "driver": b"535.104.05",
    }  # fmt: skip
    assert refusals(header) == {"nvmlSystemGetProcessName": Code.NOT_SUPPORTED}
    tables: tuple[Any, ...] = (content.cards[1:], content.processes, content.events, content.faults)
    assert [row for table in tables for row in table if any(bytes(row))] == []


@pytest.mark.parametrize("read", [FULL.name, FULL.memory_mib], ids=["name", "memory"])
def test_a_driver_that_is_too_old_knows_no_card(read: Callable[[str], object]) -> None:
    """The error names the driver, the card and the driver that the card needs."""
    with pytest.raises(CatalogueError, match=r"^driver 390\.116 does not know the card full; it needs 400 or newer$"):
        read("390.116")


def test_a_driver_that_is_too_old_changes_nothing() -> None:
    """The error names the driver that the card needs."""
    content = blank()
    with pytest.raises(CatalogueError, match="needs 400 or newer"):
        filled(BoxCard(FULL, "GPU-a", "1", 0), driver="390.116", content=content)

    assert not any(bytes(content.cards))


@pytest.mark.parametrize(
    ("compute", "number"),
    [
        ((5, 2), UNKNOWN32),
        ((6, 0), 4),
        ((6, 1), 4),
        ((7, 0), 5),
        ((7, 5), 6),
        ((8, 6), 7),
        ((8, 9), 8),
        ((9, 0), 9),
        ((10, 0), 10),
        ((12, 1), 10),
    ],
)
def test_an_architecture_begins_at_a_compute_capability(compute: tuple[int, int], number: int) -> None:
    """NVML has a number for each since Pascal."""
    assert architecture(*compute) == number
