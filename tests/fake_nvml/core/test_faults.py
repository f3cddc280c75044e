"""Which faults a call meets, by the rules of the layout."""

from __future__ import annotations

import pytest

from fake_nvml.core.faults import applies, find, in_force, names, wear
from fake_nvml.core.layout import FOR_EVER, UNKNOWN32, Fault, StateFile, blank


def fault(function: str = "nvmlDeviceGetName", *, used: int = 1, card: int = UNKNOWN32, count: int = FOR_EVER) -> Fault:
    return Fault(function=function.encode(), used=used, card=card, count=count)


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
    assert in_force(fault(used=used, count=count)) is expected
    assert applies(fault(used=used, count=count), "nvmlDeviceGetName", 0) is expected


@pytest.mark.parametrize(
    ("card", "slot", "expected"),
    [(UNKNOWN32, 3, True), (UNKNOWN32, None, True), (3, 3, True), (2, 3, False), (3, None, False)],
)
def test_a_card_means_itself_or_any(card: int, slot: int | None, expected: bool) -> None:
    """A call without a card meets faults of any card only."""
    assert applies(fault(card=card), "nvmlDeviceGetName", slot) is expected


def test_the_first_row_that_applies_is_found() -> None:
    """The order of the table decides."""
    content: StateFile = blank()
    assert find(content, "nvmlDeviceGetName", 0) is None

    content.faults[5] = fault("nvmlDeviceGet*")
    content.faults[9] = fault("nvmlDeviceGetName")

    assert find(content, "nvmlDeviceGetName", 0) == 5


def test_the_last_call_ends_a_counted_fault() -> None:
    """Its row is free then."""
    row = fault(count=2)
    wear(row)
    assert (row.used, row.count) == (1, 1)
    wear(row)
    assert (row.used, row.count) == (0, 0)


def test_a_fault_for_ever_does_not_wear() -> None:
    """Its count stays."""
    row = fault()
    wear(row)
    assert (row.used, row.count) == (1, FOR_EVER)
