"""Calls that are slow or fail: the possible requests, and the meaning of a table of rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_nvml.box import Box
from fake_nvml.core.call_faults import CallFault, parse_code
from fake_nvml.core.layout import FAULTS
from fake_nvml.core.returns import CODES, code_name
from fake_nvml.fake_nvml_errors import StateError
from fake_nvml.state import State


@pytest.fixture
def state(state_path: Path) -> Iterator[State]:
    with State.create(state_path, Box.load("t4x2", seed="node-1")) as created:
        yield created


def test_faults_are_listed_as_they_were_asked_for(state: State) -> None:
    """In the order in which they were added."""
    card = state.cards()[1].uuid
    state.add_fault("nvmlDeviceGetMemoryInfo", card=card, seconds=5)
    state.add_fault("nvmlDeviceGet*", code=999, count=3)

    assert state.faults() == [
        CallFault("nvmlDeviceGetMemoryInfo", card, 0, 5.0, None),
        CallFault("nvmlDeviceGet*", None, 999, 0.0, 3),
    ]


def test_a_fault_of_the_same_function_and_card_is_replaced(state: State) -> None:
    """The later one counts."""
    state.add_fault("nvmlInit", code=9)
    state.add_fault("nvmlInit", code=4, count=1)

    assert state.faults() == [CallFault("nvmlInit", None, 4, 0.0, 1)]


def test_cleared_faults_are_gone_and_counted(state: State) -> None:
    """A second clearing finds none."""
    state.add_fault("nvmlInit", code=9)
    state.add_fault("nvmlDeviceGetName", seconds=1)

    assert (state.clear_faults(), state.clear_faults(), state.faults()) == (2, 0, [])


def test_a_full_table_refuses_and_a_worn_row_is_taken(state: State) -> None:
    """The row of a used fault is free."""
    card = state.cards()[0].uuid
    names = sorted(CALLS_OF_A_CARD)
    for name in names[: FAULTS // 2]:
        state.add_fault(name, code=999)
        state.add_fault(name, card=card, code=999)

    with pytest.raises(StateError, match="no room for another fault"):
        state.add_fault("nvmlInit", code=9)

    assert len(state.faults()) == FAULTS
    with state.mapped.writing() as content:
        content.faults[7].count = 0
    state.add_fault("nvmlInit", code=9)
    assert state.faults()[7].function == "nvmlInit"


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("nvmlDeviceGetNam", "no function 'nvmlDeviceGetNam'.*nvmlDeviceGetName"),
        ("nvmlFoo*", "no function"),
        ("Init", "is no function; write C's name"),
        ("nvml" + "x" * 59, "is no function"),
        ("nvmlErrorString", "no function"),
        ("", "is no function"),
    ],
)
def test_a_function_that_cards_do_not_answer_is_refused(state: State, function: str, says: str) -> None:
    """A misspelt name gets the nearest one as advice."""
    with pytest.raises(StateError, match=says):
        state.add_fault(function, code=9)

    assert state.faults() == []


@pytest.mark.parametrize("function", ["nvmlInit", "nvmlInit*", "*", "nvmlDeviceGetMemoryInfo_v2", "nvmlEventSetWait"])
def test_names_versions_and_beginnings_are_functions(state: State, function: str) -> None:
    """A star may end a name."""
    state.add_fault(function, code=9)

    assert state.faults()[0].function == function


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "needs a return code or a delay"),
        ({"code": -1}, "return codes"),
        ({"code": 2**31}, "return codes"),
        ({"seconds": -1}, "slow by 0 to"),
        ({"seconds": 10**6}, "slow by 0 to"),
        ({"seconds": float("nan")}, "slow by 0 to"),
        ({"code": 9, "count": 0}, "1 to"),
        ({"code": 9, "count": 2**32 - 1}, "1 to"),
    ],
    ids=str,
)
def test_numbers_that_make_no_sense_are_refused(state: State, more: dict[str, Any], says: str) -> None:
    """Code, delay and count have their ranges."""
    with pytest.raises(StateError, match=says):
        state.add_fault("nvmlInit", **more)

    assert state.faults() == []


@pytest.mark.parametrize(
    ("text", "code"),
    [("15", 15), ("GPU_IS_LOST", 15), ("gpu-is-lost", 15), ("NVML_ERROR_UNKNOWN", 999), ("12345", 12345)],
)
def test_a_code_is_a_number_or_a_name(text: str, code: int) -> None:
    """Names may be written as NVML, short, or with hyphens."""
    assert parse_code(text) == code


@pytest.mark.parametrize("text", ["0", "-1", "", "LOST", "1.5", "2147483648", "\u0663"])
def test_what_is_no_code_is_refused_with_the_names(text: str) -> None:
    """The error lists the names."""
    with pytest.raises(StateError, match="GPU_IS_LOST"):
        parse_code(text)


def test_every_code_has_its_name() -> None:
    """A code without one is its number."""
    assert [code_name(code) for code in CODES.values()] == list(CODES)
    assert code_name(12345) == "12345"


CALLS_OF_A_CARD = {
    f"nvmlDeviceGet{name}"
    for name in (
        *(
            "Name",
            "UUID",
            "Serial",
            "Index",
            "MinorNumber",
            "Brand",
            "Architecture",
            "CudaComputeCapability",
            "PciInfo",
        ),
        *("MemoryInfo", "MemoryInfo_v2", "UtilizationRates", "ComputeRunningProcesses", "GraphicsRunningProcesses"),
        *("Temperature", "TemperatureV", "PowerUsage", "PowerManagementLimit", "EnforcedPowerLimit", "ComputeMode"),
        *("PersistenceMode", "DisplayActive", "EccMode", "TotalEccErrors", "FieldValues", "SupportedEventTypes"),
        *("MemoryAffinity", "NvLinkState", "MigMode", "MaxMigDeviceCount", "MigDeviceHandleByIndex", "Count"),
    )
}
