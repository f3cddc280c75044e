"""The C functions that ask one card. Each takes the card as it is now, then C's arguments after the handle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from fake_nvml.arguments import number, target, write_number, write_text
from fake_nvml.drivers import branch
from fake_nvml.eras import RECOVERY_ACTION_SINCE
from fake_nvml.layout import COMPUTE, GRAPHICS, MPS, UNKNOWN32, Card
from fake_nvml.nvml_numbers import (
    ARCHITECTURES,
    EVENT_DOUBLE_BIT,
    EVENT_SINGLE_BIT,
    EVENT_XID,
    FIELD_RECOVERY_ACTION,
    MEMORY_V2,
    TEMPERATURE_V1,
    VALUE_UNSIGNED_INT,
)
from fake_nvml.records import memory_used, processes
from fake_nvml.returns import (
    ARGUMENT_VERSION_MISMATCH,
    INSUFFICIENT_SIZE,
    INVALID_ARGUMENT,
    NOT_FOUND,
    NOT_SUPPORTED,
    SUCCESS,
    ReturnCodeError,
)
from fake_nvml.session import Device

DeviceCall = Callable[..., None]

_MEMORY_CORRECTED = 0


def bus_id(card: Card) -> str:
    """The PCI address as NVML writes it, with a domain of eight digits."""
    return f"{card.pci_domain:08X}:{card.pci_bus:02X}:{card.pci_device:02X}.0"


def supported_events(card: Card) -> int:
    """The event types that a card reports: Xids, and memory errors where it has ECC."""
    return EVENT_SINGLE_BIT | EVENT_DOUBLE_BIT | EVENT_XID if card.ecc_supported else EVENT_XID


def _number(read: Callable[[Device], int]) -> DeviceCall:
    return lambda device, out: write_number(out, read(device))


def _known(read: Callable[[Card], int]) -> DeviceCall:
    """A number that a card may not say: a recorded one whose driver did not."""
    return lambda device, out: write_number(out, _checked(read(device.card)))


def _checked(value: int) -> int:
    if value == UNKNOWN32:
        raise ReturnCodeError(NOT_SUPPORTED)
    return value


def _text(read: Callable[[Card], bytes]) -> DeviceCall:
    def call(device: Device, buffer: Any, size: Any) -> None:
        value = read(device.card)
        if not value:
            raise ReturnCodeError(NOT_SUPPORTED)
        write_text(buffer, size, value)

    return call


def _pair(read: Callable[[Card], tuple[int, int]], supported: Callable[[Card], bool] = lambda _: True) -> DeviceCall:
    def call(device: Device, first: Any, second: Any) -> None:
        if not supported(device.card):
            raise ReturnCodeError(NOT_SUPPORTED)
        for out, value in zip((first, second), read(device.card), strict=True):
            write_number(out, value)

    return call


def _architecture(device: Device) -> int:
    capability = (device.card.compute_major, device.card.compute_minor)
    return next((number for least, number in ARCHITECTURES.items() if capability >= least), UNKNOWN32)


def _memory(device: Device, out: Any) -> None:
    """Version 1 has no place for reserved memory and counts it as used."""
    card, info = device.card, target(out)
    used = memory_used(device.content, device.slot) + card.memory_reserved
    info.total, info.used, info.free = card.memory_total, used, card.memory_total - used


def _memory_v2(device: Device, out: Any) -> None:
    card, info = device.card, target(out)
    if info.version != MEMORY_V2:
        raise ReturnCodeError(ARGUMENT_VERSION_MISMATCH)
    used = memory_used(device.content, device.slot)
    info.total, info.reserved, info.used = card.memory_total, card.memory_reserved, used
    info.free = card.memory_total - card.memory_reserved - used


def _utilization(device: Device, out: Any) -> None:
    rates = target(out)
    rates.gpu, rates.memory = device.card.utilization, device.card.memory_utilization


def _pci_info(device: Device, out: Any) -> None:
    card, info = device.card, target(out)
    info.domain, info.bus, info.device = card.pci_domain, card.pci_bus, card.pci_device
    info.pciDeviceId, info.pciSubSystemId = card.pci_device_id, card.pci_subsystem_id
    full = bus_id(card).encode()
    if hasattr(info, "busIdLegacy"):
        info.busIdLegacy, info.busId = full[4:], full
    else:
        info.busId = full[4:]


def _running(kind: int) -> DeviceCall:
    """A process list. Too small an array, or NULL, gets the needed count and INSUFFICIENT_SIZE."""

    def call(device: Device, count: Any, rows: Any) -> None:
        found = [row for row in processes(device.content, device.slot) if row.kind == kind]
        room = number(target(count))
        write_number(count, len(found))
        if len(found) > (room if rows is not None else 0):
            raise ReturnCodeError(INSUFFICIENT_SIZE)
        for position, row in enumerate(found):
            out = rows[position]
            out.pid, out.usedGpuMemory = row.pid, row.memory
            if hasattr(out, "gpuInstanceId"):  # not in the first version of the list
                out.gpuInstanceId, out.computeInstanceId = row.gpu_instance, row.compute_instance

    return call


def _temperature(device: Device, sensor: Any, out: Any) -> None:
    if number(sensor) != 0:
        raise ReturnCodeError(INVALID_ARGUMENT)
    write_number(out, _checked(device.card.temperature))


def _temperature_v(device: Device, out: Any) -> None:
    reading = target(out)
    if reading.version != TEMPERATURE_V1:
        raise ReturnCodeError(ARGUMENT_VERSION_MISMATCH)
    if reading.sensorType != 0:
        raise ReturnCodeError(INVALID_ARGUMENT)
    reading.temperature = _checked(device.card.temperature)


def _total_ecc_errors(device: Device, kind: Any, _counter: Any, out: Any) -> None:
    card = device.card
    if not card.ecc_supported:
        raise ReturnCodeError(NOT_SUPPORTED)
    write_number(out, card.ecc_corrected if number(kind) == _MEMORY_CORRECTED else card.ecc_uncorrected)


def _field_values(device: Device, count: Any, out: Any) -> None:
    """Each value carries its own return code; only the recovery action is known, and not to old drivers."""
    values = target(out)
    known = branch(device.content.header.driver.decode()) >= RECOVERY_ACTION_SINCE
    for position in range(number(count)):
        value = values[position]
        if value.fieldId == FIELD_RECOVERY_ACTION and known:
            value.nvmlReturn, value.valueType = SUCCESS, VALUE_UNSIGNED_INT
            value.value.uiVal = device.card.recovery_action
        else:
            value.nvmlReturn = NOT_SUPPORTED


def _memory_affinity(device: Device, words: Any, out: Any, _scope: Any) -> None:
    """A bit set of NUMA nodes, in unsigned longs."""
    nodes, numa = target(out), device.card.numa
    if numa < 0:
        raise ReturnCodeError(NOT_SUPPORTED)
    if numa >= 64 * number(words):
        raise ReturnCodeError(INSUFFICIENT_SIZE)
    for word in range(number(words)):
        nodes[word] = 1 << numa % 64 if numa // 64 == word else 0


def _nvlink_state(device: Device, link: Any, out: Any) -> None:
    if number(link) >= device.card.nvlinks:
        raise ReturnCodeError(NOT_SUPPORTED if device.card.nvlinks == 0 else INVALID_ARGUMENT)
    write_number(out, 1)


def _mig_device(_device: Device, _index: Any, _out: Any) -> None:
    raise ReturnCodeError(NOT_FOUND)  # MIG mode is simulated, its slices are not


_BY_NAME: Final[Mapping[str, DeviceCall]] = {
    "Name": _text(lambda card: bytes(card.name)),
    "UUID": _text(lambda card: bytes(card.uuid)),
    "Serial": _text(lambda card: bytes(card.serial)),
    "Index": _number(lambda device: device.index),
    "MinorNumber": _number(lambda device: int(device.card.minor)),
    "Brand": _number(lambda device: int(device.card.brand)),
    "Architecture": _number(_architecture),
    "CudaComputeCapability": _pair(lambda card: (card.compute_major, card.compute_minor)),
    "PciInfo": _pci_info,
    "PciInfo_v2": _pci_info,
    "PciInfo_v3": _pci_info,
    "MemoryInfo": _memory,
    "MemoryInfo_v2": _memory_v2,
    "UtilizationRates": _utilization,
    **{
        f"{name}RunningProcesses{version}": _running(kind)
        for name, kind in (("Compute", COMPUTE), ("Graphics", GRAPHICS), ("MPSCompute", MPS))
        for version in ("", "_v2", "_v3")
    },
    "Temperature": _temperature,
    "TemperatureV": _temperature_v,
    "PowerUsage": _known(lambda card: int(card.power)),
    "PowerManagementLimit": _known(lambda card: int(card.power_limit)),
    "EnforcedPowerLimit": _known(lambda card: int(card.power_limit)),
    "PerformanceState": _number(lambda device: 0 if device.card.utilization else 8),
    "ComputeMode": _number(lambda _: 0),
    "PersistenceMode": _number(lambda _: 0),
    "DisplayActive": _number(lambda _: 0),
    "EccMode": _pair(lambda card: (card.ecc_mode, card.ecc_mode), lambda card: bool(card.ecc_supported)),
    "TotalEccErrors": _total_ecc_errors,
    "FieldValues": _field_values,
    "SupportedEventTypes": _number(lambda device: supported_events(device.card)),
    "MemoryAffinity": _memory_affinity,
    "NvLinkState": _nvlink_state,
    "MigMode": _pair(lambda card: (card.mig_mode, card.mig_pending), lambda card: bool(card.mig_slices)),
    "MaxMigDeviceCount": _number(lambda device: int(device.card.mig_slices)),
    "MigDeviceHandleByIndex": _mig_device,
}

DEVICE_CALLS: Final[Mapping[str, DeviceCall]] = MappingProxyType(
    {
        **{f"nvmlDeviceGet{name}": call for name, call in _BY_NAME.items()},
        "nvmlDeviceIsMigDeviceHandle": _number(lambda _: 0),
    }
)
