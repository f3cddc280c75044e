from __future__ import annotations

import pytest

from clusters.api_client import Object
from clusters.embedded.scheduling.scheduler_selectors import selector_matches


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, False),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "1", "b": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, True),
        ({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
    ],
)
def test_selector_matches_when_all_of_it_holds(selector: Object, expected: bool) -> None:
    """An empty one matches nothing, as in a disruption budget."""
    assert expected is selector_matches(selector, {"a": "1"})
