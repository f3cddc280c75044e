"""Faults of the state file, as callers meet them."""

from __future__ import annotations

import pynvml
import pytest

from fake_nvml.state import State
from tests.fake_nvml.conformance.calls import (
    GPU_IS_LOST,
    NO_PERMISSION,
    UNKNOWN,
    cards,
    code,
)

pytestmark = pytest.mark.usefixtures("nvml")


def test_fault_fails_one_function_of_one_card_this_many_times(state: State) -> None:
    """Other cards and functions answer, and a used fault is gone."""
    first, second, _ = cards()
    state.add_fault("nvmlDeviceGetTemperature", card=state.cards()[0].uuid, code=UNKNOWN, count=2)

    assert code(pynvml.nvmlDeviceGetTemperature, second, 0) == 0
    assert code(pynvml.nvmlDeviceGetPowerUsage, first) == 0
    assert [code(pynvml.nvmlDeviceGetTemperature, first, 0) for _ in range(3)] == [UNKNOWN, UNKNOWN, 0]
    assert state.faults() == []
    assert state.read().faults[0].used == 0


def test_a_name_without_a_version_means_each_version(state: State) -> None:
    """The fault of a function is met by its v2, too."""
    state.add_fault("nvmlDeviceGetHandleByIndex", card=state.cards()[1].uuid, code=GPU_IS_LOST)
    state.add_fault("nvmlDeviceGetCount", code=UNKNOWN)

    assert code(pynvml.nvmlDeviceGetCount) == UNKNOWN
    assert [code(pynvml.nvmlDeviceGetHandleByIndex, index) for index in range(3)] == [0, GPU_IS_LOST, 0]


def test_a_star_means_every_name_that_begins_so(state: State) -> None:
    """The first fault that applies is met, one without a count for ever; error texts are never refused."""
    first, second, _ = cards()
    state.add_fault("nvmlDeviceGetName", code=NO_PERMISSION, count=1)
    state.add_fault("nvmlDeviceGet*", code=UNKNOWN)

    codes = [code(pynvml.nvmlDeviceGetName, card) for card in (first, second, first)]
    assert codes == [NO_PERMISSION, UNKNOWN, UNKNOWN]
    assert code(pynvml.nvmlDeviceGetVbiosVersion, first) == UNKNOWN
    assert code(pynvml.nvmlSystemGetDriverVersion) == 0
    state.clear_faults()
    state.add_fault("*", code=UNKNOWN)
    assert code(pynvml.nvmlSystemGetDriverVersion) == UNKNOWN
    assert pynvml.nvmlErrorString(0) == "Success"
    state.clear_faults()
    assert code(pynvml.nvmlDeviceGetName, first) == 0
