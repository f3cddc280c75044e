"""A card as it is scheduled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    """One card of a node and how much of it is booked, in units of ``aliyun.com/gpu-mem``.

    ``used`` may exceed ``total`` (a pod that bypassed the extender, a card that was swapped for a smaller one): then
    nothing is free, never a wrapped number (defect D12 of the original).
    """

    index: int
    total: int
    used: int = 0
    healthy: bool = True
    uuid: str = ""
    model: str = ""

    @property
    def free(self) -> int:
        """Units that a new pod can have: none on a sick card."""
        return max(self.total - self.used, 0) if self.healthy else 0
