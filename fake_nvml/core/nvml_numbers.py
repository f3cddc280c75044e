"""NVML's own numbers that both libraries use: struct versions, bits of events, field ids, architectures."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

# Version of a struct, as its caller writes it into the first field: number << 24 | size.
MEMORY_V2: Final = 0x02000028
TEMPERATURE_V1: Final = 0x0100000C

EVENT_SINGLE_BIT: Final = 0x1
EVENT_DOUBLE_BIT: Final = 0x2
EVENT_XID: Final = 0x8

# "What recovers this card", and how its value is given.
FIELD_RECOVERY_ACTION: Final = 230
VALUE_UNSIGNED_INT: Final = 1

# Compute capability from which on (major, minor) -> NVML's architecture number, newest first; the last is Pascal.
ARCHITECTURES: Final = MappingProxyType({(9, 0): 9, (8, 9): 8, (8, 0): 7, (7, 5): 6, (7, 0): 5, (6, 0): 4})
