"""A card as it is scheduled, and the amount of a booking on a node that counts in another unit than when the pod was bound. Pure.

An amount of ``aliyun.com/gpu-mem`` is a number without its unit, and pods outlive a change of ``--memory-unit``. The size of the
card, which the binder writes on the pod in the same unit (``ALIYUN_COM_GPU_MEM_DEV``), shows which unit that was: no card has
1024 GiB, and none that is shared has less than 1024 MiB. These are the units of the original. On a node with another unit, such as
``256MiB``, there are no pods of an earlier unit, because only our device plugin has such units and it waits for their end
(``deviceplugin/core/former_unit``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpushare.model.quantity import MIB_PER_GIB

_MIB: Final = 1


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


def unit_of_size(card_units: int) -> int:
    """MiB of the unit in which a card has ``card_units`` units: a GiB, or one MiB."""
    return _MIB if card_units >= MIB_PER_GIB else MIB_PER_GIB


def units_now(units: int, size_then: int, card: Device) -> int:
    """The units of ``card`` that a pod holds which was bound with ``units`` while the card had ``size_then`` (0: not known).

    A card that has its former size counts in its former unit. Rounded up. A larger unit makes the number smaller only if the card
    has fewer units than the pod holds: then the number is certainly one of the former unit, so no annotation can make a booking of
    the present unit look smaller.
    """
    now = card.unit_mib or unit_of_size(card.total)
    if size_then in (0, card.total) or now not in (_MIB, MIB_PER_GIB):
        return units
    then = unit_of_size(size_then)
    if then > now:
        return units * MIB_PER_GIB
    return -(-units // MIB_PER_GIB) if then < now and units > card.total else units
