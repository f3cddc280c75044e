"""The C functions that the stand-in answers. Each takes the library, then C's arguments.

A function that ends returns SUCCESS; other codes are raised. What is not in ``CALLS`` answers NOT_SUPPORTED.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from fake_nvml.arguments import (
    address,
    number,
    target,
    text,
    write_field_handle,
    write_handle,
    write_number,
    write_text,
)
from fake_nvml.device_calls import DEVICE_CALLS, bus_id, supported_events
from fake_nvml.layout import StateFile
from fake_nvml.returns import INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, TEXTS, UNKNOWN_TEXT, ReturnCodeError

if TYPE_CHECKING:
    from fake_nvml.library import Library

Call = Callable[..., Any]


def _init(library: Library, _flags: Any = 0) -> None:
    library.init()


def _shutdown(library: Library) -> None:
    library.shutdown()


def _error_string(_library: Library, code: Any) -> bytes:
    return TEXTS.get(number(code), UNKNOWN_TEXT)


def _driver_version(library: Library, buffer: Any, size: Any) -> None:
    write_text(buffer, size, library.read().header.driver)


def _nvml_version(library: Library, buffer: Any, size: Any) -> None:
    header = library.read().header
    write_text(buffer, size, f"{header.cuda // 1000}.".encode() + header.driver)


def _cuda_version(library: Library, version: Any) -> None:
    write_number(version, library.read().header.cuda)


def _process_name(library: Library, pid: Any, buffer: Any, size: Any) -> None:
    content = library.read()
    wanted = number(pid)
    rows = (content.processes[index] for index in range(content.header.process_rows))
    name = next((row.name for row in rows if row.kind and row.pid == wanted), None)
    if name is None:
        raise ReturnCodeError(NOT_FOUND)
    # NVML cuts a name to the buffer.
    target(buffer).value = name[: max(number(size) - 1, 0)]


def _count(library: Library, count: Any) -> None:
    write_number(count, library.card_count)


def _by_index(library: Library, index: Any, handle: Any) -> None:
    slot = number(index)
    if not 0 <= slot < library.card_count:
        raise ReturnCodeError(INVALID_ARGUMENT)
    library.device_at(slot)
    write_handle(handle, library.handle(slot))


def _find(library: Library, handle: Any, matches: Callable[[StateFile, int], bool]) -> None:
    content = library.read()
    for slot in range(min(library.card_count, content.header.card_count)):
        if matches(content, slot):
            _by_index(library, slot, handle)
            return
    raise ReturnCodeError(NOT_FOUND)


def _by_uuid(library: Library, uuid: Any, handle: Any) -> None:
    wanted = text(uuid).encode()
    _find(library, handle, lambda content, slot: content.cards[slot].uuid == wanted)


def _by_serial(library: Library, serial: Any, handle: Any) -> None:
    wanted = text(serial).encode()
    _find(library, handle, lambda content, slot: wanted != b"" and content.cards[slot].serial == wanted)


def _by_bus_id(library: Library, bus: Any, handle: Any) -> None:
    domain, _, rest = text(bus).lower().partition(":")
    wanted = f"{domain.rjust(8, '0')}:{rest}"
    _find(library, handle, lambda content, slot: bus_id(content.cards[slot]).lower() == wanted)


def _event_set_create(library: Library, event_set: Any) -> None:
    write_handle(event_set, library.events.create())


def _event_set_free(library: Library, event_set: Any) -> None:
    library.events.free(address(event_set))


def _register_events(library: Library, handle: Any, types: Any, event_set: Any) -> None:
    device = library.device(address(handle))
    wanted = number(types)
    if wanted & ~supported_events(device.card):
        raise ReturnCodeError(NOT_SUPPORTED)
    library.events.register(address(event_set), device.slot, wanted, device.content)


def _event_set_wait(library: Library, event_set: Any, data: Any, timeout_ms: Any) -> None:
    event = library.events.wait(library, address(event_set), number(timeout_ms))
    answer = target(data)
    write_field_handle(answer, "device", library.handle(event.card))
    answer.eventType, answer.eventData = event.type, event.data
    if hasattr(answer, "gpuInstanceId"):
        answer.gpuInstanceId, answer.computeInstanceId = event.gpu_instance, event.compute_instance


CALLS: Final[Mapping[str, Call]] = MappingProxyType(
    {
        "nvmlInit": _init,
        "nvmlInit_v2": _init,
        "nvmlInitWithFlags": _init,
        "nvmlShutdown": _shutdown,
        "nvmlErrorString": _error_string,
        "nvmlSystemGetDriverVersion": _driver_version,
        "nvmlSystemGetNVMLVersion": _nvml_version,
        "nvmlSystemGetCudaDriverVersion": _cuda_version,
        "nvmlSystemGetCudaDriverVersion_v2": _cuda_version,
        "nvmlSystemGetProcessName": _process_name,
        "nvmlDeviceGetCount": _count,
        "nvmlDeviceGetCount_v2": _count,
        "nvmlDeviceGetHandleByIndex": _by_index,
        "nvmlDeviceGetHandleByIndex_v2": _by_index,
        "nvmlDeviceGetHandleByUUID": _by_uuid,
        "nvmlDeviceGetHandleBySerial": _by_serial,
        "nvmlDeviceGetHandleByPciBusId": _by_bus_id,
        "nvmlDeviceGetHandleByPciBusId_v2": _by_bus_id,
        "nvmlEventSetCreate": _event_set_create,
        "nvmlEventSetFree": _event_set_free,
        "nvmlDeviceRegisterEvents": _register_events,
        "nvmlEventSetWait": _event_set_wait,
        "nvmlEventSetWait_v2": _event_set_wait,
        **DEVICE_CALLS,
    }
)

# The only functions that answer before nvmlInit.
NEEDS_NO_INIT: Final = frozenset({"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlErrorString"})
