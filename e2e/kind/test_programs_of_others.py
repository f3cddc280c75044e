"""Programs that no image of ours holds, beside real kubelets."""

from __future__ import annotations

import pytest

from clusters.provider import DEVICE_PLUGIN, EXTENDER, NodeSpec
from clusters.targets import load_target
from e2e.builders import gpu_pod
from e2e.observer import OwnCluster, observing


@pytest.mark.usefixtures("docker_environment")
async def test_programs_of_others_share_a_real_kubelets_cards(own: OwnCluster) -> None:
    """The reference extender and plugin are processes of this machine; pods get their card, also after both were killed."""
    async with (
        own([NodeSpec("one", "t4x1")], load_target("reference")) as cluster,
        observing(cluster, "others") as observer,
    ):
        await observer.run(gpu_pod("before", 1))
        for program, node in ((EXTENDER, None), (DEVICE_PLUGIN, "one")):
            await cluster.kill(program, node)
            await cluster.launch(program, node)
        await observer.run(gpu_pod("after", 1))

        await observer.check_all("before", "after")
        assert cluster.log(EXTENDER)
