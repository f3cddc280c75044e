"""The amount of a booking on a node that counts in another unit than when the pod was bound. Pure.

An amount of ``aliyun.com/gpu-mem`` is a number without its unit, and pods outlive a change of ``--memory-unit``. The size of the
card, which the binder writes on the pod in the same unit (``ALIYUN_COM_GPU_MEM_DEV``), shows which unit that was: no card has
1024 GiB, and none that is shared has less than 1024 MiB. These are the units of the original. On a node with another unit, such as
``256MiB``, there are no pods of an earlier unit, because only our device plugin has such units and it waits for their end
(``deviceplugin/core/former_unit``).
"""

from __future__ import annotations

from typing import Final

from gpushare.model.device import Device
from gpushare.model.quantity import MIB_PER_GIB

_MIB: Final = 1


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
