"""NVML's own numbers: return codes, struct versions, bits of events, field ids, architectures.

The texts of return codes, as nvmlErrorString gives them, are those of the real libraries of ``symbols.txt``.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import Final, Self

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
ARCHITECTURES: Final = MappingProxyType({(10, 0): 10, (9, 0): 9, (8, 9): 8, (8, 0): 7, (7, 5): 6, (7, 0): 5, (6, 0): 4})

# The last two of a link's capabilities; all before them are alike.
NVLINK_CAPABILITY_SLI: Final = 4
NVLINK_CAPABILITY_VALID: Final = 5
NVLINK_TO_CARD: Final = 0
NVLINK_TO_SWITCH: Final = 2
# Where the node's NVSwitches are on the PCI bus, beyond all cards, and their device; the addresses are made up.
NVSWITCH_BUS: Final = 0xC8
NVSWITCH_ID: Final = 0x22A310DE

TOPOLOGY_INTERNAL: Final = 0
TOPOLOGY_SINGLE: Final = 10
TOPOLOGY_HOSTBRIDGE: Final = 30
TOPOLOGY_NODE: Final = 40
TOPOLOGY_SYSTEM: Final = 50

P2P_NVLINK: Final = 2
P2P_ATOMICS: Final = 3
P2P_LAST: Final = 4
P2P_OK: Final = 0
P2P_CHIPSET_NOT_SUPPORTED: Final = 1
P2P_NOT_SUPPORTED: Final = 5

# The code of a fault, not of NVML: the call answers SUCCESS and does nothing.
DOES_NOTHING: Final = 0x7FFFFFFF

UNKNOWN_TEXT: Final = "Unknown Error"


class Code(IntEnum):
    """NVML's return codes by name, as nvml.h has them without their prefix.

    Each has its number, its text, and the first branch with that text in its library; between two libraries that were
    read, the younger.
    """

    text: str
    since: int

    SUCCESS = 0, "Success"
    UNINITIALIZED = 1, "Uninitialized"
    INVALID_ARGUMENT = 2, "Invalid Argument"
    NOT_SUPPORTED = 3, "Not Supported"
    NO_PERMISSION = 4, "Insufficient Permissions"
    ALREADY_INITIALIZED = 5, "Already Initialized"
    NOT_FOUND = 6, "Not Found"
    INSUFFICIENT_SIZE = 7, "Insufficient Size"
    INSUFFICIENT_POWER = 8, "Insufficient External Power"
    DRIVER_NOT_LOADED = 9, "Driver Not Loaded"
    TIMEOUT = 10, "Timeout"
    IRQ_ISSUE = 11, "Interrupt Request Issue"
    LIBRARY_NOT_FOUND = 12, "NVML Shared Library Not Found"
    FUNCTION_NOT_FOUND = 13, "Function Not Found"
    CORRUPTED_INFOROM = 14, "Corrupted infoROM"
    GPU_IS_LOST = 15, "GPU is lost"
    RESET_REQUIRED = 16, "GPU requires reset"
    OPERATING_SYSTEM = 17, "GPU access blocked by the operating system"
    LIB_RM_VERSION_MISMATCH = 18, "Driver/library version mismatch"
    IN_USE = 19, "In use by another client", 418
    MEMORY = 20, "Insufficient Memory"
    NO_DATA = 21, "No data", 525
    VGPU_ECC_NOT_SUPPORTED = 22, "vGPU ECC not supported", 525
    INSUFFICIENT_RESOURCES = 23, "Insufficient Resources", 450
    FREQ_NOT_SUPPORTED = 24, "Invalid Frequency", 470
    ARGUMENT_VERSION_MISMATCH = 25, "Argument version mismatch", 525
    DEPRECATED = 26, "Requested functionality has been deprecated", 525
    NOT_READY = 27, "System is not in ready state", 535
    GPU_NOT_FOUND = 28, "No supported GPUs were found", 550
    INVALID_STATE = 29, "Resource not in correct state to perform requested operation", 550
    RESET_TYPE_NOT_SUPPORTED = 30
    UNKNOWN = 999

    def __new__(cls, code: int, text: str = UNKNOWN_TEXT, since: int = 0) -> Self:
        """A member is its number, with its text and branch beside it."""
        member = int.__new__(cls, code)
        member._value_, member.text, member.since = code, text, since
        return member


CODES: Final = {code.name: int(code) for code in Code}


def code_name(code: int) -> str:
    """NVML's name of a return code, the number if it has none."""
    if code == DOES_NOTHING:
        return Code.SUCCESS.name
    return Code(code).name if code in CODES.values() else str(code)
