"""A program of its own, so that a library that crashes ends it alone: load NVIDIA's libraries, and print their answers as JSON.

It changes nothing: NVML is started and ended, CUDA is only loaded.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

NVML = "libnvidia-ml.so.1"
LIBRARIES = (NVML, "libcuda.so.1")


def probe() -> dict[str, Any]:
    """By library the error of loading it, "" without one; of NVML its error, and whether each card is in MIG mode."""
    errors, loaded = {}, {}
    for name in LIBRARIES:
        try:
            loaded[name] = ctypes.CDLL(name)
            errors[name] = ""
        except OSError as error:
            errors[name] = str(error)
    nvml, mig = _ask_nvml(loaded[NVML]) if NVML in loaded else ("", [])
    return {"libraries": errors, "nvml": nvml, "mig": mig}


def _ask_nvml(library: Any) -> tuple[str, list[bool]]:
    """NVML's error, "" without one, and the MIG mode of each card."""
    library.nvmlErrorString.restype = ctypes.c_char_p
    if code := library.nvmlInit_v2():
        return f"{library.nvmlErrorString(code).decode(errors='replace')} ({code})", []
    try:
        count = ctypes.c_uint()
        library.nvmlDeviceGetCount_v2(ctypes.byref(count))
        return "", [_is_mig(library, index) for index in range(count.value)]
    finally:
        library.nvmlShutdown()


def _is_mig(library: Any, index: int) -> bool:
    """Drivers before R450 have no such function, and most cards no such mode."""
    handle, now, pending = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_uint()
    if not hasattr(library, "nvmlDeviceGetMigMode"):
        return False
    if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)):
        return False
    failed = library.nvmlDeviceGetMigMode(handle, ctypes.byref(now), ctypes.byref(pending))
    return not failed and now.value == 1


if __name__ == "__main__":
    json.dump(probe(), sys.stdout)
