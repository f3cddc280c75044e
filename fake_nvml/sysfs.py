"""A kernel's view of the node's cards: a folder as ``/sys``, beside the state file, with the files that users of NVML read.

``bus/pci/drivers/nvidia/ADDRESS`` is a link for each card that the driver has taken; one that it takes again is another link,
with another inode. Without a driver (``nvmlInit`` answers DRIVER_NOT_LOADED) that folder is gone.
``bus/pci/devices/ADDRESS`` leads to the card's folder below its PCIe root, ``devices/pciDOMAIN:BUS/ADDRESS``: its NUMA node
(-1 if it is not known), ids, class and driver, and the head of its configuration space. Its memory regions are all empty.
Unlike a kernel's it goes with the driver. A lost card stays: the driver keeps it, whether it answers or not.

It is changed with the state file, under the same lock, by every change of the cards, and by nothing else. A change that
was left half done is completed by the next one.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from fake_nvml.core.layout import Card, StateFile
from fake_nvml.core.records import card_slots
from fake_nvml.core.returns import Code
from fake_nvml.fake_nvml_errors import StateError

_DRIVER: Final = Path("bus/pci/drivers/nvidia")
_BUS: Final = Path("bus/pci/devices")
_DEVICES: Final = Path("devices")
# Links that the driver has let go of: while they are there, their inodes are no other link's.
_GONE: Final = Path("gone")
# Flags of the kernel: namespaces of mounts and of users; mounts that are seen nowhere else, and with all that is below them.
_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_BIND, _OWN_MOUNTS = 0x5000, 0x44000
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
        known = {path.name for part in (_DRIVER, _BUS) for path in _entries(folder / part)}
        known |= {path.name for path in (folder / _DEVICES).glob("pci*/*")}
        for address in known:
            if restarted or address not in cards or _card_at(folder, address) != cards[address][_CARD]:
                _let_go(folder, address)
        if has_driver:
            _make(folder, folder / _DRIVER)
        elif (folder / _DRIVER).exists():
            (folder / _DRIVER).rmdir()
        for slot in card_slots(content) if has_driver else ():
            card = content.cards[slot]
            if not (folder / _DRIVER / _address(card)).is_symlink():
                root = f"pci{card.pci_domain:04x}:{card.pci_root:02x}"
                _take(folder, f"{_DEVICES}/{root}/{_address(card)}", cards[_address(card)])


def mount(folder: Path, real: Path = Path("/sys")) -> None:
    """Let this process, and the programs that it becomes or starts, see the simulated cards below ``/sys``.

    Their mounts are their own. All else below ``/sys`` stays as it is. Raises StateError if the kernel refuses it.
    """
    with _explained():
        others = [path for path in _entries(real / _DEVICES) if not path.name.startswith("pci")]
        for path in others:
            _make(folder, folder / _DEVICES / path.name)
    user, group = os.getuid(), os.getgid()
    _call("unshare", _NEW_MOUNTS if user == 0 else _NEW_MOUNTS | _NEW_USER)
    if user:
        for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path("/proc/self", file).write_text(text, encoding="ascii")
    _call("mount", None, b"/", None, ctypes.c_ulong(_OWN_MOUNTS), None)
    bound = [(path, folder / _DEVICES / path.name) for path in others]
    for source, target in (*bound, *((folder / part, real / part) for part in (_DEVICES, _BUS.parent))):
        _call("mount", bytes(source), bytes(target), None, ctypes.c_ulong(_BIND), None)


def _call(function: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments) != 0:
        raise StateError(
            f"the simulated cards cannot be mounted at /sys: {function}: {os.strerror(ctypes.get_errno())}; "
            "run as root, or where users may make namespaces"
        )


def _address(card: Card) -> str:
    """As the kernel writes it."""
    return f"{card.pci_domain:04x}:{card.pci_bus:02x}:{card.pci_device:02x}.0"


def _cards(content: StateFile) -> Iterator[tuple[str, dict[str, bytes]]]:
    """The files of each card, by its address; the one that no kernel has is which card it is since which start of the node."""
    for slot in card_slots(content):
        card = content.cards[slot]
        # A card without a screen is a 3D controller, one with a screen a VGA controller.
        kind = 0x030200 if card.ecc_supported else 0x030000
        vendor, device = card.pci_device_id & 0xFFFF, card.pci_device_id >> 16
        numbers = {"vendor": vendor, "device": device}
        numbers |= {"subsystem_vendor": card.pci_subsystem_id & 0xFFFF, "subsystem_device": card.pci_subsystem_id >> 16}
        yield (
            _address(card),
            {
                _CARD: b"%d %s" % (content.header.generation, card.uuid),
                "numa_node": b"%d\n" % card.numa,
                "resource": b" ".join([b"0x%016x" % 0] * 3) + b"\n",
                "config": struct.pack("<HHIxBBB", vendor, device, 0, 0, kind >> 8 & 0xFF, kind >> 16).ljust(256, b"\0"),
                **{name: b"0x%04x\n" % number for name, number in numbers.items()},
                "class": b"0x%06x\n" % kind,
            },
        )


def _card_at(folder: Path, address: str) -> bytes | None:
    """The card that the folder has at an address; None if only a part of it is there."""
    try:
        return b"\n".join({(folder / part / address / _CARD).read_bytes() for part in (_DRIVER, _BUS)})
    except OSError:
        return None


def _let_go(folder: Path, address: str) -> None:
    link = folder / _DRIVER / address
    if link.is_symlink():
        link.replace(folder / _GONE / f"{len(_entries(folder / _GONE))}")
    (folder / _BUS / address).unlink(missing_ok=True)
    for device in (folder / _DEVICES).glob(f"pci*/{address}"):
        shutil.rmtree(device)
        with contextlib.suppress(OSError):  # another card is below this root
            device.parent.rmdir()


def _take(folder: Path, place: str, files: Mapping[str, bytes]) -> None:
    device = folder / place
    _make(folder, device)
    for name, content in files.items():
        (device / name).write_bytes(content)
        (device / name).chmod(0o644)
    (device / "driver").symlink_to(f"../../../{_DRIVER}")
    (folder / _BUS / device.name).symlink_to(f"../../../{place}")
    (folder / _DRIVER / device.name).symlink_to(f"../../../../{place}")


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
