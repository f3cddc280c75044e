"""A kernel's view of the node's cards: a folder as ``/sys``, beside the state file, with the files that users of NVML read.

``bus/pci/drivers/nvidia/ADDRESS`` is a link for each card that the driver has taken; one that it takes again is another link,
with another inode. Without a driver (``nvmlInit`` answers DRIVER_NOT_LOADED) that folder is gone.
``bus/pci/devices/ADDRESS/numa_node`` is the card's NUMA node, -1 if it is not known; unlike a kernel's it goes with the
driver. A lost card stays: the driver keeps it, whether it answers or not.

It is changed with the state file, under the same lock, by every change of the cards, and by nothing else. A change that
was left half done is completed by the next one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fake_nvml.core.layout import StateFile
from fake_nvml.core.records import card_slots
from fake_nvml.core.returns import Code
from fake_nvml.fake_nvml_errors import StateError

_DRIVER: Final = Path("bus/pci/drivers/nvidia")
_BUS: Final = Path("bus/pci/devices")
_DEVICES: Final = Path("devices")
# Links that the driver has let go of: while they are there, their inodes are no other link's.
_GONE: Final = Path("gone")
# In a device's folder: which card it is there for, and how often the node was started before.
_CARD: Final = "simulated_card"


def folder_of(state: Path) -> Path:
    """Where the folder of a state file lies, whatever link names the file."""
    file = state.resolve()
    return file.with_name(f"{file.name}.sys")


def prepare(folder: Path) -> None:
    """Make the folder if it is not there. Raises StateError if it may not be written."""
    parts = [folder / part for part in (_DRIVER.parent, _BUS, _DEVICES, _GONE)]
    with _explained():
        for part in parts:
            _make(folder, part)
            if not os.access(part, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(part))


def publish(folder: Path, content: StateFile, *, restarted: bool = False) -> None:
    """Write what is in ``content`` into a folder that is prepared. Raises StateError.

    A card that is there already keeps its link, unless the node has ``restarted``.
    """
    has_driver = content.header.init_return != Code.DRIVER_NOT_LOADED
    cards = dict(_cards(content)) if has_driver else {}
    with _explained():
        known = {path.name for part in (_DRIVER, _BUS, _DEVICES) for path in _entries(folder / part)}
        for address in known:
            if restarted or address not in cards or _card_at(folder, address) != cards[address][0]:
                _let_go(folder, address)
        if has_driver:
            _make(folder, folder / _DRIVER)
        elif (folder / _DRIVER).exists():
            (folder / _DRIVER).rmdir()
        for address, (card, numa) in cards.items():
            if not (folder / _DRIVER / address).is_symlink():
                _take(folder, address, card, numa)


def _cards(content: StateFile) -> Iterator[tuple[str, tuple[str, int]]]:
    """By its address, as the kernel writes it: which card it is since which start of the node, and its NUMA node."""
    for slot in card_slots(content):
        card = content.cards[slot]
        address = f"{card.pci_domain:04x}:{card.pci_bus:02x}:{card.pci_device:02x}.0"
        yield address, (f"{content.header.generation} {card.uuid.decode(errors='replace')}", card.numa)


def _card_at(folder: Path, address: str) -> str | None:
    """The card that the folder has at an address; None if only a part of it is there."""
    try:
        return "\n".join({(folder / part / address / _CARD).read_text(encoding="utf-8") for part in (_DRIVER, _BUS)})
    except OSError:
        return None


def _let_go(folder: Path, address: str) -> None:
    link = folder / _DRIVER / address
    if link.is_symlink():
        link.replace(folder / _GONE / f"{len(_entries(folder / _GONE))}")
    (folder / _BUS / address).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder / _DEVICES / address)


def _take(folder: Path, address: str, card: str, numa: int) -> None:
    device = folder / _DEVICES / address
    _make(folder, device)
    for name, text in (("numa_node", f"{numa}\n"), (_CARD, card)):
        (device / name).write_text(text, encoding="utf-8")
        (device / name).chmod(0o644)
    (folder / _BUS / address).symlink_to(f"../../../{_DEVICES}/{address}")
    (folder / _DRIVER / address).symlink_to(f"../../../../{_DEVICES}/{address}")


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _make(top: Path, folder: Path) -> None:
    """A folder, and those between it and ``top``, that any process of the node may read, whatever the umask is."""
    if folder != top:
        _make(top, folder.parent)
    else:
        folder.parent.mkdir(parents=True, exist_ok=True)
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(
            f"{error.filename} cannot be written: {error.strerror}; "
            "it lies beside the state file, and a change of cards writes both"
        ) from error
