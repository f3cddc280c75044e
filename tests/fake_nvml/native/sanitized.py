"""The library in C under AddressSanitizer and UndefinedBehaviorSanitizer, built once for a test session."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from fake_nvml.native import build
from fake_nvml.native.compiler import CompilerError, find_compiler

_ERA = 615
FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")


def sanitized_library() -> dict[str, str]:
    """The variables under which a program here finds the sanitized library of driver 615. Skips if there is none."""
    runtime, folder = _built()
    if not folder:
        pytest.skip(f"no sanitizers: {runtime}")
    return {
        "LD_PRELOAD": runtime,
        "LD_LIBRARY_PATH": f"{folder}/{_ERA}",
        # Python itself leaves memory to the kernel at its end.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


@functools.cache
def _built() -> tuple[str, str]:
    """The runtime to load first and the folder of the libraries; or the reason, and nothing."""
    try:
        compiler = find_compiler(os.environ)
        runtime = _runtime(compiler.command)
        folder = tempfile.TemporaryDirectory(prefix="gs-asan-", dir="/tmp")
        _KEPT.append(folder)
        work = Path(folder.name)
        build.compile_libraries(compiler, build.source_files(), work, work / "done", flags=FLAGS, eras=(_ERA,))
    except CompilerError as error:
        return str(error), ""
    return runtime, str(work / "done")


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def _runtime(command: tuple[str, ...]) -> str:
    """The path of the compiler's AddressSanitizer. Raises CompilerError."""
    names = ("libasan.so", "libclang_rt.asan-x86_64.so")
    found = [
        subprocess.run([*command, f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
        for name in names
    ]
    for path in found:
        if Path(path).is_absolute() and Path(path).exists():
            return str(Path(path).resolve())
    raise CompilerError(f"{command[0]} has no runtime of AddressSanitizer")
