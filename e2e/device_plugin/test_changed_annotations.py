"""Changes to a pod's annotations by its author, after the bind, change nothing for the pods of others."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.resources import PODS
from clusters.api.waiting import eventually
from e2e import spec
from e2e.device_plugin.plugin_under_test import PluginUnderTest
from e2e.device_plugin.test_plugin_allocate import start, take

pytestmark = pytest.mark.needs("repair")

SEVERAL = "scheduler.framework.gpushare.allocation"


@pytest.mark.parametrize(
    "changes",
    [
        {spec.POD_INDEX: "1", "gpushare.aliyun.com/card-model": "T4"},
        {SEVERAL: '{"0":{"0":14,"1":14}}'},
        {spec.POD_INDEX: None, spec.POD_ASSIGNED: None},
    ],
    ids=["another card and a wish", "both cards, beyond its request", "nothing"],
)
async def test_a_running_pod_is_written_back(stage: PluginUnderTest, changes: dict[str, Any]) -> None:
    """The plugin writes a running pod back as it was bound, with an event on it.

    A pod of another tenant gets the card that the running pod claimed.
    """
    free = await stage.free_ids()
    await stage.book("a", 2, card=0)
    ids, _ = await take(stage, free, 2)
    await start(stage, "a", "c0", ids)
    bound = await written(stage)
    await stage.api.patch(PODS, "a", {"metadata": {"annotations": changes}}, stage.namespace)
    await eventually(lambda: written(stage), lambda now: now == bound, "what was bound is written again")
    await stage.book("other", 14, card=1, position=1)
    _, told = await take(stage, free, 14)

    assert told[spec.ENV_INDEX] == "1"
    await eventually(
        lambda: stage.events("a"),
        lambda found: "GPUShareAnnotationsChanged" in [reason for reason, _ in found],
        "the change is reported",
    )


async def written(stage: PluginUnderTest) -> dict[str, str]:
    """The annotations that our programs wrote on the pod."""
    annotations = (await stage.pod("a"))["metadata"]["annotations"]
    return {
        name: text for name, text in annotations.items() if name.startswith("ALIYUN_COM_GPU_MEM_") or name == SEVERAL
    }
