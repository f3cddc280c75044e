"""Promises of ``events``: those of our programs, the last one last."""

from __future__ import annotations

import msgspec

from gpushare.kubectl_gpushare.core.answer_text import events_names, events_text, with_ages
from gpushare.kubectl_gpushare.core.explanation import event_list
from gpushare.kubectl_gpushare.core.scheduler_objects import Event
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
    aged = events_text(with_ages(answer, 1_767_312_312.0), headers=False).splitlines()
    assert [line.split()[0] for line in aged] == ["<unknown>", "24h", "5m12s"]
    assert with_ages({"events": []}, 0.0) == {"events": []}
    assert answer["hidden"] == ["x"]


def test_what_an_event_lacks_is_a_dash() -> None:
    """A document of events has an empty text, and a count of one, for what is not there."""
    answer = event_list(
        [msgspec.convert({"involvedObject": {"kind": "Node", "name": "n"}, "reason": "GPUShareX"}, Event)], ()
    )

    assert answer == {
        "apiVersion": "kubectl.gpushare.aliyun.com/v1",
        "kind": "EventList",
        "events": [
            {
                "when": "", "type": "", "reason": "GPUShareX", "object": "node/n", "namespace": "", "count": 1, "message": "",
            }
        ],
        "hidden": [],
    }  # fmt: skip
    assert events_text(answer) == (
        "LAST SEEN   NAMESPACE   OBJECT   REASON      COUNT   MESSAGE\n-           -           node/n   GPUShareX   1\n"
    )
    warning = msgspec.structs.replace(event("GPUShareHeld", "x"), type="Warning")
    assert event_list([warning], ())["events"][0]["type"] == "Warning"
