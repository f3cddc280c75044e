"""NVML's errors as ours, and the small oddities of what pynvml answers. Every other module here asks NVML through this."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import pynvml

from gpushare.nvml.errors import (
    CardLostError,
    CardNotFoundError,
    NoDriverError,
    NotInitializedError,
    NvmlError,
    UnsupportedError,
)

# Raised in place of FunctionNotFound by some functions of some pynvml versions; no NVMLError.
_MISMATCH: Final = getattr(pynvml, "NVMLLibraryMismatchError", pynvml.NVMLError)
FAILURES: Final = (pynvml.NVMLError, _MISMATCH)

_NO_DRIVER: Final = {
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA kernel module is not loaded; run nvidia-smi on the node to see why",
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "there is no libnvidia-ml.so.1; install the NVIDIA driver on the node and give this container the nvidia "
        "runtime, or name the library with --nvml-library"
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the NVML library is of another version than the kernel module; after an update of the driver, reboot the node, "
        "or start this container anew where the module was reloaded"
    ),
}
_KINDS: Final[dict[int, type[NvmlError]]] = {
    **dict.fromkeys(_NO_DRIVER, NoDriverError),
    pynvml.NVML_ERROR_UNINITIALIZED: NotInitializedError,
    pynvml.NVML_ERROR_GPU_IS_LOST: CardLostError,
    pynvml.NVML_ERROR_NOT_FOUND: CardNotFoundError,
    pynvml.NVML_ERROR_NOT_SUPPORTED: UnsupportedError,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: UnsupportedError,
}


@contextlib.contextmanager
def translated(act: str) -> Iterator[None]:
    """NVML's errors as ours; ``act`` says what was tried."""
    try:
        yield
    except FAILURES as error:
        code = getattr(error, "value", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        reason = _NO_DRIVER.get(code) or f"NVML says: {error} (code {code})"
        raise _KINDS.get(code, NvmlError)(f"cannot {act}: {reason}", code) from error


def known(ask: Callable[[], Any]) -> Any:
    """An answer, or None where there is none: a fact that is nice to have must not cost the card that lacks it."""
    try:
        with translated("ask"):
            return ask()
    except (CardLostError, NotInitializedError):
        raise
    except NvmlError:
        return None


def text(value: str | bytes) -> str:
    """Some pynvml versions answer bytes where others answer str."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
