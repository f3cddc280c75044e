from __future__ import annotations

import pytest

from clusters.embedded.scheduling.go_durations import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("1m30s", 90), ("1.5h", 5400), ("250ms", 0.25), ("0", 0), ("-5s", -5), ("+.5s", 0.5), ("10us", 1e-5)],
)
def test_seconds_of_reads_what_go_writes(text: str, seconds: float) -> None:
    """Every unit and sign of Go's durations is read."""
    assert seconds == pytest.approx(seconds_of(text))


@pytest.mark.parametrize("text", ["", "30", "s", "30 s", "1d", "30s ", "-", "1m 30s"])
def test_seconds_of_refuses_what_go_refuses(text: str) -> None:
    """Above all a number without its unit."""
    with pytest.raises(ValueError, match="no duration"):
        seconds_of(text)
