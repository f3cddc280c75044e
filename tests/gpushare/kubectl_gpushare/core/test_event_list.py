"""Promises of ``events``: those of our programs, the last one last."""

from __future__ import annotations

from gpushare.kubectl_gpushare.core.answer_text import events_names, events_text
from gpushare.kubectl_gpushare.core.event_list import event_list
from tests.gpushare.kubectl_gpushare.small_cluster import event


def test_our_events_come_in_their_order() -> None:
    """Those of others are left out."""
    events = [
        event("GPUShareNoCard", "second", "b", when="2026-01-02T00:00:00Z"),
        event("Pulled", "image", "b"),
        event("GPUShareHeld", "first", "a", when="2026-01-01T00:00:00Z"),
        event("GPUShareHeld", "no time", "b"),
    ]
    answer = event_list(events, ["x"])
    lines = events_text(answer).splitlines()

    assert [line.split()[0] for line in lines] == ["LAST", "-", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]
    assert lines[2].split()[1:] == ["team", "pod/a", "GPUShareHeld", "1", "first"]
    bare = events_text(answer, headers=False).splitlines()
    assert [line.split() for line in bare] == [line.split() for line in lines[1:]]
    assert events_names(answer) == "pod/b\npod/a\n"
    assert answer["hidden"] == ["x"]
