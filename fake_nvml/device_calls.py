"""The C functions that ask one card. Each takes the card as it is now, then C's arguments after the handle.

Most of them are made of the tables in ``answers``. C arguments are as ctypes hands them to a function written in Python: a C
library gets addresses, a Python function gets the objects that pynvml made: ``byref(x)``, arrays, pointers. Structs are written
by field name, so each version of pynvml may bring its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from fake_nvml.core.answers import CHOSEN, PLAIN, RECOVERY_ACTION, TEXTS, TOLD_MORE, Answer
from fake_nvml.core.layout import COMPUTE, GRAPHICS, MPS, Card
from fake_nvml.core.links import capability, other_end
from fake_nvml.core.records import memory_used, processes
from fake_nvml.core.returns import (
    FIELD_RECOVERY_ACTION,
    MEMORY_V2,
    NVLINK_TO_CARD,
    NVLINK_TO_SWITCH,
    TEMPERATURE_V1,
    VALUE_UNSIGNED_INT,
    Code,
    ReturnCodeError,
)
from fake_nvml.fake_session import Device, check, refusal


def target(argument: Any) -> Any:
    """The object behind an output argument. Raises INVALID_ARGUMENT for NULL."""
    if argument is None:
        raise ReturnCodeError(Code.INVALID_ARGUMENT)
    if hasattr(argument, "_obj"):  # byref()
        return argument._obj  # noqa: SLF001  # ctypes has no public name for it
    return argument.contents if hasattr(argument, "contents") else argument


def number(argument: Any) -> int:
    """A number passed by value."""
    return int(getattr(argument, "value", argument))


def text(argument: Any) -> str:
    """A C string passed in. Raises INVALID_ARGUMENT for NULL."""
    value = getattr(argument, "value", argument)
    if value is None:
        raise ReturnCodeError(Code.INVALID_ARGUMENT)
    return bytes(value).decode(errors="replace")


def address(handle: Any) -> int:
    """The address in an opaque handle, 0 for NULL."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def write_number(argument: Any, value: int) -> None:
    """Write through a pointer to a number."""
    target(argument).value = value


def write_text(buffer: Any, size: Any, value: bytes) -> None:
    """Fill a text buffer of ``size`` bytes. Raises INSUFFICIENT_SIZE if text and NUL do not fit."""
    if len(value) + 1 > number(size):
        raise ReturnCodeError(Code.INSUFFICIENT_SIZE)
    target(buffer).value = value


def write_handle(argument: Any, value: int) -> None:
    """Write an address through a pointer to an opaque handle."""
    ctypes.c_void_p.from_buffer(target(argument)).value = value


def write_field_handle(struct: Any, field: str, value: int) -> None:
    """Write an address into a handle that is a field of a struct."""
    offset = getattr(type(struct), field).offset
    ctypes.c_void_p.from_buffer(struct, offset).value = value


DeviceCall = Callable[..., None]


def bus_id(card: Card) -> str:
    """The PCI address as NVML writes it, with a domain of eight digits."""
    return f"{card.pci_domain:08X}:{card.pci_bus:02X}:{card.pci_device:02X}.0"


def _plain(answer: Answer) -> DeviceCall:
    def call(device: Device, *places: Any) -> None:
        _write(device, answer, places)

    return call


def _chosen(function: str, row: Mapping[int, tuple[str, Answer]]) -> DeviceCall:
    def call(device: Device, choice: Any, *places: Any) -> None:
        word, answer = row.get(number(choice), (None, None))
        if answer is None:
            raise ReturnCodeError(Code.INVALID_ARGUMENT)
        if word:
            check(device.card, f"{function} {word}")
        _write(device, answer, places[function in TOLD_MORE :])

    return call


def _write(device: Device, answer: Answer, places: Sequence[Any]) -> None:
    fields = answer.idle if answer.idle and not device.card.utilization else answer.fields
    for place in places[: len(fields)]:
        target(place)  # none of them is written to if one is NULL
    for place, field in zip(places, fields, strict=False):
        write_number(place, getattr(device.card, field))


def _text(field: str) -> DeviceCall:
    def call(device: Device, buffer: Any, size: Any) -> None:
        value = getattr(device.card, field)
        if not value:
            raise ReturnCodeError(Code.NOT_SUPPORTED)
        write_text(buffer, size, value)

    return call


def _memory(device: Device, out: Any) -> None:
    """Version 1 has no place for reserved memory and counts it as used."""
    card, info = device.card, target(out)
    used = memory_used(device.content, device.slot) + card.memory_reserved
    info.total, info.used, info.free = card.memory_total, used, card.memory_total - used


def _memory_v2(device: Device, out: Any) -> None:
    """Another version is a function that is not there (580.159.04 answers so)."""
    card, info = device.card, target(out)
    if info.version != MEMORY_V2:
        raise ReturnCodeError(Code.FUNCTION_NOT_FOUND)
    used = memory_used(device.content, device.slot)
    info.total, info.reserved, info.used = card.memory_total, card.memory_reserved, used
    info.free = card.memory_total - card.memory_reserved - used


def _utilization(device: Device, out: Any) -> None:
    rates = target(out)
    rates.gpu, rates.memory = device.card.utilization, device.card.memory_utilization


def _pci_info(device: Device, out: Any) -> None:
    _write_pci(device.card, target(out))


