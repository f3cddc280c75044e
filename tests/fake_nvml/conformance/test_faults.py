"""Faults of the state file, as callers meet them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial

import pynvml
import pytest

from fake_nvml.native.build import library_folder
from fake_nvml.state import State
from tests.fake_nvml.conformance.calls import (
    GPU_IS_LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    TIMEOUT,
    UNINITIALIZED,
    UNKNOWN,
    cards,
    code,
    init_again,
    shut_down,
    wait,
)

pytestmark = pytest.mark.usefixtures("nvml")

NOBODY = 65534
# A process that asks for the count of cards for each line that it gets.
OTHER = """
import pynvml, sys
pynvml.nvmlInit()
for _ in sys.stdin:
    try:
        print(pynvml.nvmlDeviceGetCount() * 0, flush=True)
    except pynvml.NVMLError as error:
        print(error.value, flush=True)
"""


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


def test_the_fault_of_a_lost_card_comes_before_its_loss(state: State) -> None:
    """The fault is met first, as the driver would refuse the call first."""
    card, uuid = cards()[0], state.cards()[0].uuid
    state.lose(uuid)
    state.add_fault("nvmlDeviceGetName", card=uuid, code=UNKNOWN, count=1)

    assert [code(pynvml.nvmlDeviceGetName, card) for _ in range(2)] == [UNKNOWN, GPU_IS_LOST]


def test_call_without_a_handle_meets_faults_of_any_card_only(state: State) -> None:
    """A fault of one card needs a call about that card."""
    uuid, card = state.cards()[0].uuid, cards()[0]
    events = pynvml.nvmlEventSetCreate()
    for function in ("nvmlSystemGetDriverVersion", "nvmlDeviceGet*", "nvmlEventSetWait"):
        state.add_fault(function, card=uuid, code=UNKNOWN)

    assert code(pynvml.nvmlSystemGetDriverVersion) == 0
    assert code(pynvml.nvmlDeviceGetVbiosVersion, card) == NOT_SUPPORTED
    assert code(pynvml.nvmlDeviceGetName, card) == UNKNOWN
    assert code(wait, events) == TIMEOUT
    state.add_fault("nvmlEventSetWait", code=GPU_IS_LOST, count=1)
    assert [code(wait, events) for _ in range(2)] == [GPU_IS_LOST, TIMEOUT]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_state_that_may_only_be_read_is_read(state: State) -> None:
    """A library that may not write cannot count, so a fault is for ever."""
    shut_down()
    os.seteuid(NOBODY)
    try:
        pynvml.nvmlInit()
        state.set_value(state.cards()[0].uuid, "temperature", "70")
        assert pynvml.nvmlDeviceGetTemperature(cards()[0], 0) == 70
        state.add_fault("nvmlSystemGetDriverVersion", code=UNKNOWN, count=1)
        assert [code(pynvml.nvmlSystemGetDriverVersion) for _ in range(3)] == [UNKNOWN] * 3
        assert [fault.count for fault in state.faults()] == [1]
    finally:
        os.seteuid(0)


def test_slow_calls_answer_late_and_right(state: State) -> None:
    """A slow call takes at least as long as was asked for; how much longer depends on the machine."""
    card = cards()[0]
    state.add_fault("nvmlDeviceGetName", seconds=0.3, count=1)

    began = time.monotonic()
    name = pynvml.nvmlDeviceGetName(card)

    assert time.monotonic() - began >= 0.3
    assert (name, state.faults()) == (state.cards()[0].name, [])


def test_init_can_fail_so_many_times(state: State) -> None:
    """A fault with a count of two fails nvmlInit twice; the third call succeeds. Before it no call uses a fault up."""
    shut_down()
    state.add_fault("nvmlInit*", code=NO_PERMISSION, count=2)
    state.add_fault("nvmlDeviceGetCount", code=UNKNOWN, count=1)

    assert code(pynvml.nvmlDeviceGetCount) == UNINITIALIZED
    assert [code(pynvml.nvmlInit) for _ in range(3)] == [NO_PERMISSION, NO_PERMISSION, 0]
    assert [code(pynvml.nvmlDeviceGetCount) for _ in range(2)] == [UNKNOWN, 0]
    state.add_fault("nvmlShutdown", code=UNKNOWN, count=1)
    assert code(pynvml.nvmlShutdown) == UNKNOWN
    init_again()
    assert len(cards()) == 3


def test_a_fault_is_met_once_by_all_processes_together(state: State, driver: str) -> None:
    """A second process on the same file takes its part of the count."""
    environment, pipe = {**os.environ, "LD_LIBRARY_PATH": str(library_folder(driver))}, subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", OTHER], env=environment, stdin=pipe, stdout=pipe, text=True) as other:

        def asked() -> int:
            assert other.stdin is not None
            assert other.stdout is not None
            print(file=other.stdin, flush=True)
            return int(other.stdout.readline())

        assert asked() == 0
        state.add_fault("nvmlDeviceGetCount", code=UNKNOWN, count=3)
        own = partial(code, pynvml.nvmlDeviceGetCount)

        assert [own(), asked(), own(), asked(), own()] == [UNKNOWN, UNKNOWN, UNKNOWN, 0, 0]
        other.communicate()
