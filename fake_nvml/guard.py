"""Simulated cards on a machine with a real driver need a request on purpose.

A person who finds eight cards that do not exist on a node with one that does has lost a day. So next to a real driver
the variable ``FAKENVML_STATE`` must be set; a path on a command line, or the default path, is not enough.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fake_nvml.fake_nvml_errors import RealDriverError

STATE_VARIABLE: Final = "FAKENVML_STATE"
DEFAULT_STATE: Final = Path("/run/fakenvml/state")
# Where the kernel module of a real driver shows itself.
DRIVER_FOLDER: Final = Path("/proc/driver/nvidia")


def check_real_driver(*, on_purpose: bool, driver_folder: Path = DRIVER_FOLDER) -> None:
    """Raise RealDriverError if there is a real driver, unless ``on_purpose``: the variable is set."""
    if driver_folder.exists() and not on_purpose:
        raise RealDriverError(
            f"this machine has a real NVIDIA driver ({driver_folder}); "
            f"to have simulated cards all the same, set {STATE_VARIABLE} to the path of their state file"
        )
