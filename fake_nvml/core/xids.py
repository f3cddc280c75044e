"""The effects of an Xid on a card, beside the event: errors counted by its memory, and what the driver advises.

The table is data. That 48 advises a reset was seen in NVML's answers; what 48, 63, 64, 94 and 95 mean for memory is from
NVIDIA's pages on retired pages and remapped rows; the advice of all others is inferred from what operators do about them.
Xids that are not listed leave nothing: those of applications (13, 31, 43, 45, 68, 109) and those that were not looked up. A card
is never lost by an Xid alone (``fake-nvml xid --lose``), also not by 79.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

# NVML's advice, field 230.
NONE, GPU_RESET, NODE_REBOOT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Xid:
    """``meaning`` for people; ``corrected`` and ``uncorrected`` errors are added if the card has ECC."""

    meaning: str
    corrected: int = 0
    uncorrected: int = 0
    recovery_action: int = NONE


XIDS: Mapping[int, Xid] = MappingProxyType(
    {
        46: Xid("the card stopped working on its queue", recovery_action=GPU_RESET),
        48: Xid("a double-bit error of the memory", uncorrected=1, recovery_action=GPU_RESET),
        62: Xid("the card's own processor halted", recovery_action=GPU_RESET),
        63: Xid("a page retired or a row to be remapped", uncorrected=1, recovery_action=GPU_RESET),
        64: Xid("retiring a page or remapping a row failed", uncorrected=1, recovery_action=GPU_RESET),
        74: Xid("an NVLink error", recovery_action=GPU_RESET),
        79: Xid("the card fell off the bus", recovery_action=NODE_REBOOT),
        92: Xid("many single-bit errors of the memory", corrected=16),
        94: Xid("an uncorrectable error, contained in one program", uncorrected=1),
        95: Xid("an uncorrectable error, not contained", uncorrected=1, recovery_action=GPU_RESET),
        119: Xid("the card's system processor timed out", recovery_action=GPU_RESET),
        120: Xid("the card's system processor failed", recovery_action=GPU_RESET),
        140: Xid("an uncorrectable error that was not recovered", uncorrected=1, recovery_action=GPU_RESET),
    }
)
UNLISTED = Xid("leaves nothing on the card")
