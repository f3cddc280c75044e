"""Faults of the plugin's own container, which only a new container cures. Pure.

A container can lose its access to the devices while it runs: a reload of systemd rewrites its device rules, or the driver is
replaced below the library that is loaded. NVML then fails in this process for ever, although the cards are well. So the plugin
ends, and the kubelet makes a new container for it. At its start it waits longer, so that a really broken driver does not
become a crash loop::

    NVML answered before in this process    ends after 30 s of the fault
    it never answered                       ends after 5 minutes
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gpushare.errors import GpushareError

SECONDS: Final = 30.0
SECONDS_AT_START: Final = 300.0


class ContainerFaultError(GpushareError):
    """NVML does not answer in this container any more, so the plugin ends."""


class ContainerFault:
    """How long NVML has failed in such a way. ``clock`` gives seconds and only goes forward."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        self._limit = SECONDS_AT_START

    def works(self) -> None:
        """NVML answers, or fails in another way."""
        self._since = None

    def answered(self) -> None:
        """NVML has shown the cards."""
        self._since, self._limit = None, SECONDS

    def fails(self, reason: str) -> str:
        """NVML fails in such a way; what to report. Raises ContainerFaultError once that has lasted."""
        now = self._clock()
        self._since = now if self._since is None else self._since
        if now - self._since >= self._limit:
            raise ContainerFaultError(
                f"{reason}; it has lasted {now - self._since:.0f} s, and only a new container may cure it"
            )
        return f"{reason}; only a new container may cure that, so this one ends if it lasts {self._limit:.0f} s"
