"""C arguments as ctypes hands them to a function written in Python: reading them, and writing through them.

A C library gets addresses; a Python function gets the objects that pynvml made: ``byref(x)``, arrays, pointers. Structs
are written by field name, so each version of pynvml may bring its own.
"""

from __future__ import annotations

import ctypes
from typing import Any

from fake_nvml.core.returns import Code, ReturnCodeError


def target(argument: Any) -> Any:
    """The object behind an output argument. Raises INVALID_ARGUMENT for NULL."""
    if argument is None:
        raise ReturnCodeError(Code.INVALID_ARGUMENT)
    if hasattr(argument, "_obj"):  # byref()
        return argument._obj
    return argument.contents if hasattr(argument, "contents") else argument


def number(argument: Any) -> int:
    """A number passed by value."""
    return int(getattr(argument, "value", argument))


def text(argument: Any) -> str:
    """A C string passed in. Raises INVALID_ARGUMENT for NULL."""
    value = getattr(argument, "value", argument)
    if value is None:
        raise ReturnCodeError(Code.INVALID_ARGUMENT)
    return bytes(value).decode(errors="replace")


def address(handle: Any) -> int:
    """The address in an opaque handle, 0 for NULL."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def write_number(argument: Any, value: int) -> None:
    """Write through a pointer to a number."""
    target(argument).value = value


def write_text(buffer: Any, size: Any, value: bytes) -> None:
    """Fill a text buffer of ``size`` bytes. Raises INSUFFICIENT_SIZE if text and NUL do not fit."""
    if len(value) + 1 > number(size):
        raise ReturnCodeError(Code.INSUFFICIENT_SIZE)
    target(buffer).value = value


def write_handle(argument: Any, value: int) -> None:
    """Write an address through a pointer to an opaque handle."""
    ctypes.c_void_p.from_buffer(target(argument)).value = value


def write_field_handle(struct: Any, field: str, value: int) -> None:
    """Write an address into a handle that is a field of a struct."""
    offset = getattr(type(struct), field).offset
    ctypes.c_void_p.from_buffer(struct, offset).value = value
