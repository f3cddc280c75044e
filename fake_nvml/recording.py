"""``fake-nvml record``: what NVML says of a node's cards, as a box file that ``fake-nvml init --box FILE`` takes.

Everything is asked through pynvml. Each call is written with what it answered, or with its return code where it failed,
so that what a driver does not say stays unsaid. UUIDs, serial numbers and pids are in the file.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from fake_nvml.call_faults import code_name
from fake_nvml.errors import RecordError
from fake_nvml.install import install
from fake_nvml.library import Library

# Exported by the simulated library in C, and by no other.
_MARK = "fakenvml_version"
_FUNCTION_NOT_FOUND = 13
_RECOVERY_ACTION = 230
_VOLATILE = 0
_LINKS = 18
# NUMA nodes that are asked for, in unsigned longs.
_NODE_WORDS = 16

Ask = Callable[[Any, Any], Any]


def record(*, state: Path | None, library: Path | None) -> dict[str, Any]:
    """The cards of this node as a box file's content.

    Asks the NVML library at ``library``, else the simulated cards of ``state``, else the system's library. Raises
    RecordError where there is none, or where its driver is not there.
    """
    with _pynvml(state, library) as pynvml:
        driver = str(_answer(pynvml, pynvml.nvmlSystemGetDriverVersion))
        simulated = isinstance(pynvml.nvmlLib, Library) or hasattr(pynvml.nvmlLib, _MARK)
        count = pynvml.nvmlDeviceGetCount()
        return {
            "driver": driver,
            "simulated": simulated,
            "system": {
                "nvmlSystemGetNVMLVersion": _answer(pynvml, pynvml.nvmlSystemGetNVMLVersion),
                "nvmlSystemGetCudaDriverVersion": _answer(pynvml, pynvml.nvmlSystemGetCudaDriverVersion_v2),
            },
            "cards": [{"recorded": _card(pynvml, index)} for index in range(count)],
        }


@contextlib.contextmanager
def _pynvml(state: Path | None, library: Path | None) -> Iterator[Any]:
    try:
        pynvml: Any = importlib.import_module("pynvml")
    except ImportError as error:
        raise RecordError("pynvml is not installed; pip install nvidia-ml-py") from error
    try:
        if library is not None:
            pynvml.nvmlLib = ctypes.CDLL(str(library))
        elif state is not None:
            install(state, on_purpose=True)
        pynvml.nvmlInit()
    except (OSError, pynvml.NVMLError) as error:
        raise RecordError(f"no NVML to record: {error}") from error
    try:
        yield pynvml
    except pynvml.NVMLError as error:
        raise RecordError(f"NVML stopped to answer: {error}") from error
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _card(pynvml: Any, index: int) -> dict[str, Any]:
    handle = _answer(pynvml, pynvml.nvmlDeviceGetHandleByIndex, index, raw=True)
    if isinstance(handle, dict):
        return {"nvmlDeviceGetHandleByIndex": handle}
    return {name: _answer(pynvml, ask, pynvml, handle) for name, ask in _CALLS.items()}


def _answer(pynvml: Any, ask: Callable[..., Any], *arguments: Any, raw: bool = False) -> Any:
    """What a call answers as YAML's types, or ``{"returns": name of its code}``."""
    try:
        value = ask(*arguments)
    except pynvml.NVMLError as error:
        return {"returns": code_name(error.value)}
    except Exception as error:
        # Of a symbol that is missing, newer versions say so by an error outside of their own tree.
        if type(error).__name__ != "NVMLLibraryMismatchError":
            raise
        return {"returns": code_name(_FUNCTION_NOT_FOUND)}
    return value if raw else _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, ctypes.Structure):
        return {name: _plain(getattr(value, name)) for name, *_ in value._fields_ if name != "version"}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if hasattr(value, "__dict__"):  # the friendly copies that pynvml makes of some structs
        return {name: _plain(entry) for name, entry in vars(value).items()}
    return value


def _numa_nodes(pynvml: Any, handle: Any) -> list[int]:
    words = pynvml.nvmlDeviceGetMemoryAffinity(handle, _NODE_WORDS, 0)
    return [64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1]


def _links(pynvml: Any, handle: Any) -> list[int]:
    """The state of each link up to the first that is none; the code of the first link, if that is none."""
    states = [pynvml.nvmlDeviceGetNvLinkState(handle, 0)]
    with contextlib.suppress(pynvml.NVMLError):
        states.extend(pynvml.nvmlDeviceGetNvLinkState(handle, link) for link in range(1, _LINKS))
    return states


def _recovery_action(pynvml: Any, handle: Any) -> int:
    (value,) = pynvml.nvmlDeviceGetFieldValues(handle, [_RECOVERY_ACTION])
    if value.nvmlReturn != 0:
        raise pynvml.NVMLError(value.nvmlReturn)
    return int(value.value.uiVal)


def _plain_call(name: str) -> Ask:
    return lambda pynvml, handle: getattr(pynvml, name)(handle)


# What is asked of each card, by C's name of the function or of what of it is meant.
_CALLS: Final[dict[str, Ask]] = {
    **{
        f"nvmlDeviceGet{name}": _plain_call(f"nvmlDeviceGet{name}")
        for name in (
            *("UUID", "Name", "Serial", "MinorNumber", "Brand", "Architecture", "CudaComputeCapability", "PciInfo"),
            *("MemoryInfo", "UtilizationRates", "FanSpeed", "PerformanceState", "PowerUsage", "PowerManagementLimit"),
            *("EnforcedPowerLimit", "ComputeMode", "PersistenceMode", "DisplayActive", "EccMode", "MigMode"),
            *("MaxMigDeviceCount", "SupportedEventTypes", "ComputeRunningProcesses", "GraphicsRunningProcesses"),
        )
    },
    "nvmlDeviceGetComputeRunningProcesses_v2": _plain_call("nvmlDeviceGetComputeRunningProcesses_v2"),
    "nvmlDeviceGetGraphicsRunningProcesses_v2": _plain_call("nvmlDeviceGetGraphicsRunningProcesses_v2"),
    "nvmlDeviceGetMemoryInfo_v2": lambda pynvml, handle: pynvml.nvmlDeviceGetMemoryInfo(
        handle, version=pynvml.nvmlMemory_v2
    ),
    "nvmlDeviceGetTemperature": lambda pynvml, handle: pynvml.nvmlDeviceGetTemperature(handle, 0),
    "nvmlDeviceGetTotalEccErrors corrected": lambda pynvml, handle: pynvml.nvmlDeviceGetTotalEccErrors(
        handle, 0, _VOLATILE
    ),
    "nvmlDeviceGetTotalEccErrors uncorrected": lambda pynvml, handle: pynvml.nvmlDeviceGetTotalEccErrors(
        handle, 1, _VOLATILE
    ),
    "nvmlDeviceGetMemoryAffinity": _numa_nodes,
    "nvmlDeviceGetNvLinkState": _links,
    "nvmlDeviceGetFieldValues recovery action": _recovery_action,
}
