"""Label selectors of other objects, as a disruption budget has one."""

from __future__ import annotations

from clusters.api_client import Object
from clusters.embedded.scheduling.node_match import requirement_holds


def selector_matches(selector: Object, labels: dict[str, str]) -> bool:
    """Whether all of ``matchLabels`` and ``matchExpressions`` hold; a selector without any matches nothing."""
    wanted = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or []
    if not wanted and not expressions:
        return False
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        requirement_holds(each, labels) for each in expressions
    )
