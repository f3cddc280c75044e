"""The kubelet's records, in all the forms in which they come."""

from __future__ import annotations

import grpc
import pytest

from e2e import spec
from e2e.device_plugin.plugin_under_test import PluginUnderTest
from e2e.device_plugin.test_plugin_allocate import MEMORY, take

pytestmark = pytest.mark.needs("pod-resources")

_MEBIBYTE = 1024 * 1024


async def granted(stage: PluginUnderTest) -> list[str]:
    """One pod of 3 units that was answered; its ids."""
    free = await stage.free_ids()
    await stage.book("p", 3, card=1)
    return (await take(stage, free, 3))[0]


async def check_owner_is_found(stage: PluginUnderTest, ids: list[str], *groups: list[str]) -> None:
    """The container of these ids, which the kubelet lists in these groups, may start, and its pod is assigned."""
    stage.kubelet.hold(stage.namespace, "p", "c0", *(groups or [ids]))
    await stage.kubelet.pre_start(MEMORY, ids)

    assert (await stage.pod("p"))["metadata"]["annotations"][spec.POD_ASSIGNED] == "true"


@pytest.mark.promise("PR-002")
async def test_ids_come_in_parts(stage: PluginUnderTest) -> None:
    """A kubelet groups a container's ids by NUMA node."""
    ids = await granted(stage)

    await check_owner_is_found(stage, ids, ids[:1], ids[1:])


@pytest.mark.promise("PR-003")
async def test_get_is_off(stage: PluginUnderTest) -> None:
    """The plugin finds a container's owner by List if Get is off, as on every kubelet before 1.34."""
    await check_owner_is_found(stage, await granted(stage))


@pytest.mark.promise("PR-004")
async def test_a_rate_limit_is_waited_out(stage: PluginUnderTest) -> None:
    """Three refusals, and the container starts within the same call."""
    ids = await granted(stage)
    refusal = (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
    stage.kubelet.pod_resources_refusals = [refusal] * 3

    await check_owner_is_found(stage, ids)
    assert not stage.kubelet.pod_resources_refusals


@pytest.mark.promise("PR-006")
async def test_an_answer_of_16_mib(stage: PluginUnderTest) -> None:
    """A node full of ids of other plugins."""
    ids = await granted(stage)
    filler = [f"other-{number:058}" for number in range(16 * _MEBIBYTE // 66)]
    stage.kubelet.hold("elsewhere", "large", "c0", filler)

    await check_owner_is_found(stage, ids)
