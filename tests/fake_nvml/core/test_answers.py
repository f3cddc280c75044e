"""The tables of what is answered straight from a record."""

from __future__ import annotations

import pytest

from fake_nvml.core.answers import KEYS, function_of, keys_of_field, unversioned


@pytest.mark.parametrize(
    ("field", "keys"),
    [
        ("temperature", ["nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"]),
        ("memory_utilization", ["nvmlDeviceGetUtilizationRates"]),
        ("clock_sm", ["nvmlDeviceGetClockInfo sm", "nvmlDeviceGetMaxClockInfo sm"]),
        ("idle_sm", ["nvmlDeviceGetClockInfo sm"]),
        ("ecc_corrected", ["nvmlDeviceGetTotalEccErrors corrected"]),
        ("uuid", []),
    ],
)
def test_a_field_is_answered_by_its_keys(field: str, keys: list[str]) -> None:
    """Those that a new value of the field concerns."""
    assert sorted(keys_of_field(field)) == keys


@pytest.mark.parametrize(
    ("key", "function", "plain"),
    [
        ("nvmlDeviceGetClockInfo sm", "nvmlDeviceGetClockInfo", "nvmlDeviceGetClockInfo sm"),
        ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"),
        ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperatureV"),
    ],
)
def test_a_key_is_of_a_function_and_of_its_versions(key: str, function: str, plain: str) -> None:
    """Each key has a place in a record."""
    assert key in KEYS
    assert (function_of(key), unversioned(key)) == (function, plain)
