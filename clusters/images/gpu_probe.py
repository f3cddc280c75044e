"""Looks, from within a GPU container, at what a program there can use; run as ``python3 -c TEXT VERB``.

It has no imports but the standard library's and runs on Python 3.6, because the text must run in any image with Python and glibc.
nvidia-smi alone proves little: it works without ``/dev/nvidia-uvm``, and no CUDA program does. So memory is taken and used.

    look [--seconds S]               NVML, nvidia-smi, variables and device files, each with its own error
    allocate --mib N --seconds S     memory of the one card through libcuda.so.1, held for S seconds

Each line of output is a JSON object: ``part`` for look, ``step`` and ``ok`` for allocate. Exit codes: 0 all right, 2 wrong call,
3 a step failed. SIGTERM gives the memory back and ends it with 0.
"""

import argparse
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import Dict, Iterator, List, Tuple

MIB = 1024 * 1024
CHUNK_MIB = 256
# How much of a chunk's beginning and end is read back, in bytes.
READ_BYTES = 4096
VARIABLES = ("NVIDIA_", "CUDA_", "ALIYUN_")
Facts = Dict[str, object]
# The address of each, and its bytes.
Chunks = List[Tuple[ctypes.c_uint64, int]]
# A simulated container names the folder that stands for its /dev.
DEV_VARIABLE = "GPU_PROBE_DEV"


class Stopped(BaseException):
    """SIGTERM came."""


class CallError(Exception):
    """A call of a library failed; ``facts`` are those of the line that reports it."""

    def __init__(self, **facts: object) -> None:
        super().__init__(str(facts.get("text", "")))
        self.facts = facts


def say(**facts: object) -> None:
    """Print a line."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def load(name: str) -> ctypes.CDLL:
    """A library by its name. Raises CallError."""
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise CallError(call="dlopen", text=str(error)) from error


def wait(seconds: float) -> None:
    """Wait for these seconds. A signal that comes just before a sleep is seen after it, so each sleep is short."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(max(0.0, min(0.5, end - time.monotonic())))


# ---- look ----


class Memory(ctypes.Structure):
    """nvmlMemory_t, in bytes."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("total", "free", "used")]  # type: ignore[mutable-override]


class Nvml:
    """libnvidia-ml.so.1, initialised."""

    def __init__(self) -> None:
        self._library = load("libnvidia-ml.so.1")
        self._library.nvmlErrorString.restype = ctypes.c_char_p
        self.call("nvmlInit_v2")

    def call(self, name: str, *arguments: object) -> None:
        """Call a function. Raises CallError."""
        code = getattr(self._library, name)(*arguments)
        if code:
            text = self._library.nvmlErrorString(code).decode(errors="replace")
            raise CallError(call=name, number=code, text=f"{name}: {text}")

    def text(self, name: str, *before: object) -> str:
        """The answer of a function that fills a buffer."""
        buffer = ctypes.create_string_buffer(96)
        self.call(name, *before, buffer, ctypes.c_uint(len(buffer)))
        return buffer.value.decode(errors="replace")

    def card(self, index: int) -> Facts:
        """One card, or why it does not answer."""
        handle, memory = ctypes.c_void_p(), Memory()
        try:
            self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
            names = {"uuid": self.text("nvmlDeviceGetUUID", handle), "name": self.text("nvmlDeviceGetName", handle)}
            self.call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        except CallError as error:
            return {"index": index, "error": str(error)}
        return {"index": index, "total_mib": memory.total // MIB, "used_mib": memory.used // MIB, **names}


def nvml() -> Facts:
    """The driver and the cards as NVML shows them."""
    library, count = Nvml(), ctypes.c_uint()
    library.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
    driver = library.text("nvmlSystemGetDriverVersion")
    return {"driver": driver, "count": count.value, "cards": [library.card(index) for index in range(count.value)]}


def nvidia_smi() -> Facts:
    """The lines of ``nvidia-smi -L``."""
    program = shutil.which("nvidia-smi")
    if program is None:
        raise CallError(text="nvidia-smi is not in PATH")
    done = subprocess.run([program, "-L"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    output = done.stdout.decode(errors="replace").strip()
    if done.returncode:
        raise CallError(text=f"nvidia-smi -L ended with {done.returncode}: {output}")
    return {"lines": output.splitlines()}


def environment() -> Facts:
    """The variables that decide about cards."""
    return {"variables": {name: value for name, value in sorted(os.environ.items()) if name.startswith(VARIABLES)}}


def device_files() -> Facts:
    """NVIDIA's files in /dev."""
    return {"files": [f"/dev/{name}" for name in device_names()]}


