"""Each node limits its containers to their shares if it can, and reports that it cannot, or that a limit is another."""

from __future__ import annotations

import pytest

from clusters.api.waiting import eventually
from e2e.limits.conftest import LimitedCluster
from e2e.limits.situations import SITUATIONS


@pytest.mark.promise("LIM-001", "LIM-002", "LIM-003")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(one.needs)) for name, one in SITUATIONS.items()]
)
async def test_limits_are_exact_or_reported(limited: LimitedCluster, name: str) -> None:
    """All pods run; the driver has the exact share of each container as its limit, or node, pod and events report it."""
    await limited.running(name, *(pod["metadata"]["name"] for pod in limited.situations[name].pods))

    await eventually(lambda: limited.wrong(name), lambda found: not found, f"the limits of {name} are right")
