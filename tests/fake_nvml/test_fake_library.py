"""The stand-in through the real pynvml: what a caller of NVML finds, in three driver eras."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from fake_nvml.box import Box
from fake_nvml.core.layout import VERSION
from fake_nvml.install import install
from fake_nvml.state import State

MIB = 1024 * 1024
Simulate = Callable[..., State]


def handle(index: int) -> object:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def address(device: object) -> int | None:
    return ctypes.cast(device, ctypes.c_void_p).value  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("driver", "nvml", "cuda"), [("418.87.00", "10.418.87.00", 10010), ("535.104.05", "12.535.104.05", 12020)]
)
def test_the_versions_are_those_of_the_driver(simulate: Simulate, driver: str, nvml: str, cuda: int) -> None:
    """Driver, NVML and CUDA have the versions of one release."""
    simulate(driver=driver)

    assert pynvml.nvmlSystemGetDriverVersion() == driver
    assert pynvml.nvmlSystemGetNVMLVersion() == nvml
    assert pynvml.nvmlSystemGetCudaDriverVersion() == pynvml.nvmlSystemGetCudaDriverVersion_v2() == cuda


def test_cards_are_listed_in_the_boxs_order(simulate: Simulate) -> None:
    """Names, UUIDs, indices and minor numbers agree."""
    state = simulate("mixed")

    handles = [handle(index) for index in range(pynvml.nvmlDeviceGetCount())]

    assert [pynvml.nvmlDeviceGetName(card) for card in handles] == ["Tesla T4", "Tesla T4", "GeForce GTX 1080 Ti"]
    assert [pynvml.nvmlDeviceGetUUID(card) for card in handles] == [card.uuid for card in state.cards()]
    assert [pynvml.nvmlDeviceGetIndex(card) for card in handles] == [0, 1, 2]
    assert [pynvml.nvmlDeviceGetMinorNumber(card) for card in handles] == [0, 1, 2]


def test_a_card_is_found_by_each_of_its_names(simulate: Simulate) -> None:
    """UUID, serial number and every spelling of the bus id lead to one handle."""
    state = simulate("t4x2")
    card = handle(1)
    bus = pynvml.nvmlDeviceGetPciInfo(card)

    found = [
        pynvml.nvmlDeviceGetHandleByUUID(state.cards()[1].uuid),
        pynvml.nvmlDeviceGetHandleBySerial(pynvml.nvmlDeviceGetSerial(card)),
        pynvml.nvmlDeviceGetHandleByPciBusId(bus.busId),
        pynvml.nvmlDeviceGetHandleByPciBusId(bus.busIdLegacy),
        pynvml.nvmlDeviceGetHandleByPciBusId(bus.busId.lower()),
    ]

    assert {address(other) for other in found} == {address(card)}


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda: pynvml.nvmlDeviceGetHandleByIndex(3), pynvml.NVML_ERROR_INVALID_ARGUMENT),
        (lambda: pynvml.nvmlDeviceGetHandleByUUID("GPU-no"), pynvml.NVML_ERROR_NOT_FOUND),
        (lambda: pynvml.nvmlDeviceGetHandleBySerial(""), pynvml.NVML_ERROR_NOT_FOUND),
        (lambda: pynvml.nvmlDeviceGetHandleByPciBusId("0000:ff:00.0"), pynvml.NVML_ERROR_NOT_FOUND),
        (lambda: pynvml.nvmlDeviceGetName(None), pynvml.NVML_ERROR_INVALID_ARGUMENT),
        (lambda: pynvml.nvmlDeviceGetSerial(handle(2)), pynvml.NVML_ERROR_NOT_SUPPORTED),
        (lambda: pynvml.nvmlDeviceGetEccMode(handle(2)), pynvml.NVML_ERROR_NOT_SUPPORTED),
        (lambda: pynvml.nvmlDeviceGetFanSpeed(handle(0)), pynvml.NVML_ERROR_NOT_SUPPORTED),
        (lambda: pynvml.nvmlDeviceGetTemperature(handle(0), 7), pynvml.NVML_ERROR_INVALID_ARGUMENT),
        (lambda: pynvml.nvmlSystemGetProcessName(1), pynvml.NVML_ERROR_NOT_FOUND),
        (lambda: pynvml.nvmlDeviceGetMemoryInfo(handle(0), version=1), pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH),
    ],
    ids=[
        "index", "uuid", "serial", "bus", "null", "GeForce serial", "GeForce ECC", "stub", "sensor", "pid", "version"
    ],
)  # fmt: skip
def test_what_cannot_be_answered_has_nvmls_own_error(simulate: Simulate, ask: Callable[[], object], error: int) -> None:
    """Each refusal has the code of the real library, and a text."""
    simulate("mixed", driver="535.104.05")

    with pytest.raises(pynvml.NVMLError) as caught:
        ask()

    assert caught.value.value == error
    assert str(caught.value)


def test_identity_is_the_catalogues(simulate: Simulate) -> None:
    """Capability, architecture, NUMA node and links are the model's."""
    simulate("a100x8")
    card = handle(5)

    assert pynvml.nvmlDeviceGetCudaComputeCapability(card) == (8, 0)
    assert pynvml.nvmlDeviceGetArchitecture(card) == pynvml.NVML_DEVICE_ARCH_AMPERE
    assert pynvml.nvmlDeviceGetPciInfo(card).pciDeviceId == 0x20B210DE
    assert list(pynvml.nvmlDeviceGetMemoryAffinity(card, 2, 0)) == [0b10, 0]
    assert pynvml.nvmlDeviceGetNvLinkState(card, 11) == 1
    assert pynvml.nvmlDeviceGetMigMode(card) == [0, 0]
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(card) == 7
    assert pynvml.nvmlDeviceIsMigDeviceHandle(card).value == 0
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetNvLinkState(card, 12)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(card, 0)


