"""Plays the end of NVIDIA's hook ``apply-cuda-memory-limits``: limits a cgroup on some cards, and reads nothing back.

``python -I -S hook_program.py CGROUP SOFT HARD UUID ...``, amounts in bytes. Exit code 127 and the loader's words if the library
is older than limits; 1 and the error at the first card that fails. It imports nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import sys

_SET = "nvmlDeviceSetMemoryLimits_v1"
_HOOK = "/usr/bin/nvidia-cdi-hook"


class _Limits(ctypes.Structure):
    _fields_ = (  # type: ignore[mutable-override]  # ctypes declares it mutable
        ("directory", ctypes.c_char_p),
        ("soft", ctypes.c_uint64),
        ("hard", ctypes.c_uint64),
    )


def main(cgroup: str, soft: str, hard: str, *uuids: str) -> str | int:
    """0, 127, or the error."""
    library = ctypes.CDLL("libnvidia-ml.so.1")
    library.nvmlErrorString.restype = ctypes.c_char_p
    if not hasattr(library, _SET):
        sys.stderr.write(f"{_HOOK}: symbol lookup error: {_HOOK}: undefined symbol: {_SET}\n")
        return 127
    if code := library.nvmlInit_v2():
        return f"failed to initialize nvml: {_text(library, code)}"
    for uuid in uuids:
        handle = ctypes.c_void_p()
        if code := library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)):
            return f"failed to get GPU device handle with uuid {uuid}: {_text(library, code)}"
        limits = _Limits(cgroup.encode(errors="surrogateescape"), int(soft), int(hard))
        if code := getattr(library, _SET)(handle, ctypes.byref(limits)):
            return f'failed to set memory limits for gpu "{uuid}": {_text(library, code)}'
    library.nvmlShutdown()
    return 0


def _text(library: ctypes.CDLL, code: int) -> str:
    return bytes(library.nvmlErrorString(code)).decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
