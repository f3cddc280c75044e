#!/opt/gpushare/bin/python
"""The device plugin on simulated cards, for tests: ``fake-nvml exec`` in front of it.

It refuses beside a real driver, also when FAKENVML_STATE is set: an image of simulated cards has no business on such a node.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

DRIVER = Path("/proc/driver/nvidia")
PROGRAM = "/opt/gpushare/bin/gpushare-device-plugin"


def main(driver: Path = DRIVER) -> int:
    """Become the plugin. Exit code 1 if there is a real driver, or no state file."""
    arguments = sys.argv[1:]
    if driver.exists():
        sys.stderr.write(
            f"gpushare-device-plugin-simulated: {driver} is here, a real NVIDIA driver; this image has simulated cards only: "
            "use gpushare/device-plugin\n"
        )
        return 1
    if {"-h", "-help", "--help"} & set(arguments):
        os.execv(PROGRAM, [PROGRAM, *arguments])  # noqa: S606  # no shell is the point
    sys.path.insert(0, "/opt/simulated-nvml/site")
    from fake_nvml.guard import DEFAULT_STATE, STATE_VARIABLE
    from fake_nvml.main import main as fake_nvml
    from fake_nvml.sysfs import folder_of

    # The node's kernel knows nothing of the cards: what one would say lies beside them.
    sys_root = folder_of(Path(os.environ.get(STATE_VARIABLE) or DEFAULT_STATE))  # noqa: TID251  # a program's own main
    return int(fake_nvml(["exec", "--", PROGRAM, "--sys-root", str(sys_root), *arguments]))


if __name__ == "__main__":
    sys.exit(main())
