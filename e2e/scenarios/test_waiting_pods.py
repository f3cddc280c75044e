"""Pods that wait for a card, as the extender's page shows them."""

from __future__ import annotations

import pytest

from clusters.api.waiting import eventually
from e2e.builders import gpu_pod
from e2e.observer import Observer

pytestmark = pytest.mark.needs("explain")


async def test_page_shows_a_pod_that_no_extender_was_asked_for(observer: Observer) -> None:
    """kube-scheduler refuses it by the sum of each node; the page has kube-scheduler's own words."""
    await observer.create(gpu_pod("too-large", 1000))
    await observer.waits_because("too-large", "nsufficient")

    async def report() -> str:
        state = (await observer.get(f"{observer.cluster.extender_url()}/ui/state")).json()
        waiting = (one for one in state["waiting"] if one[:2] == [observer.namespace, "too-large"])
        return next((f"{one[5]} {one[10]}" for one in waiting), "")

    await eventually(report, lambda text: text.startswith("0 ") and "nsufficient" in text, "the page shows the report")
