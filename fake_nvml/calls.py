"""The C functions that the stand-in answers. Each takes what is loaded, the name it was called by, then C's arguments.

A function that ends returns SUCCESS; other codes are raised. A function that is not in ``CALLS`` answers NOT_SUPPORTED. Each meets
the faults of the state file once, as soon as it is known which card it is about (``layout``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from fake_nvml.core.drivers import cuda_version
from fake_nvml.core.layout import Card
from fake_nvml.core.links import common_ancestor, peer_status
from fake_nvml.core.returns import Code, ReturnCodeError, text_of
from fake_nvml.device_calls import (
    DEVICE_CALLS,
    DeviceCall,
    address,
    bus_id,
    number,
    target,
    text,
    write_field_handle,
    write_handle,
    write_number,
    write_text,
)
from fake_nvml.eras import VERSION_BEFORE_INIT_SINCE
from fake_nvml.fake_session import Device, EventSets, Session, check


@dataclass(frozen=True, slots=True)
class Loaded:
    """The parts of one loaded library."""

    session: Session
    events: EventSets


Call = Callable[..., Any]


def not_supported(loaded: Loaded, function: str, *_arguments: Any) -> None:
    """Any function that is not in ``CALLS``."""
    loaded.session.meet(function, None)
    raise ReturnCodeError(Code.NOT_SUPPORTED)


def _about_no_card(call: Call) -> Call:
    def meet_and_call(loaded: Loaded, function: str, *arguments: Any) -> Any:
        check(loaded.session.meet(function, None).header, function)
        return call(loaded, *arguments)

    return meet_and_call


def _about_a_card(call: DeviceCall) -> Call:
    def meet_and_call(loaded: Loaded, function: str, handle: Any, *arguments: Any) -> None:
        call(_device(loaded, function, loaded.session.slot(address(handle))), *arguments)

    return meet_and_call


def _about_two_cards(answer: Callable[..., int]) -> Call:
    """A number about how two cards reach each other; C's arguments between the cards and its place go to ``answer``."""

    def meet_and_call(loaded: Loaded, function: str, handle: Any, other: Any, *arguments: Any) -> None:
        *choice, out = arguments
        one = _device(loaded, function, loaded.session.slot(address(handle)))
        target(out)
        second = loaded.session.device(function, loaded.session.slot(address(other)), one.content)
        write_number(out, answer(one.content, one.slot, second.slot, *map(number, choice)))

    return meet_and_call


def _device(loaded: Loaded, function: str, slot: int) -> Device:
    """The card in a slot, after the fault that the call meets."""
    return loaded.session.device(function, slot, loaded.session.meet(function, slot))


def _init(loaded: Loaded, function: str, _flags: Any = 0) -> None:
    loaded.session.init(function)


def _shutdown(loaded: Loaded, function: str) -> None:
    """Without an nvmlInit before it is a success, as in all real libraries."""
    if not loaded.session.initialized:
        return
    loaded.session.meet(function, None)
    if loaded.session.shutdown():
        loaded.events.clear()


def _error_string(loaded: Loaded, _function: str, code: Any) -> bytes:
    return text_of(number(code), loaded.session.branch).encode()


def _nvml_version(loaded: Loaded, function: str, buffer: Any, size: Any) -> None:
    """Libraries from 535 on answer it before nvmlInit too."""
    if loaded.session.initialized:
        check(loaded.session.meet(function, None).header, function)
    elif loaded.session.branch < VERSION_BEFORE_INIT_SINCE:
        raise ReturnCodeError(Code.UNINITIALIZED)
    driver = loaded.session.driver
    write_text(buffer, size, f"{cuda_version(driver) // 1000}.{driver}".encode())


def _process_name(loaded: Loaded, pid: Any, buffer: Any, size: Any) -> None:
    content = loaded.session.read()
    wanted = number(pid)
    rows = (content.processes[index] for index in range(content.header.process_rows))
    name = next((row.name for row in rows if row.kind and row.pid == wanted), None)
    if name is None:
        raise ReturnCodeError(Code.NOT_FOUND)
    # NVML cuts a name to the buffer.
    target(buffer).value = name[: max(number(size) - 1, 0)]


def _answer_found(loaded: Loaded, function: str, slot: int | None, missing: int, handle: Any) -> None:
    if slot is None:
        loaded.session.meet(function, None)
        raise ReturnCodeError(missing)
    _device(loaded, function, slot)
    write_handle(handle, loaded.session.handle(slot))


