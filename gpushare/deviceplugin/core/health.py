"""Which cards of the node are sick, why, and by which rule each recovers. No I/O and no clock: events are passed in.

A fault makes a card sick until a rule makes it well again; nothing milder that follows hides it::

    sick by              recovers by
    an Xid               the machine booted again; the driver asks for no recovery (NVML field 230) and the card answers, for a
    (or missed: ...)     whole cool-down; an operator's annotation
    lost                 the same, and if the driver does not know field 230, by answering for a whole cool-down
    the ConfigMap        being struck off it
    no driver            the driver's return
    taken out            coming back

A card that merely answers is not well: memory and clocks can be read after most faults. So if field 230 is not known,
an Xid needs the operator or the next boot.

The faults of the first two rows survive a restart of the plugin in the node's annotation; its ``boot`` is the boot of the faults.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from gpushare.deviceplugin.core.xid_rules import XidRules
from gpushare.model.cards import REASON_TAKEN_OUT, CardFacts, NodeCards, entries_of

XID_PREFIX: Final = "Xid "
REASON_LOST: Final = "lost"
REASON_MISSED: Final = "recovery action"
REASON_CONFIG_MAP: Final = "ConfigMap"
REASON_NO_DRIVER: Final = "no driver"
# Reasons that a restart need not remember: they are seen again.
_SEEN_AGAIN: Final = frozenset({REASON_CONFIG_MAP, REASON_NO_DRIVER, REASON_TAKEN_OUT})

RULE_BOOT: Final = "the machine booted again"
RULE_COOL_DOWN: Final = "the driver asks for no recovery and the card answers"
RULE_ANSWERS: Final = "the card answers again"
RULE_OPERATOR: Final = "an operator's annotation"


@dataclass(frozen=True, slots=True)
class Recovery:
    """A card is well again: it was sick for ``reason``, and recovered by ``rule``."""

    uuid: str
    reason: str
    rule: str


@dataclass(slots=True)
class _Illness:
    """A fault that stays. ``calm_since`` is when the driver began to say that nothing is wrong."""

    reason: str
    calm_since: float | None = None


class CardHealth:
    """The sick cards of one node. ``boot`` is the id of the machine's boot, "" if it is not known."""

    def __init__(self, rules: XidRules, cool_down_seconds: float, boot: str = "") -> None:
        self._rules = rules
        self._cool_down_seconds = cool_down_seconds
        self._boot = boot
        self._ill: dict[str, _Illness] = {}
        self._declared: frozenset[int] = frozenset()
        self._driver_is_away = False

    @property
    def sick(self) -> tuple[str, ...]:
        """The cards with a fault that stays: those to look after."""
        return tuple(self._ill)

    def verdict(self, card: CardFacts, *, is_absent: bool = False) -> tuple[bool, str]:
        """Is the card healthy, else why not, in a few words that stay the same.

        One that is announced and not in the machine (``is_absent``) is not. A fault of its own stays: coming back is no rule.
        """
        illness = self._ill.get(card.uuid)
        if illness is not None:
            return False, illness.reason
        if is_absent:
            return False, REASON_TAKEN_OUT
        if self._driver_is_away:
            return False, REASON_NO_DRIVER
        if card.index in self._declared:
            return False, REASON_CONFIG_MAP
        return True, ""

    def applied(self, cards: NodeCards, absent: frozenset[str] = frozenset()) -> NodeCards:
        """The cards with what is known of their health; ``absent`` are the UUIDs of those that are not in the machine."""
        facts = []
        for card in cards.cards:
            healthy, reason = self.verdict(card, is_absent=card.uuid in absent)
            facts.append(msgspec.structs.replace(card, healthy=healthy, reason=reason))
        return msgspec.structs.replace(cards, boot=self._boot, cards=tuple(facts))

    def restore(self, cards: NodeCards) -> None:
        """Take the faults in the annotation, from before our start. Call ``booted`` after it.

        What was declared holds until the ConfigMap is read again: a card must not be offered for that moment.
        """
        self._boot = cards.boot
        self._declared = frozenset(card.index for card in cards.cards if card.reason == REASON_CONFIG_MAP)
        for card in cards.cards:
            if not card.healthy and card.reason not in _SEEN_AGAIN:
                self._ill.setdefault(card.uuid, _Illness(card.reason))

    def booted(self, boot: str) -> list[Recovery]:
        """The machine's boot has this id; in another one than before all cards are well. "" means that it is not known."""
        before, self._boot = self._boot, boot or self._boot
        if not before or before == self._boot:
            return []
        return self._recover(list(self._ill), RULE_BOOT)

    def note_xid(self, uuid: str, xid: int) -> bool:
        """The driver reported an Xid. Returns whether that makes the card sick now, or its fault graver."""
        return self._rules.is_critical(xid) and self._fall_ill(uuid, f"{XID_PREFIX}{xid}")

    def miss(self, uuid: str) -> bool:
        """The driver asks for a recovery, and began to while no report was read: an Xid was missed."""
        return not self._rules.hears_nothing and self._fall_ill(uuid, REASON_MISSED)

    def lose(self, uuid: str) -> bool:
        """The card does not answer any more; whether that is news."""
        return self._fall_ill(uuid, REASON_LOST)

    def observe(self, uuid: str, *, answers: bool, action: int | None, now: float) -> list[Recovery]:
        """A look at a sick card at ``now`` (seconds of a clock that only goes forward)."""
        illness = self._ill.get(uuid)
        if illness is None:
            return []
        only_lost = illness.reason == REASON_LOST
        if not answers or not (action == 0 or (action is None and only_lost)):
            illness.calm_since = None
            return []
        if illness.calm_since is None:
            illness.calm_since = now
        if now - illness.calm_since < self._cool_down_seconds:
            return []
        return self._recover([uuid], RULE_ANSWERS if action is None else RULE_COOL_DOWN)

    def declare(self, indices: frozenset[int]) -> bool:
        """By the ConfigMap these cards (our indices) are sick, and no others; whether that is news."""
        before, self._declared = self._declared, indices
        return before != indices

    def miss_driver(self, *, is_away: bool) -> bool:
        """NVML does not answer at all, or does again; whether that is news."""
        before, self._driver_is_away = self._driver_is_away, is_away
        return before != is_away

    def believe(self, uuids: Iterable[str]) -> list[Recovery]:
        """By an operator's annotation these cards are well."""
        return self._recover(uuids, RULE_OPERATOR)

    def _fall_ill(self, uuid: str, reason: str) -> bool:
        illness = self._ill.get(uuid)
        if illness is not None:
            illness.calm_since = None
            if illness.reason != REASON_LOST or reason == REASON_LOST:
                return False
        self._ill[uuid] = _Illness(reason)
        return True

    def _recover(self, uuids: Iterable[str], rule: str) -> list[Recovery]:
        return [Recovery(uuid, self._ill.pop(uuid).reason, rule) for uuid in uuids if uuid in self._ill]


def named_cards(text: str, cards: Iterable[CardFacts]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The UUIDs of the cards that an operator's list names by index or UUID, and the entries that name none."""
    by_name = {name: card.uuid for card in cards for name in (str(card.index), card.uuid)}
    entries = entries_of(text)
    return tuple(by_name[e] for e in entries if e in by_name), tuple(e for e in entries if e not in by_name)
