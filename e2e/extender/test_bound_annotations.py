"""The annotations that a bind writes: all five, of this pod and this card, and not yet assigned."""

from __future__ import annotations

from typing import Final

import pytest

from clusters.api.waiting import until
from e2e import spec
from e2e.builders import gpu_pod
from e2e.extender.extender_under_test import ExtenderUnderTest
from e2e.observer import Observer

pytestmark = pytest.mark.stand_in_only("no kubelet has a part in it")

# A clock of nanoseconds shows at least this since 2001, one of microseconds does not.
_NANOSECONDS: Final = 10**18


@pytest.mark.promise("EXT-019")
async def test_a_bind_writes_the_five_annotations(stage: ExtenderUnderTest, name: str) -> None:
    """Card, units of the pod and of the card, the time in nanoseconds; a container has not got it yet."""
    await stage.node(name, 20, 2)
    (pod,) = await stage.create(stage.pod("p", 3, 4))
    assert await stage.bind(pod, name) == ""
    written = (await stage.observer.pod("p"))["metadata"]["annotations"]

    assert written[spec.POD_INDEX] in ("0", "1")
    assert (written[spec.POD_UNITS], written[spec.POD_DEVICE_UNITS], written[spec.POD_ASSIGNED]) == ("7", "10", "false")
    assert int(written[spec.POD_ASSUME_TIME]) >= _NANOSECONDS


@pytest.mark.promise("EXT-019")
async def test_a_scheduled_pod_is_assigned_after_its_bind(observer: Observer) -> None:
    """The first state with a node has ``false``; ``true`` comes from the plugin, when a container gets the card."""
    async with observer.watching() as events:
        await observer.run(gpu_pod("p", 3, node="a2"))
        states = await until(
            lambda: [item for kind, item in events if kind != "SYNCED" and item["spec"].get("nodeName")],
            lambda items: any(item["status"].get("phase") == "Running" for item in items),
            "the watch shows that it runs",
        )
    marks = [(item["metadata"].get("annotations") or {}).get(spec.POD_ASSIGNED) for item in states]

    assert (marks[0], marks[-1]) == ("false", "true")
