"""The calls that ``fake-nvml record`` makes, of the node and of each card: key of ``answers`` -> a function that asks pynvml."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable
from typing import Any, Final

from fake_nvml.core.answers import CHOSEN, PLAIN, RECOVERY_ACTION, TOLD_MORE, Answer
from fake_nvml.core.returns import FIELD_RECOVERY_ACTION, Code

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
