"""Texts that many columns share."""

from __future__ import annotations

from datetime import timedelta

import pytest

from clusters.embedded.apiserver.tables.columns import human_duration


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(seconds=-3), "<invalid>"),
        (timedelta(seconds=-1), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(seconds=120), "2m"),
        (timedelta(minutes=9, seconds=59), "9m59s"),
        (timedelta(minutes=10, seconds=5), "10m"),
        (timedelta(minutes=179), "179m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=7, minutes=59), "7h59m"),
        (timedelta(hours=8, minutes=30), "8h"),
        (timedelta(hours=47), "47h"),
        (timedelta(hours=48), "2d"),
        (timedelta(days=7, hours=23), "7d23h"),
        (timedelta(days=8, hours=23), "8d"),
        (timedelta(days=729), "729d"),
        (timedelta(days=730), "2y"),
        (timedelta(days=735), "2y5d"),
        (timedelta(days=365 * 8), "8y"),
        (timedelta(days=365 * 8 + 200), "8y"),
    ],
)
def test_durations_for_people(length: timedelta, text: str) -> None:
    """Two or three digits that matter, with the units at which the real server changes from one to the next."""
    assert human_duration(length) == text
