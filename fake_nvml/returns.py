"""NVML's return codes, and their texts as nvmlErrorString gives them."""

from __future__ import annotations

from typing import Final

SUCCESS: Final = 0
UNINITIALIZED: Final = 1
INVALID_ARGUMENT: Final = 2
NOT_SUPPORTED: Final = 3
NO_PERMISSION: Final = 4
NOT_FOUND: Final = 6
INSUFFICIENT_SIZE: Final = 7
DRIVER_NOT_LOADED: Final = 9
TIMEOUT: Final = 10
GPU_IS_LOST: Final = 15
RESET_REQUIRED: Final = 16
LIB_RM_VERSION_MISMATCH: Final = 18
IN_USE: Final = 19
MEMORY: Final = 20
ARGUMENT_VERSION_MISMATCH: Final = 25

TEXTS: Final = {
    SUCCESS: b"Success",
    UNINITIALIZED: b"Uninitialized",
    INVALID_ARGUMENT: b"Invalid Argument",
    NOT_SUPPORTED: b"Not Supported",
    NO_PERMISSION: b"Insufficient Permissions",
    NOT_FOUND: b"Not Found",
    INSUFFICIENT_SIZE: b"Insufficient Size",
    DRIVER_NOT_LOADED: b"Driver Not Loaded",
    TIMEOUT: b"Timeout",
    GPU_IS_LOST: b"GPU is lost",
    RESET_REQUIRED: b"GPU requires restart",
    LIB_RM_VERSION_MISMATCH: b"Driver/library version mismatch",
    IN_USE: b"In use by another client",
    MEMORY: b"Insufficient Memory",
    ARGUMENT_VERSION_MISMATCH: b"Argument version mismatch",
}
UNKNOWN_TEXT: Final = b"Unknown Error"


class ReturnCodeError(Exception):
    """Ends a call with a code other than SUCCESS. Never leaves the library."""

    def __init__(self, code: int) -> None:
        super().__init__(TEXTS.get(code, UNKNOWN_TEXT).decode())
        self.code = code
