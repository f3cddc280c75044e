"""Which cards the kernel's NVIDIA driver has, without asking NVML: a change of it is a card that came, went or was exchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_DRIVER: Final = Path("bus/pci/drivers/nvidia")


def bound_cards(sysfs: Path) -> frozenset[tuple[str, int]] | None:
    """PCI address and inode of each card that the driver serves; None if the kernel does not show them (no such driver, no sysfs).

    The kernel makes a link for a device when its driver takes it. A device that is taken again, also the same one after a
    reset, has another inode.
    """
    try:
        # Beside the links to devices, with names that are addresses as 0000:3b:00.0, the folder has the driver's own files.
        return frozenset((link.name, link.lstat().st_ino) for link in (sysfs / _DRIVER).iterdir() if ":" in link.name)
    except OSError:
        return None
