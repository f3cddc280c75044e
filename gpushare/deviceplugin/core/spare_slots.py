"""The answers of a node in ids mode about ``gpu-slot``: there are some, and they mean nothing. Pure.

Pods that name a slot (a policy of the cluster adds it, for nodes in slots mode) can so come to nodes in ids mode too;
what their containers get is the answer for their memory ids alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpushare.deviceplugin.core.container_answer import ContainerAnswer


class SpareSlots:
    """Takes the place that the allocator has for ids that matter. Its options ask for Allocate only."""

    async def prefer(self, available: Sequence[str], must_include: Sequence[str], size: int) -> list[str]:
        """Any will do; a kubelet does not ask."""
        return [*dict.fromkeys([*must_include, *available])][:size]

    async def allocate(self, device_ids: Sequence[str]) -> ContainerAnswer:
        """Nothing."""
        return ContainerAnswer({})

    async def verify(self, device_ids: Sequence[str]) -> None:
        """A container that has one may start; a kubelet does not ask."""
