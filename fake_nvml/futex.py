"""Wake the threads that sleep on a number in shared memory, as the library in C does while it waits for events.

A thread that cannot be woken looks again after 50 ms, so a machine without the call is only slower.
"""

from __future__ import annotations

import ctypes
import platform
from typing import Any, Final

# Linux numbers the call by processor.
_NUMBERS: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
_WAKE: Final = 1
_ALL: Final = 2**31 - 1


def wake_all(record: Any, offset: int) -> None:
    """Wake all sleepers, in any process, on the number at ``offset`` of a ctypes record in a shared mapping."""
    call, number = getattr(ctypes.CDLL(None), "syscall", None), _NUMBERS.get(platform.machine())
    if call is None or number is None:
        return
    address = ctypes.c_void_p(ctypes.addressof(record) + offset)
    call(ctypes.c_long(number), address, ctypes.c_int(_WAKE), ctypes.c_int(_ALL), None, None, ctypes.c_int(0))
