"""``fake-nvml record``: the answers of NVML about a node's cards, as a box file that ``fake-nvml init --box FILE`` takes.

Everything is asked through pynvml. Each call is written with what it answered, or with its return code if it failed,
so that the simulated cards refuse what the real ones refused. UUIDs, serial numbers and pids are in the file.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from fake_nvml.core.answers import CHOSEN, PLAIN, RECOVERY_ACTION, TOLD_MORE, Answer
from fake_nvml.core.c_source import MARKER
from fake_nvml.core.returns import FIELD_RECOVERY_ACTION, Code, code_name
from fake_nvml.fake_nvml_errors import RecordError

# Answers that a card gives differently at each question, or while it is used. Simulated cards with a recording begin idle.
_LIVE: Final = (
    "UtilizationRates",
    "EncoderUtilization",
    "DecoderUtilization",
    "PcieThroughput",
    "RunningProcesses",
    "ProcessName",
    "TemperatureV",
)
_LIVE_MEMORY: Final = ("free", "used")


def record(library: Path | None) -> dict[str, Any]:
    """The cards of this node as a box file's content.

    Asks the NVML library at ``library``, else the system's. Raises RecordError if there is none, or no driver for it.
    """
    with _pynvml(library) as pynvml:
        driver = _plain(pynvml.nvmlSystemGetDriverVersion())
        count = pynvml.nvmlDeviceGetCount()
        return {
            "driver": driver,
            "simulated": hasattr(pynvml.nvmlLib, MARKER),
            "system": {name: _answer(pynvml, ask, pynvml) for name, ask in SYSTEM_CALLS.items()},
            "cards": [{"recorded": _card(pynvml, index)} for index in range(count)],
        }


@contextlib.contextmanager
def _pynvml(library: Path | None) -> Iterator[Any]:
    try:
        pynvml: Any = importlib.import_module("pynvml")
    except ImportError as error:
        raise RecordError("pynvml is not installed; pip install nvidia-ml-py") from error
    try:
        if library is not None:
            pynvml.nvmlLib = ctypes.CDLL(str(library))
            # pynvml keeps each function that it once looked up.
            pynvml._nvmlGetFunctionPointer_cache.clear()
        pynvml.nvmlInit()
    except (OSError, pynvml.NVMLError) as error:
        raise RecordError(f"no NVML to record: {error}") from error
    try:
        yield pynvml
    except pynvml.NVMLError as error:
        raise RecordError(f"NVML stopped answering: {error}") from error
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _card(pynvml: Any, index: int) -> dict[str, Any]:
    handle = _answer(pynvml, pynvml.nvmlDeviceGetHandleByIndex, index, raw=True)
    if isinstance(handle, dict):
        return {"nvmlDeviceGetHandleByIndex": handle}
    calls: dict[str, Any] = {}
    for name, ask in CARD_CALLS.items():
        with contextlib.suppress(NotAskedError):
            calls[name] = _answer(pynvml, ask, pynvml, handle)
    return calls


def _answer(pynvml: Any, ask: Callable[..., Any], *arguments: Any, raw: bool = False) -> Any:
    """A call's answer as YAML's types, or ``{"returns": name of its code}``."""
    try:
        value = ask(*arguments)
    except pynvml.NVMLError as error:
        return {"returns": code_name(error.value)}
    except UnicodeDecodeError as error:
        # pynvml decodes strictly, and drivers have answered other bytes.
        return error.object.decode(errors="replace")
    except Exception as error:
        # Newer versions report a missing symbol by an error outside of their own tree.
        if type(error).__name__ != "NVMLLibraryMismatchError":
            raise
        return {"returns": code_name(Code.FUNCTION_NOT_FOUND)}
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


def steady(recording: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers that stay the same from question to question: those of the system, and those of each card."""
    return [_steady(recording["system"]), *(_steady(card["recorded"]) for card in recording["cards"])]


def _steady(answers: dict[str, Any]) -> dict[str, Any]:
    kept = {call: answer for call, answer in answers.items() if not any(word in call for word in _LIVE)}
    for call in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"):
        if isinstance(kept.get(call), dict):
            kept[call] = {key: value for key, value in kept[call].items() if key not in _LIVE_MEMORY}
    return kept


