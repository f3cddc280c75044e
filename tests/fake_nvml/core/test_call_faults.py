"""Calls that are slow or fail: the possible requests, the meaning of a table of rows, and which row a call meets."""

from __future__ import annotations

from typing import Any

import pytest

from fake_nvml.calls import CALLS
from fake_nvml.core.call_faults import CallFault, find, in_force, names, parse_code, wear
from fake_nvml.core.layout import FAULTS, FOR_EVER, UNKNOWN32, Fault, StateFile, blank
from fake_nvml.fake_nvml_errors import StateError
from fake_nvml.state import State

BOX = "t4x2"


def fault(function: str = "nvmlDeviceGetName", *, used: int = 1, card: int = UNKNOWN32, count: int = FOR_EVER) -> Fault:
    """A row of the table, in force for any card if nothing else is given."""
    return Fault(function=function.encode(), used=used, card=card, count=count)


def table(*rows: Fault) -> StateFile:
    """A state file whose table of faults begins with these rows."""
    content = blank()
    for place, row in enumerate(rows):
        content.faults[place] = row
    return content


def test_faults_are_listed_as_they_were_asked_for(state: State) -> None:
    """In the order in which they were added; one of the same function and card replaces the earlier one."""
    card = state.cards()[1].uuid
    state.add_fault("nvmlDeviceGetMemoryInfo", card=card, seconds=5)
    state.add_fault("nvmlDeviceGet*", code=4)
    state.add_fault("nvmlDeviceGet*", code=999, count=3)

    assert state.faults() == [
        CallFault("nvmlDeviceGetMemoryInfo", card, 0, 5.0, None),
        CallFault("nvmlDeviceGet*", None, 999, 0.0, 3),
    ]


def test_cleared_faults_are_gone_and_counted(state: State) -> None:
    """A second clearing finds none."""
    state.add_fault("nvmlInit", code=9)
    state.add_fault("nvmlDeviceGetName", seconds=1)

    assert (state.clear_faults(), state.clear_faults(), state.faults()) == (2, 0, [])


def test_a_full_table_refuses_and_a_worn_row_is_taken(state: State) -> None:
    """The row of a used fault is free."""
    for name in sorted(CALLS.keys() - {"nvmlErrorString", "nvmlInit"})[:FAULTS]:
        state.add_fault(name, code=999)

    with pytest.raises(StateError, match="^no room for another fault: 64 are there; fake-nvml faults clear$"):
        state.add_fault("nvmlInit", code=9)

    assert len(state.faults()) == FAULTS
    with state.mapped.writing() as content:
        content.faults[7].count = 0
    state.add_fault("nvmlInit", code=9)
    assert state.faults()[7].function == "nvmlInit"


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (
            "nvmlDeviceGetNam",
            "^no function 'nvmlDeviceGetNam' that cards answer; is it nvmlDeviceGetName( or nvml\\w+){1,2}\\?$",
        ),
        ("nvmlFoo*", r"^no function 'nvmlFoo\*' that cards answer$"),
        ("Init", r"^'Init' is no function; write C's name, as nvmlDeviceGetMemoryInfo, or a beginning and \*$"),
        ("nvml" + "x" * 58, "^no function"),
        ("nvml" + "x" * 59, "is no function"),
        ("nvmlErrorString", "^no function"),
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
        ({}, "^a fault needs a return code or a delay$"),
        ({"code": -1}, "^return codes are numbers from 1 on, not -1$"),
        ({"code": 2**31}, "return codes"),
        ({"seconds": -1}, "^a call is slow by 0 to 86400 seconds, not -1$"),
        ({"seconds": 86_401}, "slow by 0 to"),
        ({"seconds": float("nan")}, "slow by 0 to"),
        ({"code": 9, "count": 0}, "^a fault happens 1 to 4294967294 times, not 0; without a count for ever$"),
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
    ("code", "seconds", "count"), [(2**31 - 1, 0, 2**32 - 2), (0, 86_400, 1), (1, 0.000001, None)], ids=str
)
def test_numbers_within_their_range_are_taken(state: State, code: int, seconds: float, count: int | None) -> None:
    """Codes are positive, delays are of a day at most, and UNKNOWN32 times are for ever."""
    state.add_fault("nvmlInit", code=code, seconds=seconds, count=count)

    assert state.faults() == [CallFault("nvmlInit", None, code, seconds, count)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("15", 15),
        ("1", 1),
        ("2147483647", 2**31 - 1),
        ("GPU_IS_LOST", 15),
        ("gpu-is-lost", 15),
        ("NVML_ERROR_UNKNOWN", 999),
        ("12345", 12345),
    ],
)
def test_a_code_is_a_number_or_a_name(text: str, code: int) -> None:
    """Names may be written as NVML, short, or with hyphens."""
    assert parse_code(text) == code


