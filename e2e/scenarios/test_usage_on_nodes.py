"""The real use of pods is read and compared with their bookings."""

from __future__ import annotations

import pytest

from clusters.api.waiting import eventually
from e2e import spec
from e2e.builders import DEMO, gpu_pod
from e2e.scenarios.conftest import ObservedNamespace

pytestmark = pytest.mark.needs("usage")

MIB = 1024 * 1024


@pytest.mark.stand_in_only("the metrics of a plugin in a pod are not on this machine's loopback")
async def test_a_pod_that_uses_more_than_booked_gets_an_event(observed: ObservedNamespace) -> None:
    """The demo's player holds 1253 MiB on a booking of 1024: event and metric on the node that looks; gone with the pod."""
    observer = observed.observer
    await observer.run(
        gpu_pod("greedy", observed.gib, node="u1", plays=DEMO),
        gpu_pod("modest", 2 * observed.gib, node="u1", plays=DEMO),
        gpu_pod("unseen", observed.gib, node="u2", plays=DEMO),
    )

    text = await observer.event_text("greedy", spec.EVENT_MEMORY_OVERUSE)
    assert text.startswith("uses 1253 MiB of card 0 and booked 1024 MiB;")
    assert await observed.values("u1", "gpushare_pod_overuse_bytes", "pod", "card") == {("greedy", "0"): 229 * MIB}
    await eventually(
        lambda: observed.values("u1", "gpushare_pod_used_bytes", "pod"),
        lambda used: used == {("greedy",): 1253 * MIB, ("modest",): 1253 * MIB},
        "both players hold what the demo's does",
    )
    booked = await observed.values("u1", "gpushare_pod_booked_bytes", "pod")
    assert booked == {("greedy",): 1024 * MIB, ("modest",): 2048 * MIB}
    assert await observer.events("modest", spec.EVENT_MEMORY_OVERUSE) == []

    # Without --usage bookings are shown and nothing else of pods.
    assert await observed.values("u2", "gpushare_pod_booked_bytes", "pod") == {("unseen",): 1024 * MIB}
    assert await observed.values("u2", "gpushare_pod_used_bytes", "pod") == {}

    await observer.delete("greedy", 0)
    await eventually(
        lambda: observed.values("u1", "gpushare_pod_booked_bytes", "pod"),
        lambda seen: ("greedy",) not in seen,
        "the series of a pod that is gone are gone",
    )
    assert await observed.values("u1", "gpushare_pod_overuse_bytes", "pod") == {}
    assert await observed.values("u1", "gpushare_overuse_episodes_total") == {(): 1}
