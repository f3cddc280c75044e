"""The kubelet of a case: what a case may do with it, whether it is our stand-in or a real one."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class KubeletUnderTest(Protocol):
    """One node's kubelet, up between ``open`` and ``close``."""

    node: str
    """The Node's name."""
    minor: int
    """Of its Kubernetes release: 36 for 1.36."""
    plugin_folder: Path
    """Its folder for device plugins, where this process can serve a socket."""
    pod_resources_socket: Path
    """Where this process can ask it which container has which devices."""

    async def open(self) -> None:
        """Come up, or be there already."""

    async def close(self) -> None:
        """Leave nothing of the case; pods and plugins are gone by then."""

    async def stop(self) -> None:
        """Go down; containers run on."""

    async def start(self) -> None:
        """Come up again, with new sockets; returns when plugins can register."""

    async def reboot(self) -> None:
        """The machine restarts: all containers end, the checkpoint stays."""

    def lose_checkpoint(self) -> None:
        """The file in which it keeps the devices of containers is removed; it is down during that."""
