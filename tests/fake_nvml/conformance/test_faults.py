"""Faults of the state file, as callers meet them."""

from __future__ import annotations

import os
import time

import pytest

from fake_nvml.native.build import library_folder
from fake_nvml.state import State
from tests.fake_nvml.conformance.probed import Probed

NO_PERMISSION, NOT_SUPPORTED, TIMEOUT, GPU_IS_LOST, UNKNOWN = 4, 3, 10, 15, 999
NOBODY = 65534


def handles(nvml: Probed) -> list[dict[str, int]]:
    """The handles of the three cards."""
    return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(3)]


def test_fault_fails_one_function_of_one_card_this_many_times(nvml: Probed, state: State) -> None:
    """Other cards and functions answer, and a used fault is gone."""
    first, second, _ = handles(nvml)
    state.add_fault("nvmlDeviceGetTemperature", card=state.cards()[0].uuid, code=UNKNOWN, count=2)

    assert nvml.code("nvmlDeviceGetTemperature", second, 0) == 0
    assert nvml.code("nvmlDeviceGetPowerUsage", first) == 0
    assert [nvml.code("nvmlDeviceGetTemperature", first, 0) for _ in range(3)] == [UNKNOWN, UNKNOWN, 0]
    assert state.faults() == []
    assert state.read().faults[0].used == 0


def test_a_name_without_a_version_means_each_version(nvml: Probed, state: State) -> None:
    """The fault of a function is met by its v2, too."""
    state.add_fault("nvmlDeviceGetHandleByIndex", card=state.cards()[1].uuid, code=GPU_IS_LOST)
    state.add_fault("nvmlDeviceGetCount", code=UNKNOWN)

    assert nvml.code("nvmlDeviceGetCount") == UNKNOWN
    assert [nvml.code("nvmlDeviceGetHandleByIndex", index) for index in range(3)] == [0, GPU_IS_LOST, 0]


def test_a_star_means_every_name_that_begins_so(nvml: Probed, state: State) -> None:
    """The first fault that applies is met, one without a count for ever; error texts are never refused."""
    first, second, _ = handles(nvml)
    state.add_fault("nvmlDeviceGetName", code=NO_PERMISSION, count=1)
    state.add_fault("nvmlDeviceGet*", code=UNKNOWN)

    codes = [nvml.code("nvmlDeviceGetName", card) for card in (first, second, first)]
    assert codes == [NO_PERMISSION, UNKNOWN, UNKNOWN]
    assert nvml.code("nvmlDeviceGetVbiosVersion", first) == UNKNOWN
    assert nvml.code("nvmlSystemGetDriverVersion") == 0
    state.clear_faults()
    state.add_fault("*", code=UNKNOWN)
    assert nvml.code("nvmlSystemGetDriverVersion") == UNKNOWN
    assert nvml.nvmlErrorString(0) == "Success"
    state.clear_faults()
    assert nvml.code("nvmlDeviceGetName", first) == 0


def test_the_fault_of_a_lost_card_comes_before_its_loss(nvml: Probed, state: State) -> None:
    """The fault is met first, as the driver would refuse the call first."""
    (card, *_) = handles(nvml)
    uuid = state.cards()[0].uuid
    state.lose(uuid)
    state.add_fault("nvmlDeviceGetName", card=uuid, code=UNKNOWN, count=1)

    assert [nvml.code("nvmlDeviceGetName", card) for _ in range(2)] == [UNKNOWN, GPU_IS_LOST]


def test_call_without_a_handle_meets_faults_of_any_card_only(nvml: Probed, state: State) -> None:
    """A fault of one card needs a call about that card."""
    uuid = state.cards()[0].uuid
    events = nvml.nvmlEventSetCreate()
    state.add_fault("nvmlSystemGetDriverVersion", card=uuid, code=UNKNOWN)
    (card, *_) = handles(nvml)
    state.add_fault("nvmlDeviceGet*", card=uuid, code=UNKNOWN)

    assert nvml.code("nvmlSystemGetDriverVersion") == 0
    assert nvml.code("nvmlDeviceGetVbiosVersion", card) == NOT_SUPPORTED
    assert nvml.code("nvmlDeviceGetName", card) == UNKNOWN
    state.add_fault("nvmlEventSetWait", card=uuid, code=UNKNOWN)
    assert nvml.wait_code(events) == TIMEOUT
    state.add_fault("nvmlEventSetWait", code=GPU_IS_LOST, count=1)
    assert [nvml.wait_code(events) for _ in range(2)] == [GPU_IS_LOST, TIMEOUT]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_where_the_state_may_only_be_read_a_fault_is_for_ever(nvml: Probed, state: State) -> None:
    """A library that may only read the state cannot count its calls, so it never uses up a fault."""
    nvml.reset()
    nvml.ask({"user": NOBODY})
    nvml.nvmlInit()
    state.add_fault("nvmlDeviceGetCount", code=UNKNOWN, count=1)

    assert [nvml.code("nvmlDeviceGetCount") for _ in range(3)] == [UNKNOWN] * 3
    assert [fault.count for fault in state.faults()] == [1]


def test_slow_calls_answer_late_and_right(nvml: Probed, state: State) -> None:
    """A slow call takes at least as long as was asked for; how much longer depends on the machine."""
    (card, *_) = handles(nvml)
    state.add_fault("nvmlDeviceGetName", seconds=0.3, count=1)

    began = time.monotonic()
    name = nvml.nvmlDeviceGetName(card)

    assert time.monotonic() - began >= 0.3
    assert name == state.cards()[0].name
    assert state.faults() == []


def test_init_can_fail_so_many_times(nvml: Probed, state: State) -> None:
    """A fault with a count of two fails nvmlInit twice; the third call succeeds, and the cards are there."""
    nvml.reset()
    state.add_fault("nvmlInit*", code=NO_PERMISSION, count=2)

    assert [nvml.code("nvmlInit") for _ in range(3)] == [NO_PERMISSION, NO_PERMISSION, 0]
    assert nvml.nvmlDeviceGetCount() == 3


def test_uninitialised_calls_use_no_fault_up(nvml: Probed, state: State) -> None:
    """A call before the init is refused before any fault."""
    nvml.reset()
    state.add_fault("nvmlDeviceGetCount", code=UNKNOWN, count=1)
    assert nvml.code("nvmlDeviceGetCount") == 1

    nvml.nvmlInit()
    assert [nvml.code("nvmlDeviceGetCount") for _ in range(2)] == [UNKNOWN, 0]


def test_a_fault_is_met_once_by_all_processes_together(nvml: Probed, state: State) -> None:
    """A second process on the same file takes its part of the count."""
    settings = {"FAKENVML_STATE": str(state.path), "LD_LIBRARY_PATH": str(library_folder(state.driver()))}
    other = Probed("", state.path, settings)
    try:
        other.nvmlInit()
        state.add_fault("nvmlDeviceGetCount", code=UNKNOWN, count=3)

        codes = [probed.code("nvmlDeviceGetCount") for _ in range(2) for probed in (nvml, other)]

        assert codes == [UNKNOWN, UNKNOWN, UNKNOWN, 0]
    finally:
        other.close()
