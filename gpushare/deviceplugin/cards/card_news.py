"""Changes of the cards, as events for people: on the Node, and on each pod that holds the card.

No caller waits for an event: events wait in a queue until the API server takes them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.cards.node_status import NodeWriter
from gpushare.deviceplugin.core.announced_cards import CardChange, PhysicalCard
from gpushare.deviceplugin.core.kept_pods import indices_of
from gpushare.deviceplugin.core.node_pods import NodePods
from gpushare.kube.api_errors import ApiError
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder, Level
from gpushare.manifests import ObjectMeta
from gpushare.model.cards import NOT_SHARED, REASON_MIG, REASON_NOT_VISIBLE, REASON_TOO_SMALL
from gpushare.model.quantity import MemoryUnit
from gpushare.nvml.api import Card

_LOG = logging.getLogger(__name__)

# The pause between two attempts to record an event, in seconds, and the attempts after which others come first.
RETRY_SECONDS: Final = 2.0
ATTEMPTS: Final = 300
# The most events that wait; beyond that the newest is dropped: an API server that stays away must not fill our memory.
_LONGEST_QUEUE: Final = 1000

_Report = tuple[str, ObjectMeta, str, str, Level]


@dataclass(eq=False)
class CardNews:
    """Reports about our node and its ``pods``."""

    client: ApiClient
    node: NodeWriter
    pods: NodePods
    events: EventRecorder
    # Each, and whether it has all its attempts before the others.
    reports: asyncio.Queue[tuple[_Report, bool]] = field(
        default_factory=lambda: asyncio.Queue(_LONGEST_QUEUE), init=False
    )

    def report_changes(self, changes: Iterable[CardChange]) -> None:
        """Cards became unhealthy, recovered, or left the list. The last is reported to pods; the Node has it with the advice."""
        for change in changes:
            reason, state = wire.EVENT_CARD_UNHEALTHY, "is unhealthy"
            if change.healthy:
                reason, state = wire.EVENT_CARD_RECOVERED, "is healthy again"
            elif change.why in NOT_SHARED:
                reason, state = wire.EVENT_CARD_NOT_SHARED, "is not shared any more"
            level: Level = "Normal" if change.healthy else "Warning"
            card = change.card
            text = f"card {card.index} ({card.uuid}) of node {self.node.name} {state}: {change.why}"
            if reason != wire.EVENT_CARD_NOT_SHARED:
                self._put(("Node", ObjectMeta(name=self.node.name), reason, text, level))
            for pod in self.pods.in_admission_order():
                if card.index in indices_of(pod):
                    self._put(("Pod", pod.metadata, reason, text, level))

    def report(self, reason: str, text: str) -> None:
        """Something else of the Node."""
        self._put(("Node", ObjectMeta(name=self.node.name), reason, text, "Warning"))

    async def run(self) -> None:
        """Record events until cancelled, in their order; one that is refused for ten minutes goes behind the others."""
        while True:
            report, is_new = await self.reports.get()
            for _ in range(ATTEMPTS if is_new else 1):
                if await self._is_recorded(report):
                    break
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._put(report, is_new=False)

    async def _is_recorded(self, report: _Report) -> bool:
        kind, metadata, reason, text, level = report
        if kind == "Node" and not (metadata := self.node.metadata).uid:
            # An event without its uid is not shown with the Node.
            try:
                metadata = (await self.client.get_node(self.node.name)).metadata
            except ApiError:
                return False
        return await self.events.record(kind, metadata, reason, text, level)

    def _put(self, report: _Report, *, is_new: bool = True) -> None:
        try:
            self.reports.put_nowait((report, is_new))
        except asyncio.QueueFull:
            line = "not reported kind=%s name=%s event=%s: too many events wait"
            _LOG.warning(line, report[0], report[1].name, report[2])


def why_not_shared(card: Card, unit: MemoryUnit) -> tuple[str, str] | None:
    """Why a card that answers is not announced, and what helps; None if it is announced."""
    if card.mig:
        return REASON_MIG, (
            f"card {card.uuid} ({card.model}) is in MIG mode and not shared: its memory belongs to its slices; "
            "switch MIG off to share it (nvidia-smi -mig 0), or leave it to NVIDIA's device plugin"
        )
    if unit.units_of(card.memory_mib):
        return None
    has = f"card {card.uuid} ({card.model}) is not shared: it has {card.memory_mib} MiB, which is less than one unit of {unit}"
    fits = MemoryUnit(2 ** (card.memory_mib.bit_length() - 1)) if card.memory_mib else None
    return REASON_TOO_SMALL, has if fits is None else f"{has}; share it with --memory-unit {fits}"


def why_not_visible(card: PhysicalCard, visible: str) -> tuple[str, str]:
    """Why a card that the node shared before is not announced by a plugin whose container was given others, and what helps."""
    return REASON_NOT_VISIBLE, (
        f"card {card.uuid} ({card.model}) is not shared: the device plugin's container has {wire.ENV_VISIBLE_DEVICES}={visible}; "
        "set it to all to share every card of the node"
    )