def _by_index(loaded: Loaded, function: str, index: Any, handle: Any) -> None:
    slots, wanted = loaded.session.slots, number(index)
    slot = slots[wanted] if 0 <= wanted < len(slots) else None
    _answer_found(loaded, function, slot, Code.INVALID_ARGUMENT, handle)


def _by_name(has: Callable[[Card, str], bool]) -> Call:
    def find(loaded: Loaded, function: str, name: Any, handle: Any) -> None:
        wanted = text(name)
        slot = next((slot for slot in loaded.session.slots if has(loaded.session.known(slot), wanted)), None)
        _answer_found(loaded, function, slot, Code.NOT_FOUND, handle)

    return find


def _has_bus_id(card: Card, bus: str) -> bool:
    """The domain may be written with fewer than eight digits."""
    domain, _, rest = bus.lower().partition(":")
    return bus_id(card).lower() == f"{domain.rjust(8, '0')}:{rest}"


def _register_events(loaded: Loaded, function: str, handle: Any, types: Any, event_set: Any) -> None:
    slot, wanted = loaded.session.slot(address(handle)), number(types)
    device = _device(loaded, function, slot)
    if wanted & ~device.card.events:
        raise ReturnCodeError(Code.NOT_SUPPORTED)
    loaded.events.register(address(event_set), slot, wanted, device.content)


def _event_set_wait(loaded: Loaded, event_set: Any, data: Any, timeout_ms: Any) -> None:
    event = loaded.events.wait(address(event_set), number(timeout_ms))
    answer = target(data)
    write_field_handle(answer, "device", loaded.session.handle(event.card))
    answer.eventType, answer.eventData = event.type, event.data
    if hasattr(answer, "gpuInstanceId"):
        answer.gpuInstanceId, answer.computeInstanceId = event.gpu_instance, event.compute_instance


_ABOUT_NO_CARD: Final[Mapping[str, Call]] = {
    "nvmlSystemGetDriverVersion": lambda loaded, buffer, size: write_text(
        buffer, size, loaded.session.read().header.driver
    ),
    **dict.fromkeys(
        ("nvmlSystemGetCudaDriverVersion", "nvmlSystemGetCudaDriverVersion_v2"),
        lambda loaded, version: write_number(version, loaded.session.read().header.cuda),
    ),
    "nvmlSystemGetProcessName": _process_name,
    **dict.fromkeys(
        ("nvmlDeviceGetCount", "nvmlDeviceGetCount_v2"),
        lambda loaded, count: write_number(count, len(loaded.session.slots)),
    ),
    "nvmlEventSetCreate": lambda loaded, event_set: write_handle(event_set, loaded.events.create()),
    "nvmlEventSetFree": lambda loaded, event_set: loaded.events.free(address(event_set)),
    "nvmlEventSetWait": _event_set_wait,
    "nvmlEventSetWait_v2": _event_set_wait,
}

CALLS: Final[Mapping[str, Call]] = MappingProxyType(
    {
        "nvmlInit": _init,
        "nvmlInit_v2": _init,
        "nvmlInitWithFlags": _init,
        "nvmlErrorString": _error_string,
        "nvmlShutdown": _shutdown,
        "nvmlSystemGetNVMLVersion": _nvml_version,
        "nvmlDeviceGetHandleByIndex": _by_index,
        "nvmlDeviceGetHandleByIndex_v2": _by_index,
        "nvmlDeviceGetHandleByUUID": _by_name(lambda card, uuid: bool(card.uuid == uuid.encode())),
        "nvmlDeviceGetHandleBySerial": _by_name(lambda card, serial: bool(serial and card.serial == serial.encode())),
        "nvmlDeviceGetHandleByPciBusId": _by_name(_has_bus_id),
        "nvmlDeviceGetHandleByPciBusId_v2": _by_name(_has_bus_id),
        "nvmlDeviceRegisterEvents": _register_events,
        "nvmlDeviceGetTopologyCommonAncestor": _about_two_cards(common_ancestor),
        "nvmlDeviceGetP2PStatus": _about_two_cards(peer_status),
        **{name: _about_no_card(call) for name, call in _ABOUT_NO_CARD.items()},
        **{name: _about_a_card(call) for name, call in DEVICE_CALLS.items()},
    }
)

# The only functions that answer before nvmlInit, as measured on real libraries without a driver.
NEEDS_NO_INIT: Final = frozenset(
    {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlErrorString", "nvmlShutdown", "nvmlSystemGetNVMLVersion"}
)
