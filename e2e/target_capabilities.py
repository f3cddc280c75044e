"""Cases that need an ability which not every implementation has, by the marker ``needs(capability, ...)``.

A target declares its abilities (``clusters.targets.Capability``). A case that needs another one is not applicable: it is
skipped with this word and the reason, and never a failure.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from clusters.provider import ClusterError
from clusters.targets import CAPABILITIES, load_target

NOT_APPLICABLE = "not applicable"


def add_marker(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", "needs(capability, ...): for targets that declare these capabilities")


def sort_out(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Skip what the target does not claim. Raises UsageError for a target that cannot be read and a capability that is none."""
    needing = [(item, needs_of(item)) for item in items]
    if not any(needs for _, needs in needing):
        return
    try:
        target = load_target(config.getoption("--target", default="gpushare"))
    except ClusterError as error:
        raise pytest.UsageError(str(error)) from error
    for item, needs in needing:
        if unknown := needs - CAPABILITIES:
            raise pytest.UsageError(f"{item.nodeid} needs {', '.join(sorted(unknown))}, which is no capability")
        if missing := needs - target.capabilities:
            why = f"{NOT_APPLICABLE}: target {target.name} does not declare {', '.join(sorted(missing))}"
            item.add_marker(pytest.mark.skip(why))


def needs_of(item: pytest.Item) -> frozenset[str]:
    """The capabilities that a case needs, by all of its markers."""
    return frozenset(name for marker in item.iter_markers("needs") for name in marker.args)
