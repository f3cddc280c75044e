"""NVML's return codes, and their texts as nvmlErrorString gives them: those of the real libraries of ``symbols.txt``."""

from __future__ import annotations

from typing import Final

SUCCESS: Final = 0
UNINITIALIZED: Final = 1
INVALID_ARGUMENT: Final = 2
NOT_SUPPORTED: Final = 3
NO_PERMISSION: Final = 4
ALREADY_INITIALIZED: Final = 5
NOT_FOUND: Final = 6
INSUFFICIENT_SIZE: Final = 7
INSUFFICIENT_POWER: Final = 8
DRIVER_NOT_LOADED: Final = 9
TIMEOUT: Final = 10
IRQ_ISSUE: Final = 11
LIBRARY_NOT_FOUND: Final = 12
FUNCTION_NOT_FOUND: Final = 13
CORRUPTED_INFOROM: Final = 14
GPU_IS_LOST: Final = 15
RESET_REQUIRED: Final = 16
OPERATING_SYSTEM: Final = 17
LIB_RM_VERSION_MISMATCH: Final = 18
IN_USE: Final = 19
MEMORY: Final = 20
NO_DATA: Final = 21
VGPU_ECC_NOT_SUPPORTED: Final = 22
INSUFFICIENT_RESOURCES: Final = 23
FREQ_NOT_SUPPORTED: Final = 24
ARGUMENT_VERSION_MISMATCH: Final = 25
DEPRECATED: Final = 26
NOT_READY: Final = 27
GPU_NOT_FOUND: Final = 28
INVALID_STATE: Final = 29
RESET_TYPE_NOT_SUPPORTED: Final = 30
UNKNOWN: Final = 999

# NVML's return codes by name, as nvml.h has them without their prefix.
CODES: Final = {name: code for name, code in tuple(globals().items()) if name.isupper() and type(code) is int}

_NAMES: Final = {code: name for name, code in CODES.items()}
# Code -> its text, and the first branch with that text in its library; between two libraries that were read, the younger.
TEXTS: Final = {
    SUCCESS: ("Success", 0),
    UNINITIALIZED: ("Uninitialized", 0),
    INVALID_ARGUMENT: ("Invalid Argument", 0),
    NOT_SUPPORTED: ("Not Supported", 0),
    NO_PERMISSION: ("Insufficient Permissions", 0),
    ALREADY_INITIALIZED: ("Already Initialized", 0),
    NOT_FOUND: ("Not Found", 0),
    INSUFFICIENT_SIZE: ("Insufficient Size", 0),
    INSUFFICIENT_POWER: ("Insufficient External Power", 0),
    DRIVER_NOT_LOADED: ("Driver Not Loaded", 0),
    TIMEOUT: ("Timeout", 0),
    IRQ_ISSUE: ("Interrupt Request Issue", 0),
    LIBRARY_NOT_FOUND: ("NVML Shared Library Not Found", 0),
    FUNCTION_NOT_FOUND: ("Function Not Found", 0),
    CORRUPTED_INFOROM: ("Corrupted infoROM", 0),
    GPU_IS_LOST: ("GPU is lost", 0),
    RESET_REQUIRED: ("GPU requires reset", 0),
    OPERATING_SYSTEM: ("GPU access blocked by the operating system", 0),
    LIB_RM_VERSION_MISMATCH: ("Driver/library version mismatch", 0),
    IN_USE: ("In use by another client", 418),
    MEMORY: ("Insufficient Memory", 0),
    NO_DATA: ("No data", 525),
    VGPU_ECC_NOT_SUPPORTED: ("vGPU ECC not supported", 525),
    INSUFFICIENT_RESOURCES: ("Insufficient Resources", 450),
    FREQ_NOT_SUPPORTED: ("Invalid Frequency", 470),
    ARGUMENT_VERSION_MISMATCH: ("Argument version mismatch", 525),
    DEPRECATED: ("Requested functionality has been deprecated", 525),
    NOT_READY: ("System is not in ready state", 535),
    GPU_NOT_FOUND: ("No supported GPUs were found", 550),
    INVALID_STATE: ("Resource not in correct state to perform requested operation", 550),
}
UNKNOWN_TEXT: Final = "Unknown Error"


def text_of(code: int, branch: int) -> str:
    """The text that nvmlErrorString of a driver branch answers."""
    text, since = TEXTS.get(code, (UNKNOWN_TEXT, 0))
    return text if branch >= since else UNKNOWN_TEXT


def code_name(code: int) -> str:
    """NVML's name of a return code, the number if it has none."""
    return _NAMES.get(code, str(code))


class ReturnCodeError(Exception):
    """Ends a call with a code other than SUCCESS. Never leaves the library."""

    def __init__(self, code: int) -> None:
        super().__init__(text_of(code, UNKNOWN))
        self.code = code
