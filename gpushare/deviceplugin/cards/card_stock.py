"""The cards of a node, count by count: which came, went, are lost, cannot be read or are not shared. Each is reported once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from gpushare import wire
from gpushare.deviceplugin.cards.card_news import CardNews, why_not_shared
from gpushare.deviceplugin.core.announced_cards import PhysicalCard, Roster, count_cards, uuids_of
from gpushare.deviceplugin.core.health import CardHealth, ContainerFault
from gpushare.model.quantity import MemoryUnit
from gpushare.nvml.api import BLOCKED_CODES, CONTAINER_CODES, NvmlError, Survey

_LOG = logging.getLogger(__name__)


class CardStock:
    """``cards`` are those of the last count, and the lost ones; ``clock`` gives seconds and only goes forward."""

    def __init__(self, unit: MemoryUnit, health: CardHealth, news: CardNews, clock: Callable[[], float]) -> None:
        self.cards: tuple[PhysicalCard, ...] = ()
        self._unit = unit
        self._health = health
        self._news = news
        self._container = ContainerFault(clock)
        # UUIDs of cards that answered in this process.
        self._answered: frozenset[str] = frozenset()
        # The texts of the last count about cards that are not shared, or cannot be read: each is reported once.
        self._reported: dict[str, frozenset[str]] = {}

    def take(self, survey: Survey) -> frozenset[str]:
        """Bring ``cards`` to this count; the UUIDs of those that are lost. Raises ContainerFaultError."""
        withheld = {card.uuid: text for card in survey.cards if (text := why_not_shared(card, self._unit))}
        answering = [
            PhysicalCard(card.index, card.uuid, card.model, card.memory_mib, card.numa or 0)
            for card in survey.cards
            if card.uuid not in withheld
        ]
        # A card that gives its UUID is that card, and no other that is missing.
        known = uuids_of(self.cards)
        places = [card.index for card in survey.unreadable if not card.uuid or card.uuid in known]
        roster = count_cards(self.cards, answering, places, frozenset(withheld))
        self._answered |= uuids_of(answering)
        for card in roster.cards:
            if card not in self.cards:
                line = "card nvml_index=%d uuid=%s model=%s mib=%d"
                _LOG.info(line, card.nvml_index, card.uuid, card.model, card.mib)
        for uuid in roster.removed:
            _LOG.warning("card is gone uuid=%s", uuid)
        self.cards = roster.cards
        for uuid in roster.lost:
            self._health.lose(uuid)
        for uuid in survey.missed:
            _LOG.warning("the driver asks for a recovery of a card after an unreported fault uuid=%s", uuid)
            self._health.miss(uuid)
        self._report(wire.EVENT_CARD_NOT_SHARED, withheld.values())
        self._report(wire.EVENT_CARD_UNREADABLE, self._unreadable(survey, roster))
        return roster.lost

    def _report(self, event: str, texts: Iterable[str]) -> None:
        """Report what the count before did not have."""
        found = frozenset(texts)
        for text in found - self._reported.get(event, frozenset()):
            _LOG.warning("card trouble event=%s reason=%s", event, text)
            self._news.report(event, text)
        self._reported[event] = found

    def problem(self, error: NvmlError) -> str:
        """NVML does not show the cards; what to report. Raises ContainerFaultError if a new container is needed."""
        if error.code in CONTAINER_CODES:
            return self._container.fails(str(error))
        self._container.works()
        return str(error)

    def _unreadable(self, survey: Survey, roster: Roster) -> Iterable[str]:
        """The texts about cards that cannot be read, if they are not known to be lost. Raises ContainerFaultError.

        Cards from which this process is kept, and which it had before, are a fault of its container.
        """
        lost = {card.nvml_index for card in roster.cards if card.uuid in roster.lost}
        # Which cards the other unreadable ones are is not known; a lost one is reported by its name.
        unknown = survey.unreadable if len(survey.unreadable) > len(roster.lost) else ()
        for card in unknown:
            if card.index not in lost:
                yield f"card {card.index} by NVML's count cannot be read: {card.reason}"
        blocked = [card.reason for card in survey.unreadable if card.code in BLOCKED_CODES]
        if blocked and roster.lost & self._answered:
            yield self._container.fails(blocked[0])
        else:
            self._container.answered()
