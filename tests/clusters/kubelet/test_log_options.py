from __future__ import annotations

import pytest

from clusters.kubelet.log_options import LogOptions, QueryError, nanoseconds, options_of
from clusters.kubelet.runtime import Line

LINES = [Line(10.0, "one"), Line(20.0, "two"), Line(30.5, "three")]


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ({}, LogOptions()),
        (
            {"follow": "true", "previous": "1", "timestamps": "True"},
            LogOptions(follow=True, previous=True, timestamps=True),
        ),
        ({"follow": "false", "previous": "0", "timestamps": ""}, LogOptions()),
        ({"tailLines": "0", "limitBytes": "7"}, LogOptions(tail=0, limit=7)),
        ({"sinceSeconds": "60"}, LogOptions(since=940.0)),
        ({"sinceTime": "1970-01-01T00:01:00Z"}, LogOptions(since=60.0)),
        ({"stream": "All", "unknown": "x"}, LogOptions()),
    ],
)
def test_a_query_is_read_as_kubectl_sends_it(query, options) -> None:
    """Unknown parameters are passed over."""
    assert options_of(query, 1000.0) == options


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"tailLines": "many"}, 400),
        ({"sinceTime": "noon"}, 400),
        ({"tailLines": "-1"}, 422),
        ({"limitBytes": "0"}, 422),
        ({"sinceSeconds": "0"}, 422),
        ({"sinceSeconds": "1", "sinceTime": "1970-01-01T00:01:00Z"}, 422),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(query, status) -> None:
    """The status is the one that a kubelet answers."""
    with pytest.raises(QueryError) as refusal:
        options_of(query, 1000.0)

    assert refusal.value.status == status


def test_last_lines_are_counted_before_old_ones_are_left_out() -> None:
    """As a real kubelet does it: fewer lines than asked may come."""
    options = LogOptions(tail=2, since=25.0)

    assert options.text(LINES[options.first(LINES) :]) == b"three\n"


def test_timestamps_have_nine_digits() -> None:
    """The fraction of a second is written in full, as Go's RFC3339Nano with padding."""
    assert LogOptions(timestamps=True).text(LINES[2:]) == b"1970-01-01T00:00:30.500000000Z three\n"
    assert nanoseconds(0.0) == "1970-01-01T00:00:00.000000000Z"