_VOLATILE = 0
_LINKS = 18
# NUMA nodes that are asked for, in unsigned longs.
_NODE_WORDS = 16

Ask = Callable[[Any, Any], Any]


class NotAskedError(Exception):
    """This pynvml is too old to ask it, or what to ask with is not known."""


def _numa_nodes(pynvml: Any, handle: Any) -> list[int]:
    words = pynvml.nvmlDeviceGetMemoryAffinity(handle, _NODE_WORDS, 0)
    return [64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1]


def _of_links(name: str, value: Callable[[Any], Any] = int, asked: tuple[int, ...] = ()) -> Ask:
    """The answer of each link up to the first that has none; the code of the first link, if that has none."""

    def ask(pynvml: Any, handle: Any) -> list[Any]:
        answers = [value(_plain_call(name, 0, *asked)(pynvml, handle))]
        with contextlib.suppress(pynvml.NVMLError):
            answers.extend(value(getattr(pynvml, name)(handle, link, *asked)) for link in range(1, _LINKS))
        return answers

    return ask


def _recovery_action(pynvml: Any, handle: Any) -> int:
    (value,) = pynvml.nvmlDeviceGetFieldValues(handle, [FIELD_RECOVERY_ACTION])
    if value.nvmlReturn != 0:
        raise pynvml.NVMLError(value.nvmlReturn)
    return int(value.value.uiVal)


def _plain_call(name: str, *arguments: Any) -> Ask:
    def ask(pynvml: Any, handle: Any) -> Any:
        if not hasattr(pynvml, name):
            raise NotAskedError
        return getattr(pynvml, name)(handle, *arguments)

    return ask


def _call(pynvml: Any, function: str, *arguments: Any) -> None:
    """A C function without pynvml's wrapper, so that it is this one and no other version of it."""
    code = pynvml._nvmlGetFunctionPointer(function)(*arguments)
    if code != Code.SUCCESS:
        raise pynvml.NVMLError(code)


def _read(function: str, answer: Answer, *choice: int) -> Ask:
    """A function of the tables."""

    def ask(pynvml: Any, handle: Any) -> Any:
        places = [_TYPES[answer.type]() for _ in answer.fields]
        _call(pynvml, function, handle, *map(ctypes.c_uint, choice), *map(ctypes.byref, places))
        values = [place.value for place in places]
        return values if len(values) > 1 else values[0]

    return ask


def _first_list(function: str) -> Ask:
    """A process list before R450, which pynvml has no wrapper for."""

    def ask(pynvml: Any, handle: Any) -> list[dict[str, int]]:
        count, rows = ctypes.c_uint(_ROWS), (_FirstProcess * _ROWS)()
        _call(pynvml, function, handle, ctypes.byref(count), rows)
        return [{"pid": row.pid, "usedGpuMemory": row.usedGpuMemory} for row in rows[: count.value]]

    return ask


def _address(function: str) -> Ask:
    """A PCI address with a domain of four digits, which pynvml has no wrapper for any more."""

    def ask(pynvml: Any, handle: Any) -> Any:
        address = pynvml.nvmlPciInfo_v2_t()
        _call(pynvml, function, handle, ctypes.byref(address))
        return address

    return ask


