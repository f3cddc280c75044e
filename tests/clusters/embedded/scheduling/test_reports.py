from __future__ import annotations

from clusters.embedded.scheduling.reports import LONGEST_MESSAGE, Report, changed_condition, event_of, shortened
from tests.clusters.embedded.scheduling.objects import make_pod

AT = "2026-01-02T03:04:05Z"
REPORT = Report(make_pod("p1"), "Warning", "FailedScheduling", "no card", "Unschedulable")
CONDITION = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no card"}


def with_condition(**fields: str) -> dict[str, object]:
    return {**make_pod("p1"), "status": {"conditions": [{"type": "Ready"}, {**CONDITION, **fields}]}}


def test_changed_condition_of_a_new_pod_has_the_time() -> None:
    assert {**CONDITION, "lastTransitionTime": AT} == changed_condition(make_pod("p1"), REPORT, AT)


def test_changed_condition_with_another_message_keeps_the_time() -> None:
    """The status did not move."""
    assert CONDITION == changed_condition(with_condition(message="other"), REPORT, AT)


def test_changed_condition_is_nothing_where_the_pod_says_so_already() -> None:
    assert changed_condition(with_condition(lastTransitionTime="2020-01-01T00:00:00Z"), REPORT, AT) is None


def test_event_of_a_failure_names_the_pod() -> None:
    event = event_of(REPORT, "p1.1", AT)

    assert ("default", "uid-p1") == (event["metadata"]["namespace"], event["involvedObject"]["uid"])
    assert ("FailedScheduling", "no card", 1) == (event["reason"], event["message"], event["count"])


def test_shortened_fits_an_event() -> None:
    assert shortened("short") == "short"
    for message in ("x" * 3000, "ü" * 3000):
        assert len(shortened(message).encode()) <= LONGEST_MESSAGE
        assert shortened(message).endswith(" ...")
