"""Symbols that a driver is too old for are really absent."""

from __future__ import annotations

import pytest

from fake_nvml.eras import ERAS, era_of, has_symbol, symbols


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
    """A branch has what both lists beside it have, and nothing that is in neither; the newest era is the list after the last."""
    lists = (390, 418, 450, 460, 470, 525, 535, 550)
    older = symbols(max(read for read in lists if read <= branch))
    younger = symbols(min((read for read in lists if read >= branch), default=ERAS[-1]))

    assert older & younger <= symbols(branch) <= older | younger


def test_a_name_that_is_not_nvmls_is_no_symbol() -> None:
    """A name that is not NVML's is no symbol of the newest driver either."""
    assert not has_symbol("cuInit", 999)
