"""NVML's errors as ours, and the small oddities of what pynvml answers. Every other module here asks NVML through this.

pynvml raises more than NVMLError: it decodes each text strictly as UTF-8, so a driver that answers other bytes (555.85 on WSL2 did)
makes it raise UnicodeDecodeError, even for the text of an error. Versions that do not fit the library raise AttributeError or
ValueError. Whatever it raises means that there is no answer, and becomes an NvmlError with the reason.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import pynvml

from gpushare.nvml.api import (
    CardLostError,
    NoDriverError,
    NotInitializedError,
    NvmlError,
    UnsupportedError,
)

# Raised in place of FunctionNotFound by some functions of some pynvml versions; no NVMLError.
_MISMATCH: Final = getattr(pynvml, "NVMLLibraryMismatchError", pynvml.NVMLError)

_NO_DRIVER: Final = {
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA kernel module is not loaded; run nvidia-smi on the node to see why",
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "there is no libnvidia-ml.so.1; install the NVIDIA driver on the node and give this container the nvidia "
        "runtime, or name the library with --nvml-library"
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the NVML library is of another version than the kernel module; after an update of the driver, reboot the node, "
        "or restart this container if the module was reloaded"
    ),
}
_KINDS: Final[dict[int, type[NvmlError]]] = {
    **dict.fromkeys(_NO_DRIVER, NoDriverError),
    pynvml.NVML_ERROR_UNINITIALIZED: NotInitializedError,
    pynvml.NVML_ERROR_GPU_IS_LOST: CardLostError,
    pynvml.NVML_ERROR_NOT_SUPPORTED: UnsupportedError,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: UnsupportedError,
}


@contextlib.contextmanager
def translated(act: str) -> Iterator[None]:
    """Turn whatever pynvml raises into an NvmlError; ``act`` is the attempt, for its text."""
    try:
        yield
    except NvmlError:
        raise
    except (pynvml.NVMLError, _MISMATCH) as error:
        code = getattr(error, "value", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        reason = _NO_DRIVER.get(code) or f"NVML says: {_text_of(error)} (code {code})"
        raise _KINDS.get(code, NvmlError)(f"cannot {act}: {reason}", code) from error
    except Exception as error:
        reason = f"its answer cannot be read ({type(error).__name__}: {_text_of(error)})"
        raise NvmlError(f"cannot {act}: {reason}") from error


def _text_of(error: Exception) -> str:
    """The text of an error. pynvml asks the library for it, so it may fail as any other answer."""
    try:
        return str(error)
    except Exception:
        return "an error whose text cannot be read"


def known(ask: Callable[[], Any]) -> Any:
    """An answer, or None if there is none: a card must not be lost for a fact that is only useful."""
    try:
        with translated("ask"):
            return ask()
    except (CardLostError, NotInitializedError):
        raise
    except NvmlError:
        return None


def text_of(ask: Callable[[], str | bytes]) -> str:
    """A text that NVML answers; bytes that are no UTF-8 are replaced. Raises what ``ask`` raises otherwise."""
    try:
        return text(ask())
    except UnicodeDecodeError as error:
        return text(bytes(error.object))


def text(value: str | bytes) -> str:
    """Some pynvml versions answer bytes, and others str."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