def device_names() -> List[str]:
    """The names of NVIDIA's files in /dev, sorted."""
    return sorted(name for name in os.listdir(os.environ.get(DEV_VARIABLE, "/dev")) if name.startswith("nvidia"))


PARTS = (("nvml", nvml), ("nvidia-smi", nvidia_smi), ("environment", environment), ("device-files", device_files))


def look(seconds: float) -> int:
    """Print each part: what it has, or its error. Then wait."""
    for name, part in PARTS:
        try:
            say(part=name, **part())
        except (CallError, OSError, AttributeError, subprocess.SubprocessError) as error:
            say(part=name, error=str(error))
    wait(seconds)
    return 0


# ---- allocate ----


class Cuda:
    """libcuda.so.1."""

    def __init__(self) -> None:
        self._library = load("libcuda.so.1")

    def call(self, name: str, *arguments: object) -> None:
        """Call a function. Raises CallError with CUDA's name of the error."""
        try:
            code = getattr(self._library, name)(*arguments)
        except AttributeError as error:
            raise CallError(call=name, text=str(error)) from error
        if code:
            error_name, text = self._word("cuGetErrorName", code), self._word("cuGetErrorString", code)
            raise CallError(call=name, number=code, error=error_name, text=text)

    def _word(self, name: str, code: int) -> str:
        word = ctypes.c_char_p()
        getattr(self._library, name)(ctypes.c_int(code), ctypes.byref(word))
        return (word.value or b"?").decode(errors="replace")

    def uuid(self, device: ctypes.c_int) -> str:
        """As NVML writes it; "" if the driver is older than the call. The second version answers a MIG instance's own."""
        names = [name for name in ("cuDeviceGetUuid_v2", "cuDeviceGetUuid") if hasattr(self._library, name)]
        if not names:
            return ""
        given = (ctypes.c_ubyte * 16)()
        self.call(names[0], given, device)
        digits = bytes(given).hex()
        return "GPU-" + "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])

    def free_mib(self) -> int:
        """The free memory of the card of the context."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value // MIB


@contextlib.contextmanager
def step(name: str) -> Iterator[Facts]:
    """A step that prints its line at its end, with the facts that are put into what it gives. A CallError goes on."""
    facts = {}  # type: Facts
    try:
        yield facts
    except CallError as error:
        facts.update(error.facts)
        say(step=name, ok=False, **facts)
        raise
    say(step=name, ok=True, **facts)


def initialize(cuda: Cuda) -> None:
    """Call cuInit; if it fails, name the device files that are missing."""
    try:
        cuda.call("cuInit", ctypes.c_uint(0))
    except CallError as error:
        names = device_names()
        missing = [f"/dev/{name}" for name in ("nvidiactl", "nvidia-uvm") if name not in names]
        if not any(re.match(r"nvidia\d+", name) for name in names):
            missing.append("/dev/nvidia0")
        hint = f"the container has no {', '.join(missing)}" if missing else "no device file is missing"
        raise CallError(missing=missing, hint=hint, **error.facts) from error


def take_chunks(cuda: Cuda, mib: int, taken: Chunks) -> None:
    """Take the memory, and note each chunk in ``taken`` before the next one."""
    while mib > 0:
        size, address = min(mib, CHUNK_MIB), ctypes.c_uint64()
        cuda.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size * MIB))
        taken.append((address, size * MIB))
        mib -= size


def check_chunks(cuda: Cuda, taken: Chunks) -> None:
    """Fill each chunk with a byte of its own, then read its beginning and its end."""
    for number, (address, size) in enumerate(taken):
        cuda.call("cuMemsetD8_v2", address, ctypes.c_ubyte(number % 255 + 1), ctypes.c_size_t(size))
    for number, (address, size) in enumerate(taken):
        for place in (address.value, address.value + size - READ_BYTES):
            found = (ctypes.c_ubyte * READ_BYTES)()
            cuda.call("cuMemcpyDtoH_v2", found, ctypes.c_uint64(place), ctypes.c_size_t(READ_BYTES))
            if bytes(found) != bytes([number % 255 + 1]) * READ_BYTES:
                raise CallError(call="cuMemcpyDtoH_v2", text=f"chunk {number} holds other bytes than were written")


def find_card(cuda: Cuda) -> ctypes.c_int:
    """The card, after it was found to be the only one."""
    with step("count") as facts:
        count = ctypes.c_int()
        cuda.call("cuDeviceGetCount", ctypes.byref(count))
        facts["cards"] = count.value
        if count.value != 1:
            raise CallError(call="cuDeviceGetCount", cards=count.value, text=f"{count.value} cards, not 1")
    with step("card") as facts:
        device, total = ctypes.c_int(), ctypes.c_size_t()
        cuda.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        facts["uuid"] = cuda.uuid(device)
        cuda.call("cuDeviceTotalMem_v2", ctypes.byref(total), device)
        facts["total_mib"] = total.value // MIB
    return device


def use_memory(cuda: Cuda, mib: int, seconds: float) -> None:
    """Take memory, prove it, hold it, and give it back however that ends."""
    taken = []  # type: Chunks
    try:
        with step("allocate") as facts:
            facts["free_mib_before"] = cuda.free_mib()
            take_chunks(cuda, mib, taken)
            facts.update(mib=mib, chunks=len(taken), free_mib_after=cuda.free_mib())
        with step("verify"):
            check_chunks(cuda, taken)
        with step("hold") as facts:
            wait(seconds)
            facts["seconds"] = seconds
    finally:
        with step("free") as facts:
            for address, _ in taken:
                cuda.call("cuMemFree_v2", address)
            facts["free_mib"] = cuda.free_mib()


def allocate(options: argparse.Namespace) -> int:
    """All steps, up to the first that fails."""
    try:
        with step("load"):
            cuda = Cuda()
        with step("initialize"):
            initialize(cuda)
        device, context = find_card(cuda), ctypes.c_void_p()
        with step("context"):
            cuda.call("cuCtxCreate_v2", ctypes.byref(context), ctypes.c_uint(0), device)
        try:
            use_memory(cuda, options.mib, options.seconds)
        finally:
            with step("close"):
                cuda.call("cuCtxDestroy_v2", context)
    except CallError:
        return 3
    say(step="done", ok=True)
    return 0


def stop(number: int, frame: object) -> None:
    """End through the clean-ups of what runs."""
    raise Stopped


def arguments() -> argparse.Namespace:
    """Those of this program; a wrong call leaves with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="gpu_probe", description="Looks at what a program in a GPU container can use."
    )
    verbs = parser.add_subparsers(dest="verb", metavar="look|allocate")
    verbs.required = True
    looks = verbs.add_parser("look", help="NVML, nvidia-smi, variables and device files")
    looks.add_argument("--seconds", type=float, default=0.0, metavar="S", help="stay so long")
    takes = verbs.add_parser("allocate", help="take, prove and hold memory of the first card through CUDA")
    takes.add_argument("--mib", type=int, required=True, metavar="N")
    takes.add_argument("--seconds", type=float, required=True, metavar="S")
    options = parser.parse_args()
    if options.verb == "allocate" and (options.mib < 1 or options.seconds < 0):
        takes.error("--mib goes from 1 on, --seconds from 0 on")
    if options.seconds < 0:
        looks.error("--seconds goes from 0 on")
    return options


def main() -> int:
    """Run a verb; the exit code."""
    options = arguments()
    signal.signal(signal.SIGTERM, stop)
    try:
        return look(options.seconds) if options.verb == "look" else allocate(options)
    except Stopped:
        say(step="stopped", ok=True)
        return 0


if __name__ == "__main__":
    sys.exit(main())