class _FirstProcess(ctypes.Structure):
    _fields_ = (("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong))  # type: ignore[mutable-override]  # ctypes' way


def _process_name(pynvml: Any) -> str:
    """Whether names of processes are answered. Some drivers know only those that use a card, which is an answer too."""
    with contextlib.suppress(pynvml.NVMLError_NotFound):
        pynvml.nvmlSystemGetProcessName(os.getpid())
    return ""


def _event_set(pynvml: Any) -> str:
    _free(pynvml, pynvml.nvmlEventSetCreate())
    return ""


def _free(pynvml: Any, events: Any) -> None:
    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlEventSetFree(events)


def _mig_device(pynvml: Any, handle: Any) -> int:
    """Whether there is a first slice; that there is none is an answer too."""
    try:
        return int(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0) is not None)
    except pynvml.NVMLError_NotFound:
        return 0


def _register_events(pynvml: Any, handle: Any) -> int:
    """Listen to Xids and stop immediately; it changes nothing."""
    events = pynvml.nvmlEventSetCreate()
    try:
        pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
    finally:
        _free(pynvml, events)
    return int(pynvml.nvmlEventTypeXidCriticalError)


def _found(name: str, of: str) -> Ask:
    """That a card is found by a name of its own; the index of what was found."""

    def ask(pynvml: Any, handle: Any) -> Any:
        try:
            value = getattr(pynvml, f"nvmlDeviceGet{of}")(handle)
        except pynvml.NVMLError as error:
            raise NotAskedError from error
        found = getattr(pynvml, name)(value.busId if of == "PciInfo" else value)
        return pynvml.nvmlDeviceGetIndex(found)

    return ask


_TYPES: Final = {"unsigned": ctypes.c_uint, "int": ctypes.c_int, "unsigned long long": ctypes.c_ulonglong}
# More than a card's processes.
_ROWS: Final = 4096
_LISTS: Final = tuple(f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics", "MPSCompute"))

SYSTEM_CALLS: Final[dict[str, Callable[[Any], Any]]] = {
    "nvmlSystemGetNVMLVersion": lambda pynvml: pynvml.nvmlSystemGetNVMLVersion(),
    "nvmlSystemGetCudaDriverVersion": lambda pynvml: pynvml.nvmlSystemGetCudaDriverVersion(),
    "nvmlSystemGetCudaDriverVersion_v2": lambda pynvml: pynvml.nvmlSystemGetCudaDriverVersion_v2(),
    "nvmlSystemGetProcessName": _process_name,
    "nvmlEventSetCreate": _event_set,
}
# The calls for each card, by their keys in ``answers``.
CARD_CALLS: Final[dict[str, Ask]] = {
    **{
        f"nvmlDeviceGet{name}": _plain_call(f"nvmlDeviceGet{name}")
        for name in ("UUID", "Name", "Serial", "Index", "PciInfo_v3", "MemoryInfo", "UtilizationRates")
    },
    **{name: _address(name) for name in ("nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v2")},
    "nvmlDeviceGetMemoryInfo_v2": lambda pynvml, handle: pynvml.nvmlDeviceGetMemoryInfo(
        handle, version=pynvml.nvmlMemory_v2
    ),
    **{function: _read(function, answer) for function, answer in PLAIN.items()},
    **{
        f"{function} {word}".strip(): _read(function, answer, number, *([_VOLATILE] if function in TOLD_MORE else ()))
        for function, row in CHOSEN.items()
        for number, (word, answer) in row.items()
    },
    "nvmlDeviceGetTemperatureV": _plain_call("nvmlDeviceGetTemperatureV", 0),
    **{name: _first_list(name) for name in _LISTS},
    **{f"{name}{version}": _plain_call(f"{name}{version}") for name in _LISTS for version in ("_v2", "_v3")},
    "nvmlDeviceGetMemoryAffinity": _numa_nodes,
    **{name: _of_links(name) for name in ("nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemoteDeviceType")},
    "nvmlDeviceGetNvLinkCapability": _of_links("nvmlDeviceGetNvLinkCapability", asked=(0,)),
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": _of_links("nvmlDeviceGetNvLinkRemotePciInfo", lambda end: end.busId),
    "nvmlDeviceGetFieldValues": lambda pynvml, handle: len(
        pynvml.nvmlDeviceGetFieldValues(handle, [FIELD_RECOVERY_ACTION])
    ),
    RECOVERY_ACTION: _recovery_action,
    "nvmlDeviceIsMigDeviceHandle": _plain_call("nvmlDeviceIsMigDeviceHandle"),
    "nvmlDeviceGetMigDeviceHandleByIndex": _mig_device,
    "nvmlDeviceRegisterEvents": _register_events,
    "nvmlDeviceGetHandleByUUID": _found("nvmlDeviceGetHandleByUUID", "UUID"),
    "nvmlDeviceGetHandleByPciBusId": _found("nvmlDeviceGetHandleByPciBusId", "PciInfo"),
    "nvmlDeviceGetHandleBySerial": _found("nvmlDeviceGetHandleBySerial", "Serial"),
}
