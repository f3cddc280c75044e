"""Promises of gpushare.nvml.session about the cards of the kernel, whose folder is laid out as by NVIDIA's driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpushare.nvml.session import bound_cards


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """The driver's folder, with the files that each driver has."""
    folder = tmp_path / "bus/pci/drivers/nvidia"
    folder.mkdir(parents=True)
    for name in ("bind", "new_id", "remove_id", "uevent", "unbind"):
        (folder / name).touch()
    (folder / "module").symlink_to("../../../../module/nvidia")
    return folder


def bind(driver: Path, address: str) -> None:
    (driver / address).symlink_to(f"../../../../devices/pci0000:00/{address}")


def test_each_card_that_the_driver_serves_is_there(tmp_path: Path, driver: Path) -> None:
    """Cards, not the driver's own files; the links may lead nowhere here."""
    assert bound_cards(tmp_path) == frozenset()
    bind(driver, "0000:3b:00.0")
    bind(driver, "0000:86:00.0")

    assert {address for address, _ in bound_cards(tmp_path) or ()} == {"0000:3b:00.0", "0000:86:00.0"}
    assert bound_cards(tmp_path) == bound_cards(tmp_path)


def test_a_card_at_the_same_address_is_another(tmp_path: Path, driver: Path) -> None:
    """Pulled and plugged in, or bound again after a reset, between two looks."""
    bind(driver, "0000:3b:00.0")
    before = bound_cards(tmp_path)
    # Under another name first: the old link's inode is still taken.
    (driver / "new").symlink_to("../../../../devices/pci0000:00/0000:3b:00.0")
    (driver / "new").rename(driver / "0000:3b:00.0")

    assert bound_cards(tmp_path) != before


def test_a_kernel_without_the_driver_does_not_say(tmp_path: Path) -> None:
    """A kernel without the driver gives no list, which is not the same as the empty list of a driver without cards."""
    assert bound_cards(tmp_path) is None
