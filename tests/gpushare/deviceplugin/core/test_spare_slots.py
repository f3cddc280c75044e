"""Promises of gpushare.deviceplugin.core.spare_slots."""

from __future__ import annotations

from gpushare.deviceplugin.core.container_answer import ContainerAnswer, SpareSlots


async def test_a_spare_slot_means_nothing() -> None:
    """Any is as good as any other, none means anything to its container, and a container with one may start."""
    spare = SpareSlots()
    await spare.verify(["gs-any-0"])

    assert await spare.prefer(["gs-any-1", "gs-any-2"], ["gs-any-0"], 2) == ["gs-any-0", "gs-any-1"]
    assert await spare.allocate(["gs-any-0"]) == ContainerAnswer({})
