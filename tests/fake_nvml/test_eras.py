"""Symbols that a driver is too old for are really absent."""

from __future__ import annotations

from collections.abc import Callable

import pynvml
import pytest

from fake_nvml.eras import ERAS, era_of, has_symbol, symbols
from fake_nvml.state import State

Simulate = Callable[..., State]

LISTS = {
    "418.87.00": {"v3": False, "v2": False, "memory_v2": False, "mig": False},
    "450.66": {"v3": False, "v2": True, "memory_v2": False, "mig": True},
    "470.57.02": {"v3": False, "v2": True, "memory_v2": False, "mig": True},
    "510.39.01": {"v3": True, "v2": True, "memory_v2": True, "mig": True},
}


@pytest.mark.parametrize("driver", LISTS)
def test_each_era_has_its_symbols(simulate: Simulate, driver: str) -> None:
    """A function of a later driver raises AttributeError, as ctypes does."""
    simulate("t4x1", driver=driver)
    symbols = {
        "v3": "nvmlDeviceGetComputeRunningProcesses_v3",
        "v2": "nvmlDeviceGetComputeRunningProcesses_v2",
        "memory_v2": "nvmlDeviceGetMemoryInfo_v2",
        "mig": "nvmlDeviceGetMigMode",
    }

    assert {key: hasattr(pynvml.nvmlLib, name) for key, name in symbols.items()} == LISTS[driver]
    assert hasattr(pynvml.nvmlLib, "nvmlDeviceGetComputeRunningProcesses")


def test_todays_pynvml_cannot_list_processes_on_an_old_driver(simulate: Simulate) -> None:
    """The trap that callers must step around: an error that is no NVMLError."""
    simulate("t4x1", driver="470.57.02")
    card = pynvml.nvmlDeviceGetHandleByIndex(0)

    with pytest.raises(pynvml.NVMLLibraryMismatchError):
        pynvml.nvmlDeviceGetComputeRunningProcesses(card)
    assert pynvml.nvmlDeviceGetComputeRunningProcesses_v2(card) == []
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetMemoryInfo(card, version=pynvml.nvmlMemory_v2)


@pytest.mark.parametrize(
    ("branch", "there", "absent"),
    [
        (375, "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetArchitecture"),
        (440, "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetMigMode"),
        (450, "nvmlDeviceGetMigMode", "nvmlRetry_NvRmControl"),
        (510, "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceSetFanSpeed_v2"),
        (530, "nvmlRetry_NvRmControl", "nvmlDeviceGetJpgUtilization"),
        (545, "nvmlDeviceGetJpgUtilization", "nvmlDeviceGetNumaNodeId"),
        (550, "nvmlDeviceGetNumaNodeId", "nvmlDeviceGetTemperatureV"),
        (565, "nvmlSystemGetDriverBranch", "nvmlDeviceGetTemperatureV"),
        (570, "nvmlDeviceGetTemperatureV", "nvmlDeviceGetHandleByUUIDV"),
    ],
)
def test_a_branch_without_a_list_has_what_its_neighbours_say(branch: int, there: str, absent: str) -> None:
    """The rule is at the head of ``symbols.txt``."""
    for age in (branch, era_of(branch)):
        assert has_symbol(there, age)
        assert not has_symbol(absent, age)


@pytest.mark.parametrize("branch", ERAS)
def test_each_branch_stands_between_the_lists_beside_it(branch: int) -> None:
    """It has what both have, and nothing that neither has; after the last list it has all of that."""
    lists = (390, 418, 450, 460, 470, 525, 535, 550)
    older = symbols(max(read for read in lists if read <= branch))
    younger = symbols(min((read for read in lists if read >= branch), default=ERAS[-1]))

    assert older & younger <= symbols(branch) <= older | younger


def test_a_name_that_is_not_nvmls_is_no_symbol() -> None:
    """Not even with the newest driver."""
    assert not has_symbol("cuInit", 999)
