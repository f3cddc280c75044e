"""A refusal by the plugin is final for the pod, so its text is all that an operator finds in the pod's status."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest

from e2e.device_plugin.plugin_under_test import PluginUnderTest
from e2e.device_plugin.test_plugin_allocate import MEMORY


@pytest.mark.promise("D03", "DP-016")
async def test_a_refused_container_gets_a_reason(stage: PluginUnderTest) -> None:
    """Defect D3: for ids that no pod waits for, some text in whatever language, and never a success."""
    free = await stage.free_ids()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stage.kubelet.allocate(MEMORY, free[:3])

    assert str(refused.value.details()).strip()
