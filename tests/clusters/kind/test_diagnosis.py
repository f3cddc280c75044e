"""Promises of clusters.kind.diagnosis."""

from __future__ import annotations

import pytest

from clusters.kind.diagnosis import is_ready


@pytest.mark.parametrize(("status", "expected"), [("True", True), ("False", False), (None, False)])
def test_a_pod_is_ready_when_it_says_so(status: str | None, expected: bool) -> None:
    """One without conditions is not."""
    conditions = [{"type": "PodScheduled", "status": "True"}]
    conditions += [{"type": "Ready", "status": status}] if status else []

    assert is_ready({"status": {"conditions": conditions}}) is expected
