"""The catalogue: figures that callers depend on, by driver era."""

from __future__ import annotations

import pytest

from fake_nvml.card_models import catalogue, model
from fake_nvml.core.box_cards import CardModel
from fake_nvml.fake_nvml_errors import CatalogueError

MODELS = sorted(catalogue().values(), key=lambda card: card.id)


@pytest.mark.parametrize(
    ("card", "driver", "expected"),
    [
        ("t4", "418.87.00", 15079),
        ("t4", "435.21", 15109),
        ("t4", "470.57.02", 15109),
        ("t4", "510.39.01", 15360),
        ("gtx1080ti", "418.87.00", 11178),
        ("gtx1080ti", "535.104.05", 11264),
        ("v100-sxm2-16gb", "418.87.00", 16160),
        ("v100-sxm2-32gb", "535.104.05", 32768),
        ("a10", "470.57.02", 22731),
        ("a100-sxm4-40gb", "470.57.02", 40536),
        ("a100-sxm4-80gb", "535.104.05", 81920),
        ("l4", "535.104.05", 23034),
        ("l40s", "535.104.05", 46068),
        ("h100-sxm5-80gb", "535.104.05", 81559),
        ("h200", "570.124.06", 143771),
        ("rtx4090", "550.54.15", 24564),
    ],
)
def test_a_card_has_the_total_of_the_driver_era(card: str, driver: str, expected: int) -> None:
    """Drivers from 510 on count reserved memory."""
    assert model(card).memory_mib(driver) == expected


@pytest.mark.parametrize(
    ("card", "driver", "expected"),
    [
        ("gtx1080ti", "418.87", "GeForce GTX 1080 Ti"),
        ("gtx1080ti", "470.57", "NVIDIA GeForce GTX 1080 Ti"),
        ("t4", "418.87", "Tesla T4"),
        ("t4", "570.124", "Tesla T4"),
        ("a100-sxm4-40gb", "460.32", "A100-SXM4-40GB"),
    ],
)
def test_names_change_with_the_driver_and_a_t4_keeps_its(card: str, driver: str, expected: str) -> None:
    """NVIDIA put its own name in front at a driver that each model has."""
    assert model(card).name(driver) == expected


TESLA, GEFORCE, NVIDIA = 2, 5, 14


@pytest.mark.parametrize(
    ("card", "driver", "expected"),
    [
        ("t4", "418.87", TESLA),
        ("t4", "470.57", TESLA),
        ("t4", "530.30.02", NVIDIA),
        ("a100-sxm4-40gb", "450.80", TESLA),
        ("a100-sxm4-80gb", "535.129.03", NVIDIA),
        ("a10", "535.247.01", NVIDIA),
        ("l40s", "550.127.05", NVIDIA),
        ("h100-sxm5-80gb", "615.71.09", NVIDIA),
        ("v100-sxm2-16gb", "550.127.05", TESLA),
        ("v100-pcie-16gb", "570.124.06", TESLA),
        ("v100-pcie-32gb", "418.87", TESLA),
        ("gtx1080ti", "418.87", GEFORCE),
        ("gtx1080ti", "535.104", GEFORCE),
        ("rtx4090", "580.65", GEFORCE),
    ],
)
def test_the_brand_changes_with_the_driver(card: str, driver: str, expected: int) -> None:
    """Data-centre cards that are newer than the V100 were of the brand Tesla first; an RTX card of a gamer is a GeForce."""
    assert model(card).brand(driver) == expected


@pytest.mark.parametrize("card", ["gtx1080ti", "v100-sxm2-16gb", "v100-pcie-32gb"])
def test_pascal_and_volta_end_with_branch_580(card: str) -> None:
    """A later driver does not list the card."""
    assert model(card).name("580.65.06")
    with pytest.raises(CatalogueError, match=f"does not know the card {card}; it needs one of 3.. to 580"):
        model(card).name("590.48.01")


def test_only_new_drivers_show_what_they_keep_for_themselves() -> None:
    """Before 510 the reserved part is 0."""
    assert (model("t4").reserved_mib("470.57"), model("t4").reserved_mib("535.1")) == (0, 393)


@pytest.mark.parametrize("card", MODELS, ids=lambda card: card.id)
def test_every_entry_is_complete_and_of_the_right_types(card: CardModel) -> None:
    """No other code checks them before the YAML is used."""
    tables = (card.names, card.memory, card.reserved, card.brands)
    assert all(isinstance(first, int) for table in tables for first in table)
    assert all(isinstance(name, str) for name in card.names.values())
    assert all(isinstance(mib, int) and (mib > 0 or card.id == "gb10") for mib in card.memory.values())
    assert min(card.names) == min(card.memory) == min(card.brands)
    assert set(card.brands.values()) <= {TESLA, GEFORCE, NVIDIA}
    assert 0 < card.pci_device < 0x10000
    assert all(isinstance(value, int) for value in (card.watts, card.nvlinks, card.mig, *card.compute))
    assert isinstance(card.data_center, bool)
    assert all(
        len(clocks) == 3 and all(isinstance(mhz, int) for mhz in clocks) for clocks in (card.clocks, card.idle_clocks)
    )
    assert all(idle <= most for idle, most in zip(card.idle_clocks, card.clocks, strict=True))
    assert (card.idle_state in (0, 8), card.pcie in range(1, 7), card.fan is None or 0 <= card.fan <= 100) == (
        True,
    ) * 3


def test_the_pci_ids_tell_models_apart() -> None:
    """No two models have the same."""
    assert len({card.pci_device for card in MODELS}) == len(MODELS)
