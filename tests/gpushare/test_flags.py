"""Promises of gpushare.flags."""

from __future__ import annotations

import pytest

from gpushare.flags import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("30", 30),
        ("0.25", 0.25),
        ("1m30s", 90),
        ("30s1m", 90),
        ("1.5h", 5400),
        (".5m", 30),
        ("1.s", 1),
        ("500ms", 0.5),
        ("100us", 0.0001),
        ("100µs", 0.0001),
        ("2h45m30.5s", 9930.5),
        ("1s1s", 2),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, seconds: float) -> None:
    """Any order of units, fractions of each, and a bare number of seconds as kubectl takes it."""
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", ".", "soon", "-5s", "5 s", "1d", "1m30", "٣s", "1e3", "inf", "9" * 65])
def test_any_other_text_is_no_duration(text: str) -> None:
    """Signs, blanks, other scripts and a number behind units are refused."""
    assert seconds_of(text) is None
