"""Calls of NVML, through pynvml in this process, where pynvml itself answers less than the library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pynvml

DRIVERS = ("418.87.00", "470.57.02", "525.85.12", "535.104.05", "550.54.15", "580.65.06")
# The driver of this machine.
REAL = "real"
UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, INSUFFICIENT_SIZE = 1, 2, 3, 4, 6, 7
TIMEOUT, FUNCTION_NOT_FOUND, GPU_IS_LOST, UNKNOWN = 10, 13, 15, 999
SINGLE_BIT, DOUBLE_BIT, XID = 0x1, 0x2, 0x8
WHOLE_CARD = 0xFFFFFFFF


def code(call: Callable[..., Any], *arguments: Any, **named: Any) -> int:
    """NVML's code of a call, 0 if it succeeds."""
    try:
        call(*arguments, **named)
    except pynvml.NVMLError as error:
        return int(error.value)
    return 0


def raw(name: str, *arguments: Any) -> int:
    """The code of a C function below pynvml."""
    return int(pynvml._nvmlGetFunctionPointer(name)(*arguments))


def wait(events: Any, timeout_ms: int = 0) -> Any:
    """The next event, by the newest way that the driver has: an older one leaves the last fields as they are."""
    name = "nvmlEventSetWait_v2" if hasattr(pynvml.nvmlLib, "nvmlEventSetWait_v2") else "nvmlEventSetWait"
    event = pynvml.c_nvmlEventData_t(gpuInstanceId=WHOLE_CARD, computeInstanceId=WHOLE_CARD)
    pynvml._nvmlCheckReturn(raw(name, events, ctypes.byref(event), ctypes.c_uint(timeout_ms)))
    return event


def address(handle: Any) -> int:
    """The card of a handle, for a comparison."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def cards() -> list[Any]:
    """The handles of all cards that are listed."""
    return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]


def init_again() -> None:
    """Shut NVML down, and be its first user again."""
    shut_down()
    pynvml.nvmlInit()


def shut_down() -> None:
    """As often as NVML was initialised."""
    while pynvml._nvmlLib_refcount > 0:
        pynvml.nvmlShutdown()
