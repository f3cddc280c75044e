"""What we publish on our Node: how many cards, and what each of them is.

The count lives in ``status.capacity``, which the kubelet keeps but zeroes when it starts without its checkpoint, and
which is lost with a re-created Node; so it is asserted again and again. The cards annotation rides in the same write
to ``nodes/status``: the original's role has no other right on nodes, and nobody ever sees the one without the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.devices import PhysicalCard, describe_cards
from gpushare.kube.client import ApiClient
from gpushare.kube.errors import ApiError
from gpushare.manifests import Node
from gpushare.model.node import CARDS_VERSION, NodeCards, decode_cards, encode_cards
from gpushare.model.quantity import MemoryUnit

_LOG = logging.getLogger(__name__)

# How often the Node is compared with what we published, in seconds.
REASSERT_SECONDS: Final = 10.0


class NodeStatus:
    """Our Node and its cards. Call ``prepare`` first."""

    def __init__(
        self, client: ApiClient, name: str, physical: Sequence[PhysicalCard], unit: MemoryUnit, boot: str
    ) -> None:
        self.name = name
        self.cards = NodeCards(CARDS_VERSION, "ids", str(unit), boot, ())
        self.nvml_indices: Mapping[str, int] = {card.uuid: card.nvml_index for card in physical}
        self.isolation_off = False
        self.kubelet_version = ""
        self._client = client
        self._physical = physical
        self._unit = unit
        self._boot = boot

    async def prepare(self, in_use: frozenset[int]) -> None:
        """Read the Node, and give each card its index: the one it had, else one that no pod (``in_use``) names."""
        node = await self._read()
        text = (node.metadata.annotations or {}).get(wire.ANNOTATION_CARDS)
        known = decode_cards(text) if text is not None else None
        self.cards = describe_cards(self._physical, self._unit, self._boot, known, in_use)

    async def publish(self) -> None:
        """Write cards and count where the Node does not have them. Raises ApiError."""
        node = await self._read()
        wanted = encode_cards(self.cards)
        count = str(len(self.cards.cards))
        capacity = (node.status.capacity if node.status else None) or {}
        annotations = node.metadata.annotations or {}
        if annotations.get(wire.ANNOTATION_CARDS) == wanted and str(capacity.get(wire.RESOURCE_COUNT)) == count:
            return
        amounts = {wire.RESOURCE_COUNT: count}
        await self._client.patch_node_status(
            self.name,
            {
                "metadata": {"annotations": {wire.ANNOTATION_CARDS: wanted}},
                "status": {"capacity": amounts, "allocatable": amounts},
            },
        )
        _LOG.info("published node=%s cards=%s unit=%s", self.name, count, self._unit)

    async def keep_published(self) -> None:
        """Publish now and for ever; an API server that is away is tried again."""
        while True:
            try:
                await self.publish()
            except ApiError as error:
                _LOG.warning("cannot publish node=%s error=%s", self.name, error)
            await asyncio.sleep(REASSERT_SECONDS)

    async def _read(self) -> Node:
        node = await self._client.get_node(self.name)
        self.isolation_off = (node.metadata.labels or {}).get(wire.LABEL_ISOLATION_OFF) == "true"
        info = node.status.node_info if node.status else None
        self.kubelet_version = info.kubelet_version if info else ""
        return node