@pytest.mark.parametrize("text", ["0", "-1", "", "LOST", "1.5", "2147483648", "\u0663"])
def test_what_is_no_code_is_refused_with_the_names(text: str) -> None:
    """The error lists the names, without that of success."""
    names = "UNINITIALIZED, .*GPU_IS_LOST, .*UNKNOWN"
    with pytest.raises(StateError, match=f"^no return code {text!r}; a number from 1 on, or one of {names}$"):
        parse_code(text)


@pytest.mark.parametrize(
    ("pattern", "function", "expected"),
    [
        ("nvmlDeviceGetName", "nvmlDeviceGetName", True),
        ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2", True),
        ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo_v2", True),
        ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo", False),
        ("nvmlDeviceGetMemoryInfo_v", "nvmlDeviceGetMemoryInfo_v2", False),
        ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV", False),
        ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperature_vx", False),
        ("nvmlDeviceGetName", "nvmlDeviceGetUUID", False),
        ("nvmlInit*", "nvmlInitWithFlags", True),
        ("nvmlInit*", "nvmlShutdown", False),
        ("nvmlDeviceGetN*", "nvmlDeviceGetUUID", False),
        ("*", "nvmlShutdown", True),
        ("*", "nvmlErrorString", False),
        ("nvmlErrorString", "nvmlErrorString", False),
    ],
)
def test_a_name_means_itself_its_versions_or_what_begins_so(pattern: str, function: str, expected: bool) -> None:
    """A star means a beginning; error texts are never meant."""
    assert names(pattern, function) is expected


@pytest.mark.parametrize(
    ("used", "count", "expected"), [(1, FOR_EVER, True), (1, 1, True), (1, 0, False), (0, 5, False)]
)
def test_a_row_is_in_force_while_used_and_not_worn_off(used: int, count: int, expected: bool) -> None:
    """A counted fault ends with its last call."""
    row = fault(used=used, count=count)

    assert in_force(row) is expected
    assert (find(table(row), "nvmlDeviceGetName", 0) is not None) is expected


@pytest.mark.parametrize(
    ("card", "slot", "found"),
    [(UNKNOWN32, 3, True), (UNKNOWN32, None, True), (3, 3, True), (2, 3, False), (3, None, False)],
)
def test_a_card_means_itself_or_any(card: int, slot: int | None, found: bool) -> None:
    """A call without a card meets faults of any card only."""
    assert (find(table(fault(card=card)), "nvmlDeviceGetName", slot) is not None) is found


def test_the_first_row_that_applies_is_found() -> None:
    """The order of the table decides."""
    rows = (fault("nvmlInit"), fault("nvmlDeviceGet*"), fault("nvmlDeviceGetName"))

    found = find(table(*rows), "nvmlDeviceGetName", 0)
    assert found is not None
    assert found.function == b"nvmlDeviceGet*"


def test_the_last_call_ends_a_counted_fault() -> None:
    """The row of a counted fault is free after its last call; a fault for ever does not wear."""
    counted, lasting = fault(count=2), fault()
    seen = []
    for _ in range(2):
        wear(counted)
        wear(lasting)
        seen.append((counted.used, counted.count))

    assert seen == [(1, 1), (0, 0)]
    assert (lasting.used, lasting.count) == (1, FOR_EVER)
