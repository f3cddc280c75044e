"""The cards of a node, count by count: which came, went, are lost, cannot be read or are not shared. Each is reported once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from gpushare import wire
from gpushare.deviceplugin.cards.card_news import CardNews, why_not_shared
from gpushare.deviceplugin.core.announced_cards import PhysicalCard, count_cards
from gpushare.deviceplugin.core.health import CardHealth, ContainerFault
from gpushare.model.quantity import MemoryUnit
from gpushare.nvml.api import BLOCKED_CODES, CONTAINER_CODES, Card, NvmlError, Survey, UnreadableCard

_LOG = logging.getLogger(__name__)


class CardStock:
    """``cards`` are those of the last count, and the lost ones; ``clock`` gives seconds and only goes forward."""

    def __init__(self, unit: MemoryUnit, health: CardHealth, news: CardNews, clock: Callable[[], float]) -> None:
        self.cards: tuple[PhysicalCard, ...] = ()
        self._unit = unit
        self._health = health
        self._news = news
        self._container = ContainerFault(clock)
        self._withheld: frozenset[str] = frozenset()
        self._unreadable: frozenset[UnreadableCard] = frozenset()
        # UUIDs of cards that answered in this process.
        self._answered: set[str] = set()
        # Why this container is kept from a card, "" if it is not.
        self._blocked = ""

    def take(self, survey: Survey) -> frozenset[str]:
        """Bring ``cards`` to this count; the UUIDs of those that are lost. Raises ContainerFaultError."""
        self._report_withheld(survey)
        answering = [_physical(card) for card in survey.cards if card.uuid not in self._withheld]
        # A card that gives its UUID is that card, and no other that is missing.
        known = {card.uuid for card in self.cards}
        places = [card.index for card in survey.unreadable if not card.uuid or card.uuid in known]
        roster = count_cards(self.cards, answering, places, self._withheld)
        self._answered |= {card.uuid for card in answering}
        self._log_changes(roster.cards, roster.removed)
        self.cards = roster.cards
        lost = {card.nvml_index for card in roster.cards if card.uuid in roster.lost}
        # Which cards the other unreadable ones are is not known; a lost one is reported by its name.
        unknown = survey.unreadable if len(survey.unreadable) > len(roster.lost) else ()
        self._report_unreadable(card for card in unknown if card.index not in lost)
        for uuid in roster.lost:
            self._health.lose(uuid)
        for uuid in survey.missed:
            _LOG.warning("the driver asks for a recovery of a card after an unreported fault uuid=%s", uuid)
            self._health.miss(uuid)
        self._judge_container(survey, roster.lost)
        return roster.lost

    def problem(self, error: NvmlError) -> str:
        """NVML does not show the cards; what to report. Raises ContainerFaultError if a new container is needed."""
        if error.code in CONTAINER_CODES:
            return self._container.fails(str(error))
        self._container.works()
        return str(error)

    def _judge_container(self, survey: Survey, lost: frozenset[str]) -> None:
        """Cards from which this process is kept, and which it had before, are a fault of its container.

        Raises ContainerFaultError.
        """
        blocked = [card for card in survey.unreadable if card.code in BLOCKED_CODES]
        text = ""
        if blocked and lost & self._answered:
            text = self._container.fails(blocked[0].reason)
        else:
            self._container.answered()
        if text and text != self._blocked:
            _LOG.warning("this container is kept from a card reason=%s", text)
            self._news.report(wire.EVENT_CARD_UNREADABLE, text)
        self._blocked = text

    def _report_withheld(self, survey: Survey) -> None:
        withheld = {card.uuid: text for card in survey.cards if (text := why_not_shared(card, self._unit))}
        for uuid in withheld.keys() - self._withheld:
            _LOG.warning("not shared uuid=%s reason=%s", uuid, withheld[uuid])
            self._news.report(wire.EVENT_CARD_NOT_SHARED, withheld[uuid])
        self._withheld = frozenset(withheld)

    def _report_unreadable(self, cards: Iterable[UnreadableCard]) -> None:
        unreadable = frozenset(cards)
        for card in unreadable - self._unreadable:
            _LOG.warning("card cannot be read nvml_index=%d reason=%s", card.index, card.reason)
            self._news.report(
                wire.EVENT_CARD_UNREADABLE, f"card {card.index} by NVML's count cannot be read: {card.reason}"
            )
        self._unreadable = unreadable

    def _log_changes(self, cards: Sequence[PhysicalCard], removed: frozenset[str]) -> None:
        for card in cards:
            if card not in self.cards:
                _LOG.info(
                    "card nvml_index=%d uuid=%s model=%s mib=%d", card.nvml_index, card.uuid, card.model, card.mib
                )
        for uuid in removed:
            _LOG.warning("card is gone uuid=%s", uuid)


def _physical(card: Card) -> PhysicalCard:
    return PhysicalCard(card.index, card.uuid, card.model, card.memory_mib, card.numa or 0)
