"""``nvidia-smi -L`` of a simulated container, answered from its NVML: run by its path, so it needs only the standard library.

NVIDIA's own program does not run on the simulated library (README.md), and nothing but ``-L`` is answered.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence


def main(argv: Sequence[str]) -> int:
    """Exit codes as NVIDIA's: 0, 6 for a query that is not answered, 9 without a driver."""
    if list(argv) != ["-L"]:
        sys.stderr.write("nvidia-smi: simulated; it answers -L only\n")
        return 6
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        library = None
    if library is None or library.nvmlInit_v2() != 0:
        sys.stdout.write("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n")
        return 9
    for line in _lines(library):
        sys.stdout.write(f"{line}\n")
    return 0


def _lines(library: ctypes.CDLL) -> Iterator[str]:
    count = ctypes.c_uint()
    library.nvmlDeviceGetCount_v2(ctypes.byref(count))
    for index in range(count.value):
        handle = ctypes.c_void_p()
        name, uuid = ctypes.create_string_buffer(96), ctypes.create_string_buffer(96)
        code = library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
        code = code or library.nvmlDeviceGetName(handle, name, len(name))
        code = code or library.nvmlDeviceGetUUID(handle, uuid, len(uuid))
        if code:
            library.nvmlErrorString.restype = ctypes.c_char_p
            yield f"Unable to determine the device handle for gpu {index}: {library.nvmlErrorString(code).decode()}"
        else:
            yield f"GPU {index}: {name.value.decode()} (UUID: {uuid.value.decode()})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