def _write_pci(card: Card, info: Any) -> None:
    info.domain, info.bus, info.device = card.pci_domain, card.pci_bus, card.pci_device
    info.pciDeviceId, info.pciSubSystemId = card.pci_device_id, card.pci_subsystem_id
    full = bus_id(card).encode()
    if hasattr(info, "busIdLegacy"):
        info.busIdLegacy, info.busId = full[4:], full
    else:
        info.busId = full[4:]


def _first_pci_info(device: Device, out: Any) -> None:
    """Drivers leave the subsystem out of the first version (580.159.04 on an H100 does)."""
    _pci_info(device, out)
    target(out).pciSubSystemId = 0


def _running(kind: int) -> DeviceCall:
    """A process list. Too small an array, or NULL, gets the needed count and INSUFFICIENT_SIZE."""

    def call(device: Device, count: Any, rows: Any) -> None:
        found = [row for row in processes(device.content, device.slot) if row.kind == kind]
        room = number(target(count))
        write_number(count, len(found))
        if len(found) > (room if rows is not None else 0):
            raise ReturnCodeError(Code.INSUFFICIENT_SIZE)
        for position, row in enumerate(found):
            out = rows[position]
            out.pid, out.usedGpuMemory = row.pid, row.memory
            if hasattr(out, "gpuInstanceId"):  # not in the first version of the list
                out.gpuInstanceId, out.computeInstanceId = row.gpu_instance, row.compute_instance

    return call


def _temperature_v(device: Device, out: Any) -> None:
    reading = target(out)
    if reading.version != TEMPERATURE_V1:
        raise ReturnCodeError(Code.ARGUMENT_VERSION_MISMATCH)
    if reading.sensorType != 0:
        raise ReturnCodeError(Code.INVALID_ARGUMENT)
    reading.temperature = device.card.temperature


def _field_values(device: Device, count: Any, out: Any) -> None:
    """Each value carries its own return code; only the recovery action is known."""
    values = target(out)
    for position in range(number(count)):
        value = values[position]
        if value.fieldId != FIELD_RECOVERY_ACTION:
            value.nvmlReturn = Code.NOT_SUPPORTED
            continue
        value.nvmlReturn, value.valueType = refusal(device.card, RECOVERY_ACTION), VALUE_UNSIGNED_INT
        value.value.uiVal = device.card.recovery_action


def _memory_affinity(device: Device, words: Any, out: Any, _scope: Any) -> None:
    """A bit set of NUMA nodes, in unsigned longs."""
    nodes, numa = target(out), device.card.numa
    if not 0 <= numa < 64 * number(words):
        raise ReturnCodeError(Code.INSUFFICIENT_SIZE)
    for word in range(number(words)):
        nodes[word] = 1 << numa % 64 if numa // 64 == word else 0


def _nvlink_state(device: Device, link: Any, out: Any) -> None:
    write_number(out, int(other_end(device.content, device.slot, number(link)) is not None))


def _nvlink_capability(device: Device, link: Any, asked: Any, out: Any) -> None:
    other_end(device.content, device.slot, number(link))
    write_number(out, int(capability(device.card, number(asked))))


def _end_of_link(device: Device, link: Any) -> Card:
    end = other_end(device.content, device.slot, number(link))
    if end is None:
        raise ReturnCodeError(Code.NOT_SUPPORTED)
    return end


def _nvlink_remote_type(device: Device, link: Any, out: Any) -> None:
    end = _end_of_link(device, link)
    write_number(out, NVLINK_TO_CARD if end.uuid else NVLINK_TO_SWITCH)


def _nvlink_remote_pci(device: Device, link: Any, out: Any) -> None:
    _write_pci(_end_of_link(device, link), target(out))


def _mig_device(_device: Device, _index: Any, _out: Any) -> None:
    raise ReturnCodeError(Code.NOT_FOUND)  # MIG mode is simulated, its slices are not


DEVICE_CALLS: Final[Mapping[str, DeviceCall]] = MappingProxyType(
    {
        **{function: _plain(answer) for function, answer in PLAIN.items()},
        **{function: _chosen(function, row) for function, row in CHOSEN.items()},
        **{function: _text(field) for function, field in TEXTS.items()},
        "nvmlDeviceGetIndex": lambda device, out: write_number(out, device.index),
        "nvmlDeviceGetPciInfo": _first_pci_info,
        "nvmlDeviceGetPciInfo_v2": _pci_info,
        "nvmlDeviceGetPciInfo_v3": _pci_info,
        "nvmlDeviceGetMemoryInfo": _memory,
        "nvmlDeviceGetMemoryInfo_v2": _memory_v2,
        "nvmlDeviceGetUtilizationRates": _utilization,
        **{
            f"nvmlDeviceGet{name}RunningProcesses{version}": _running(kind)
            for name, kind in (("Compute", COMPUTE), ("Graphics", GRAPHICS), ("MPSCompute", MPS))
            for version in ("", "_v2", "_v3")
        },
        "nvmlDeviceGetTemperatureV": _temperature_v,
        "nvmlDeviceGetFieldValues": _field_values,
        "nvmlDeviceGetMemoryAffinity": _memory_affinity,
        "nvmlDeviceGetNvLinkState": _nvlink_state,
        "nvmlDeviceGetNvLinkCapability": _nvlink_capability,
        "nvmlDeviceGetNvLinkRemoteDeviceType": _nvlink_remote_type,
        **{f"nvmlDeviceGetNvLinkRemotePciInfo{version}": _nvlink_remote_pci for version in ("", "_v2")},
        "nvmlDeviceGetMigDeviceHandleByIndex": _mig_device,
        "nvmlDeviceIsMigDeviceHandle": lambda _, out: write_number(out, 0),
    }
)
