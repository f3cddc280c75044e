"""What a kernel says of the node's cards: a folder as ``/sys``, beside the state file, with what programs that use NVML read there.

``bus/pci/drivers/nvidia/ADDRESS`` is a link for each card that the driver has taken; one that it takes anew is another link,
with another inode. ``bus/pci/devices/ADDRESS/numa_node`` is the card's NUMA node, -1 where it is not known. A lost card stays:
the driver keeps it, whether it answers or not.

Only whoever changes which cards are there writes it, and needs the state file's folder for that; one state file, one writer
at a time (``mapping``).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from fake_nvml.errors import StateError
from fake_nvml.layout import Card, StateFile
from fake_nvml.records import card_slots

_DRIVER: Final = Path("bus/pci/drivers/nvidia")
_BUS: Final = Path("bus/pci/devices")
_DEVICES: Final = Path("devices")
# The links that the driver let go of last: while they are there their inodes are nobody else's.
_GONE: Final = Path("gone")


def folder_of(state: Path) -> Path:
    """Where the folder of a state file lies."""
    return state.with_name(f"{state.name}.sys")


def tell(folder: Path, content: StateFile) -> None:
    """Let ``folder`` say what is in ``content``; a card that it tells of already keeps its link. Raises StateError."""
    # A device's folder is named by what makes it another one: the card, and how often the node was started.
    cards = {
        _address(content.cards[slot]): (f"{content.header.generation}-{content.cards[slot].uuid.decode()}", slot)
        for slot in card_slots(content)
    }
    try:
        for path in (_DRIVER, _BUS, _DEVICES, _GONE):
            (folder / path).mkdir(parents=True, exist_ok=True)
        told = {link.name: link.readlink().name for link in (folder / _DRIVER).iterdir()}
        for address, device in told.items():
            if cards.get(address, ("", 0))[0] != device:
                _let_go(folder, address, device)
        for address, (device, slot) in cards.items():
            if told.get(address) != device:
                _take(folder, address, device, content.cards[slot].numa)
    except OSError as error:
        raise StateError(
            f"{error.filename} cannot be written: {error.strerror}; a kernel's word on the cards is there"
        ) from error


def _let_go(folder: Path, address: str, device: str) -> None:
    (folder / _DRIVER / address).replace(folder / _GONE / address)
    (folder / _BUS / address).unlink(missing_ok=True)
    shutil.rmtree(folder / _DEVICES / device, ignore_errors=True)


def _take(folder: Path, address: str, device: str, numa: int) -> None:
    (folder / _DEVICES / device).mkdir(exist_ok=True)
    (folder / _DEVICES / device / "numa_node").write_text(f"{numa}\n", encoding="ascii")
    for parent, up in ((_BUS, "../../.."), (_DRIVER, "../../../..")):
        (folder / parent / address).unlink(missing_ok=True)
        (folder / parent / address).symlink_to(f"{up}/{_DEVICES}/{device}")


def _address(card: Card) -> str:
    """As the kernel writes it: a domain of four digits, small letters."""
    return f"{card.pci_domain:04x}:{card.pci_bus:02x}:{card.pci_device:02x}.0"
