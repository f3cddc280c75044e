"""Cases that need an ability which not every implementation has, by the marker ``needs(capability, ...)``.

A target declares its abilities (``clusters.targets.Capability``). A case that needs another one is not applicable: it is
skipped with this word and the reason, and never a failure.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from clusters.provider import DEVICE_PLUGIN, EXTENDER, ClusterError
from clusters.targets import CAPABILITIES, INSPECT, KUBECTL, PROGRAMS, Target, UnspeltOptionError, load_target

NOT_APPLICABLE: Final = "not applicable"
_BOTH: Final = frozenset({EXTENDER, DEVICE_PLUGIN})
# The fixtures of cases that run programs; others are tests of the suite itself.
_ON_CLUSTERS: Final = frozenset({"cluster", "own", "target"})
# The programs that all cases of a folder need.
_PROGRAMS_OF: Final = {
    "attacks": _BOTH,
    "bursts": _BOTH,
    "chaos": _BOTH,
    "device_plugin": frozenset({DEVICE_PLUGIN}),
    "explain": frozenset({EXTENDER, KUBECTL}),
    "extender": frozenset({EXTENDER}),
    "faults": _BOTH,
    "inspect": frozenset({INSPECT}),
    "migration": _BOTH,
    "scenarios": _BOTH,
    "slots": _BOTH,
}
_PROGRAMS_OF_FILES: Final = {
    "test_bad_input.py": frozenset({EXTENDER}),
    "test_policies.py": _BOTH,
}


def add_marker(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", "needs(capability, ...): for targets that declare these capabilities")


def sort_out(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Skip what the target does not claim. Raises UsageError for a target that cannot be read and a capability that is none."""
    needing = [(item, needs_of(item)) for item in items]
    if not any(needs for _, needs in needing):
        return
    try:
        target = load_target(config.getoption("--target", default="gpushare"), os.environ)
    except ClusterError as error:
        raise pytest.UsageError(str(error)) from error
    for item, needs in needing:
        if unknown := needs - CAPABILITIES - PROGRAMS:
            raise pytest.UsageError(f"{item.nodeid} needs {', '.join(sorted(unknown))}, which is no capability")
        if missing := needs - target.claims:
            why = f"{NOT_APPLICABLE}: target {target.name} does not declare {', '.join(sorted(missing))}"
            item.add_marker(pytest.mark.skip(why))


@contextlib.contextmanager
def options_known(target: Target) -> Iterator[None]:
    """A case that asks, inside, for an option for which the target has no flag is not applicable."""
    try:
        yield
    except UnspeltOptionError as error:
        pytest.skip(f"{NOT_APPLICABLE}: target {target.name}: {error}")


def needs_of(item: pytest.Item) -> frozenset[str]:
    """The capabilities and the programs that a case needs, by all of its markers and its folder."""
    by_markers = frozenset(name for marker in item.iter_markers("needs") for name in marker.args)
    is_judging = not _ON_CLUSTERS.isdisjoint(getattr(item, "fixturenames", ()))
    return by_markers | (_programs_of(item.path) if is_judging else frozenset())


def _programs_of(path: Path) -> frozenset[str]:
    return _PROGRAMS_OF.get(path.parent.name, frozenset()) | _PROGRAMS_OF_FILES.get(path.name, frozenset())
