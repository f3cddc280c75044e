"""A plugin that serves before it registers is taken at its first call."""

from __future__ import annotations

import pytest

from e2e import spec
from e2e.device_plugin.plugin_under_test import PluginUnderTest


@pytest.mark.promise("DP-001")
async def test_its_first_register_is_its_only_one(stage: PluginUnderTest) -> None:
    """The kubelet dials the plugin inside Register: one that does not serve yet is refused, and has to come again."""
    await stage.open("t4x1")
    await stage.plug()

    assert [bool(one.lists) for one in stage.kubelet.registrations if one.resource == spec.RESOURCE_MEMORY] == [True]
