"""The file of CDI with our own devices of limits: written before an answer names one, and again if it was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from gpushare.deviceplugin.core.limit_devices import (
    BUNDLES,
    FILE_NAME,
    LimitDevice,
    LimitDevices,
    bundle_text,
    file_text,
    kept,
    read_devices,
    with_pod,
)

_OTHERS_READ: Final = 0o644


class LimitDeviceFile:
    """The devices of one node, in ``folder``, which the host has at the same path; ``hook`` is the command of NVIDIA's program.

    ``error`` is why the file could not be written, "" if it was.
    """

    def __init__(self, folder: Path, hook: tuple[str, ...]) -> None:
        self._folder = folder
        self._hook = hook
        self._lock = asyncio.Lock()
        self.error = ""

    async def add(self, uid: str, devices: Collection[LimitDevice]) -> None:
        """A pod is given these devices. Raises OSError."""
        async with self._lock:
            await self._change(lambda known: with_pod(known, devices, uid))

    async def keep(self, living: Collection[str], booked: LimitDevices) -> None:
        """Keep the devices of these pods, among them those that they booked. Raises OSError."""
        async with self._lock:
            await self._change(lambda known: kept(known, living, booked))

    async def _change(self, make: Callable[[LimitDevices], LimitDevices]) -> None:
        try:
            await asyncio.to_thread(self._write, make)
        except OSError as error:
            self.error = f"cannot write devices of limits: {error}"
            raise
        self.error = ""

    def _write(self, make: Callable[[LimitDevices], LimitDevices]) -> None:
        path = self._folder / FILE_NAME
        before = path.read_bytes() if path.exists() else b""
        devices = make(read_devices(before))
        for mib in {one.mib for one in devices}:
            bundle = self._folder / BUNDLES / str(mib) / "config.json"
            if not bundle.exists():
                bundle.parent.mkdir(parents=True, exist_ok=True)
                _replace(bundle, bundle_text(mib))
        text = file_text(devices, self._hook, str(self._folder))
        if text != before and (devices or before):
            _replace(path, text)


def _replace(path: Path, text: bytes) -> None:
    """No program reads half of it, and a full disk leaves the one of before."""
    beside = path.with_suffix(".new")
    try:
        beside.write_bytes(text)
        beside.chmod(_OTHERS_READ)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
