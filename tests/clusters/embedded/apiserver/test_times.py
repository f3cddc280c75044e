"""Promises of clusters.embedded.apiserver.times: one form for each kind of time."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.apiserver.times import normalise


@pytest.mark.parametrize(
    ("key", "text", "written"),
    [
        ("renewTime", "2026-01-01T02:00:00.000001+02:00", "2026-01-01T00:00:00.000001Z"),
        ("eventTime", "2026-01-01T00:00:00,123456Z", "2026-01-01T00:00:00.123456Z"),
        ("startedAt", "2026-01-01T00:00:00.9Z", "2026-01-01T00:00:00Z"),
        ("lastTransitionTime", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_a_time_is_written_in_utc(key: str, text: str, written: str) -> None:
    """Six decimals in leases and events, none elsewhere; at any depth."""
    value: Any = {"spec": [{key: text}]}
    normalise(value)
    assert value == {"spec": [{key: written}]}


@pytest.mark.parametrize(
    "text", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.1Z", "", "yesterday", "2026-13-01T00:00:00.000000Z"]
)
def test_a_lease_wants_six_decimals(text: str) -> None:
    """A renewal that a real server would refuse is refused here."""
    with pytest.raises(ValueError, match="parsing time"):
        normalise({"renewTime": text})


def test_keys_of_users_are_no_times() -> None:
    """A label may have any name."""
    value = {"labels": {"renewTime": "x"}, "data": {"startTime": "y"}, "renewTime": None}
    normalise(value)
    assert value["labels"] == {"renewTime": "x"}
