"""A card as it is scheduled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    """One card of a node and how much of it is booked, in units of ``aliyun.com/gpu-mem``.

    ``used`` may exceed ``total`` (a pod that bypassed the extender, a card that was swapped for a smaller one): then
    nothing is free, never a wrapped number (defect D12 of the original).

    ``slots`` is how many containers the card takes at the same time on a node in slots mode, ``slots_used`` how many are booked;
    0 slots mean that the node is in ids mode, which does not count containers. ``uuid``, ``model`` and ``numa`` are empty
    if the node does not publish them. ``unit_mib`` is how many MiB a unit is, 0 if the node does not publish that.
    """

    index: int
    total: int
    used: int = 0
    healthy: bool = True
    uuid: str = ""
    model: str = ""
    slots: int = 0
    slots_used: int = 0
    numa: int = 0
    unit_mib: int = 0

    @property
    def free(self) -> int:
        """Units that a new pod can have: none on a sick card."""
        return max(self.total - self.used, 0) if self.healthy else 0

    @property
    def free_slots(self) -> int:
        """Containers that the card can still take: none on a sick card. Without meaning in ids mode."""
        return max(self.slots - self.slots_used, 0) if self.healthy else 0

    def booked(self, used: int, slots_used: int) -> Device:
        """The same card with these amounts booked; as ``dataclasses.replace``, in half of its time. Most cards often stay."""
        if used == self.used and slots_used == self.slots_used:
            return self
        return Device(
            self.index, self.total, used, self.healthy, self.uuid, self.model, self.slots, slots_used, self.numa, self.unit_mib
        )  # fmt: skip

    def holds(self, units: int, slots: int) -> bool:
        """Is there room for these units, and in slots mode for this many containers beside those that it has?"""
        return self.free >= units and (not self.slots or self.free_slots >= slots)