def test_sensors_show_what_was_set(simulate: Simulate) -> None:
    """Load, temperature, power, ECC counts and advice come from the state file."""
    state = simulate("t4x1", driver="570.124.06")
    uuid = state.cards()[0].uuid
    for key, value in (
        ("utilization", "40"), ("memory-utilization", "7"), ("temperature", "81"), ("power", "66"),
        ("ecc-uncorrected", "2"), ("ecc-corrected", "9"), ("recovery-action", "1"),
    ):  # fmt: skip
        state.set_value(uuid, key, value)
    card = handle(0)
    rates = pynvml.nvmlDeviceGetUtilizationRates(card)

    assert (rates.gpu, rates.memory) == (40, 7)
    assert pynvml.nvmlDeviceGetTemperature(card, 0) == pynvml.nvmlDeviceGetTemperatureV(card, 0) == 81
    assert (pynvml.nvmlDeviceGetPowerUsage(card), pynvml.nvmlDeviceGetEnforcedPowerLimit(card)) == (66000, 70000)
    assert pynvml.nvmlDeviceGetTotalEccErrors(card, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, 0) == 2
    assert pynvml.nvmlDeviceGetTotalEccErrors(card, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, 0) == 9
    (action,) = pynvml.nvmlDeviceGetFieldValues(card, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    assert (action.nvmlReturn, action.value.uiVal) == (0, pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET)


def test_an_unknown_field_fails_alone(simulate: Simulate) -> None:
    """The other values of the call are answered."""
    simulate("t4x1", driver="535.104.05")

    values = pynvml.nvmlDeviceGetFieldValues(handle(0), [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, 1])

    assert [value.nvmlReturn for value in values] == [pynvml.NVML_ERROR_NOT_SUPPORTED] * 2


def test_memory_before_r510_has_no_reserved_part(simulate: Simulate) -> None:
    """Used is what the processes use."""
    state = simulate("t4x1", driver="418.87.00")
    state.add_process(state.cards()[0].uuid, 100, 1253, "player")

    memory = pynvml.nvmlDeviceGetMemoryInfo(handle(0))

    assert (memory.total // MIB, memory.used // MIB, memory.free // MIB) == (15079, 1253, 13826)


def test_memory_from_r510_on_counts_the_reserved_part(simulate: Simulate) -> None:
    """Version 1 adds it to the used memory, version 2 reports it apart."""
    state = simulate("t4x1", driver="535.104.05")
    state.add_process(state.cards()[0].uuid, 100, 1000, "player")

    first = pynvml.nvmlDeviceGetMemoryInfo(handle(0))
    second = pynvml.nvmlDeviceGetMemoryInfo(handle(0), version=pynvml.nvmlMemory_v2)

    assert (first.total // MIB, first.used // MIB, first.free // MIB) == (15360, 1393, 13967)
    assert (second.total // MIB, second.reserved // MIB, second.used // MIB) == (15360, 393, 1000)
    assert second.free == first.free


@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_process_lists_are_whole(simulate: Simulate, count: int) -> None:
    """Each version of the call has every process, however many there are."""
    state = simulate("t4x2", driver="535.104.05")
    uuid = state.cards()[1].uuid
    for pid in range(1, count + 1):
        state.add_process(uuid, pid, pid, f"player-{pid}")

    for version in ("_v2", "_v3", ""):
        rows = getattr(pynvml, f"nvmlDeviceGetComputeRunningProcesses{version}")(handle(1))
        assert [(row.pid, row.usedGpuMemory) for row in rows] == [(pid, pid * MIB) for pid in range(1, count + 1)]
        assert {row.gpuInstanceId for row in rows} <= {0xFFFFFFFF}
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(handle(0)) == []
    assert pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle(1)) == []
    if count:
        assert pynvml.nvmlSystemGetProcessName(count) == f"player-{count}"


def test_a_size_query_answers_the_count_and_insufficient_size(simulate: Simulate) -> None:
    """The protocol under pynvml's list functions, as other callers speak it."""
    state = simulate("t4x1", driver="535.104.05")
    for pid in (1, 2, 3):
        state.add_process(state.cards()[0].uuid, pid, 1, "player")
    function = pynvml._nvmlGetFunctionPointer("nvmlDeviceGetComputeRunningProcesses_v3")
    count = ctypes.c_uint(2)
    rows = (pynvml.c_nvmlProcessInfo_v2_t * 2)()

    assert function(handle(0), ctypes.byref(count), rows) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
    assert count.value == 3
    assert function(handle(0), ctypes.byref(count), None) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
    assert [row.pid for row in rows] == [0, 0]


def test_a_text_buffer_that_is_too_short_is_refused(simulate: Simulate) -> None:
    """It stays empty."""
    simulate("t4x1")
    buffer = ctypes.create_string_buffer(8)
    function = pynvml._nvmlGetFunctionPointer("nvmlDeviceGetName")

    assert function(handle(0), buffer, ctypes.c_uint(8)) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
    assert buffer.value == b""


def test_a_lost_card_keeps_its_place_and_answers_nothing(simulate: Simulate) -> None:
    """Once it is healthy, its old handle works again."""
    state = simulate("t4x2")
    before = handle(0)

    state.set_value(state.cards()[0].uuid, "state", "lost")

    assert pynvml.nvmlDeviceGetCount() == 2
    for ask in (lambda: handle(0), lambda: pynvml.nvmlDeviceGetUUID(before)):
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            ask()
    assert pynvml.nvmlDeviceGetIndex(handle(1)) == 1

    state.set_value(state.cards()[0].uuid, "state", "healthy")
    assert pynvml.nvmlDeviceGetIndex(before) == 0


def test_another_box_is_seen_after_a_new_init_only(simulate: Simulate, state_path: Path) -> None:
    """The first init fixes the list of cards until the last shutdown; a card that is gone since is lost."""
    simulate("t4x2")
    first = handle(0)

    State.create(state_path, Box.load("gtx1080tix1", seed="other")).close()

    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 2
    for card in (lambda: pynvml.nvmlDeviceGetName(first), lambda: handle(1)):
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            card()
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 1


def test_init_and_shutdown_are_counted(simulate: Simulate) -> None:
    """The last shutdown ends the session; error texts are there without one."""
    simulate("t4x1")
    pynvml.nvmlInit()

    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 1

    pynvml.nvmlShutdown()
    for ask in (pynvml.nvmlDeviceGetCount, pynvml.nvmlEventSetCreate):
        with pytest.raises(pynvml.NVMLError_Uninitialized):
            ask()
    assert pynvml.nvmlLib.nvmlShutdown() == 0, "as real libraries answer"
    assert pynvml.nvmlErrorString(0) == "Success"
    assert pynvml.nvmlErrorString(12345) == "Unknown Error"


@pytest.mark.usefixtures("clean_pynvml")
@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, pynvml.NVML_ERROR_DRIVER_NOT_LOADED),
        (b"FAKENVML" + bytes([VERSION + 1]), pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH),
    ],
    ids=["no file", "another version"],
)
def test_without_a_good_state_file_there_is_no_driver(tmp_path: Path, content: bytes | None, error: int) -> None:
    """A file of another version is a version mismatch."""
    if content is not None:
        (tmp_path / "state").write_bytes(content)
    install(tmp_path / "state", on_purpose=True)

    with pytest.raises(pynvml.NVMLError) as caught:
        pynvml.nvmlInit()

    assert caught.value.value == error


def test_an_init_that_shall_fail_fails(simulate: Simulate) -> None:
    """It raises the error of the state's return code."""
    state = simulate("t4x1")
    pynvml.nvmlShutdown()
    with state.mapped.writing() as content:
        content.header.init_return = pynvml.NVML_ERROR_NO_PERMISSION

    with pytest.raises(pynvml.NVMLError_NoPermission):
        pynvml.nvmlInit()
