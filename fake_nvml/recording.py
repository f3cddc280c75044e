"""``fake-nvml record``: what NVML says of a node's cards, as a box file that ``fake-nvml init --box FILE`` takes.

Everything is asked through pynvml. Each call is written with what it answered, or with its return code if it failed,
so that the simulated cards refuse what the real ones refused. UUIDs, serial numbers and pids are in the file.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from fake_nvml.answers import CHOSEN, PLAIN, RECOVERY_ACTION, TOLD_MORE, Answer
from fake_nvml.errors import RecordError
from fake_nvml.install import install
from fake_nvml.library import Library
from fake_nvml.returns import FUNCTION_NOT_FOUND, SUCCESS, code_name

# Exported by the simulated library in C, and by no other.
_MARK = "fakenvml_version"
_RECOVERY_ACTION = 230
_VOLATILE = 0
_LINKS = 18
# NUMA nodes that are asked for, in unsigned longs.
_NODE_WORDS = 16

Ask = Callable[[Any, Any], Any]


class _NotAskedError(Exception):
    """This pynvml is too old to ask it, or what to ask with is not known."""


def record(*, state: Path | None, library: Path | None) -> dict[str, Any]:
    """The cards of this node as a box file's content.

    Asks the NVML library at ``library``, else the simulated cards of ``state``, else the system's library. Raises
    RecordError if there is none, or if its driver is not there.
    """
    with _pynvml(state, library) as pynvml:
        driver = _plain(pynvml.nvmlSystemGetDriverVersion())
        simulated = isinstance(pynvml.nvmlLib, Library) or hasattr(pynvml.nvmlLib, _MARK)
        count = pynvml.nvmlDeviceGetCount()
        return {
            "driver": driver,
            "simulated": simulated,
            "system": {
                "nvmlSystemGetNVMLVersion": _answer(pynvml, pynvml.nvmlSystemGetNVMLVersion),
                "nvmlSystemGetCudaDriverVersion": _answer(pynvml, pynvml.nvmlSystemGetCudaDriverVersion),
                "nvmlSystemGetCudaDriverVersion_v2": _answer(pynvml, pynvml.nvmlSystemGetCudaDriverVersion_v2),
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
    calls: dict[str, Any] = {}
    for name, ask in _CALLS.items():
        with contextlib.suppress(_NotAskedError):
            calls[name] = _answer(pynvml, ask, pynvml, handle)
    return calls


def _answer(pynvml: Any, ask: Callable[..., Any], *arguments: Any, raw: bool = False) -> Any:
    """A call's answer as YAML's types, or ``{"returns": name of its code}``."""
    try:
        value = ask(*arguments)
    except pynvml.NVMLError as error:
        return {"returns": code_name(error.value)}
    except Exception as error:
        # Newer versions report a missing symbol by an error outside of their own tree.
        if type(error).__name__ != "NVMLLibraryMismatchError":
            raise
        return {"returns": code_name(FUNCTION_NOT_FOUND)}
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


def _plain_call(name: str, *arguments: Any) -> Ask:
    def ask(pynvml: Any, handle: Any) -> Any:
        if not hasattr(pynvml, name):
            raise _NotAskedError
        return getattr(pynvml, name)(handle, *arguments)

    return ask


def _read(function: str, answer: Answer, *told: int) -> Ask:
    """A function of the tables, called without pynvml's wrapper, so that it is this one and no other version of it."""

    def ask(pynvml: Any, handle: Any) -> Any:
        places = [_TYPES[answer.type]() for _ in answer.fields]
        chosen = [ctypes.c_uint(number) for number in told]
        code = pynvml._nvmlGetFunctionPointer(function)(handle, *chosen, *map(ctypes.byref, places))
        if code != SUCCESS:
            raise pynvml.NVMLError(code)
        values = [place.value for place in places]
        return values if len(values) > 1 else values[0]

    return ask


def _first_list(function: str) -> Ask:
    """A process list before R450, which pynvml has no wrapper for."""

    def ask(pynvml: Any, handle: Any) -> list[dict[str, int]]:
        count, rows = ctypes.c_uint(_ROWS), (_FirstProcess * _ROWS)()
        code = pynvml._nvmlGetFunctionPointer(function)(handle, ctypes.byref(count), rows)
        if code != SUCCESS:
            raise pynvml.NVMLError(code)
        return [{"pid": row.pid, "usedGpuMemory": row.usedGpuMemory} for row in rows[: count.value]]

    return ask


class _FirstProcess(ctypes.Structure):
    _fields_ = (("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong))  # type: ignore[mutable-override]  # ctypes' way


def _register_events(pynvml: Any, handle: Any) -> int:
    """Listen to Xids and stop at once; it changes nothing."""
    events = pynvml.nvmlEventSetCreate()
    try:
        pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
    finally:
        pynvml.nvmlEventSetFree(events)
    return int(pynvml.nvmlEventTypeXidCriticalError)


def _found(name: str, of: str) -> Ask:
    """That a card is found by a name of its own; the index of what was found."""

    def ask(pynvml: Any, handle: Any) -> Any:
        try:
            value = getattr(pynvml, f"nvmlDeviceGet{of}")(handle)
        except pynvml.NVMLError as error:
            raise _NotAskedError from error
        found = getattr(pynvml, name)(value.busId if of == "PciInfo" else value)
        return pynvml.nvmlDeviceGetIndex(found)

    return ask


def _chosen() -> Iterator[tuple[str, Ask]]:
    for function, row in CHOSEN.items():
        more = (_VOLATILE,) if function in TOLD_MORE else ()
        for number, (word, answer) in row.items():
            yield f"{function} {word}".strip(), _read(function, answer, number, *more)


_TYPES: Final = {"unsigned": ctypes.c_uint, "int": ctypes.c_int, "unsigned long long": ctypes.c_ulonglong}
# More than a card's processes.
_ROWS: Final = 4096
_LISTS: Final = tuple(f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics", "MPSCompute"))

# The calls for each card, by their keys in ``answers``.
_CALLS: Final[dict[str, Ask]] = {
    **{
        f"nvmlDeviceGet{name}": _plain_call(f"nvmlDeviceGet{name}")
        for name in ("UUID", "Name", "Serial", "Index", "PciInfo", "MemoryInfo", "UtilizationRates")
    },
    "nvmlDeviceGetMemoryInfo_v2": lambda pynvml, handle: pynvml.nvmlDeviceGetMemoryInfo(
        handle, version=pynvml.nvmlMemory_v2
    ),
    **{function: _read(function, answer) for function, answer in PLAIN.items()},
    **dict(_chosen()),
    "nvmlDeviceGetTemperatureV": _plain_call("nvmlDeviceGetTemperatureV", 0),
    **{name: _first_list(name) for name in _LISTS},
    **{f"{name}{version}": _plain_call(f"{name}{version}") for name in _LISTS for version in ("_v2", "_v3")},
    "nvmlDeviceGetMemoryAffinity": _numa_nodes,
    "nvmlDeviceGetNvLinkState": _links,
    RECOVERY_ACTION: _recovery_action,
    "nvmlDeviceRegisterEvents": _register_events,
    "nvmlDeviceGetHandleByUUID": _found("nvmlDeviceGetHandleByUUID", "UUID"),
    "nvmlDeviceGetHandleByPciBusId": _found("nvmlDeviceGetHandleByPciBusId", "PciInfo"),
    "nvmlDeviceGetHandleBySerial": _found("nvmlDeviceGetHandleBySerial", "Serial"),
}
