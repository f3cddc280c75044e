"""Which cards of the node are unhealthy, why, and by which rule each recovers. No I/O and no clock: events are passed in.

A fault makes a card unhealthy until a rule makes it healthy again; nothing milder that follows hides it::

    unhealthy by              recovers by
    an Xid               the machine booted again; the driver asks for no recovery (NVML field 230) and the card answers, for a
    (or missed: ...)     whole cool-down; an operator's annotation
    lost                 the same, and if the driver does not know field 230, by answering for a whole cool-down
    the ConfigMap        being struck off it
    no driver            the driver's return
    no memory limit      being able to limit (--memory-limit require)
    taken out            coming back

A card that merely answers is not healthy: memory and clocks can be read after most faults. So if field 230 is not known,
an Xid needs the operator or the next boot.

The faults of the first two rows survive a restart of the plugin in the node's annotation; its ``boot`` is the boot of the faults.

A fault of the plugin's own container (``ContainerFault``) is none of a card.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from gpushare.errors import GpushareError
from gpushare.model.cards import NOT_SHARED, REASON_TAKEN_OUT, CardFacts, NodeCards, entries_of

XID_PREFIX: Final = "Xid "
REASON_LOST: Final = "lost"
REASON_MISSED: Final = "recovery action"
REASON_CONFIG_MAP: Final = "ConfigMap"
REASON_NO_DRIVER: Final = "no driver"
NO_LIMIT_PREFIX: Final = "no memory limit: "
# Reasons that a restart need not remember: they are seen again.
_SEEN_AGAIN: Final = NOT_SHARED | {REASON_CONFIG_MAP, REASON_NO_DRIVER, REASON_TAKEN_OUT}

RULE_BOOT: Final = "the machine booted again"
RULE_COOL_DOWN: Final = "the driver asks for no recovery and the card answers"
RULE_ANSWERS: Final = "the card answers again"
RULE_OPERATOR: Final = "an operator's annotation"


@dataclass(frozen=True, slots=True)
class Recovery:
    """A card is healthy again: it was unhealthy for ``reason``, and recovered by ``rule``."""

    uuid: str
    reason: str
    rule: str


class CardHealth:
    """The unhealthy cards of one node."""

    def __init__(self, rules: XidRules, cool_down_seconds: float) -> None:
        self._rules = rules
        self._cool_down_seconds = cool_down_seconds
        # The id of the machine's boot, "" if it is not known.
        self._boot = ""
        # By UUID, the faults that stay, and when the driver of such a card began to say that nothing is wrong.
        self._ill: dict[str, str] = {}
        self._calm_since: dict[str, float] = {}
        # The cards (our indices) that are unhealthy by the ConfigMap, and whether NVML does not answer at all.
        self.declared: frozenset[int] = frozenset()
        self.driver_is_away = False
        # By UUID, why cards are not given out because containers cannot be limited to their share.
        self.unlimited: Mapping[str, str] = {}

    @property
    def unhealthy(self) -> tuple[str, ...]:
        """The cards with a fault that stays: those to look after."""
        return tuple(self._ill)

    def applied(self, cards: NodeCards, absent: Mapping[str, str] | None = None) -> NodeCards:
        """The cards with what is known of their health, and why pods may not have one, in a few words that stay the same.

        ``absent`` has by UUID why some are announced and not shared any more. A fault of its own stays: coming back is no rule.
        """
        facts = []
        for card in cards.cards:
            why = self._ill.get(card.uuid, (absent or {}).get(card.uuid))
            if why is None and self.driver_is_away:
                why = REASON_NO_DRIVER
            elif why is None and card.index in self.declared:
                why = REASON_CONFIG_MAP
            elif why is None and card.uuid in self.unlimited:
                why = NO_LIMIT_PREFIX + self.unlimited[card.uuid]
            facts.append(msgspec.structs.replace(card, healthy=why is None, reason=why or ""))
        return msgspec.structs.replace(cards, boot=self._boot, cards=tuple(facts))

    def restore(self, cards: NodeCards) -> None:
        """Take the faults in the annotation, from before our start. Call ``booted`` after it.

        What was declared holds until the ConfigMap is read again: a card must not be offered for that moment.
        """
        self._boot = cards.boot
        self.declared = frozenset(card.index for card in cards.cards if card.reason == REASON_CONFIG_MAP)
        for card in cards.cards:
            if not card.healthy and card.reason not in _SEEN_AGAIN and not card.reason.startswith(NO_LIMIT_PREFIX):
                self._ill.setdefault(card.uuid, card.reason)

    def booted(self, boot: str) -> list[Recovery]:
        """The machine's boot has this id; in another one than before all cards are healthy. "" means that it is not known."""
        before, self._boot = self._boot, boot or self._boot
        if not before or before == self._boot:
            return []
        return self._recover(list(self._ill), RULE_BOOT)

    def note_xid(self, uuid: str, xid: int) -> bool:
        """The driver reported an Xid. Returns whether that makes the card unhealthy now, or its fault graver."""
        return self._rules.is_critical(xid) and self._fall_ill(uuid, f"{XID_PREFIX}{xid}")

    def miss(self, uuid: str) -> None:
        """The driver asks for a recovery, and began to while no report was read: an Xid was missed."""
        if not self._rules.hears_nothing:
            self._fall_ill(uuid, REASON_MISSED)

    def lose(self, uuid: str) -> None:
        """The card does not answer any more."""
        self._fall_ill(uuid, REASON_LOST)

    def observe(self, uuid: str, *, answers: bool, action: int | None, now: float) -> list[Recovery]:
        """A look at an unhealthy card at ``now`` (seconds of a clock that only goes forward)."""
        if uuid not in self._ill:
            return []
        only_lost = self._ill[uuid] == REASON_LOST
        if not answers or not (action == 0 or (action is None and only_lost)):
            self._calm_since.pop(uuid, None)
            return []
        if now - self._calm_since.setdefault(uuid, now) < self._cool_down_seconds:
            return []
        return self._recover([uuid], RULE_ANSWERS if action is None else RULE_COOL_DOWN)

    def accept(self, uuids: Iterable[str]) -> list[Recovery]:
        """By an operator's annotation these cards are healthy."""
        return self._recover(uuids, RULE_OPERATOR)

    def _fall_ill(self, uuid: str, reason: str) -> bool:
        self._calm_since.pop(uuid, None)
        if uuid in self._ill and (self._ill[uuid] != REASON_LOST or reason == REASON_LOST):
            return False
        self._ill[uuid] = reason
        return True

    def _recover(self, uuids: Iterable[str], rule: str) -> list[Recovery]:
        return [Recovery(uuid, self._ill.pop(uuid), rule) for uuid in dict.fromkeys(uuids) if uuid in self._ill]


def named_cards(text: str, cards: Iterable[CardFacts]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The UUIDs of the cards that an operator's list names by index or UUID, and the entries that name none."""
    by_name = {name: card.uuid for card in cards for name in (str(card.index), card.uuid)}
    entries = entries_of(text)
    return tuple(by_name[e] for e in entries if e in by_name), tuple(e for e in entries if e not in by_name)


# Application errors, in the words of NVIDIA's catalogue: 13 graphics engine exception, 31 memory page fault, 43 GPU stopped
# processing, 45 preemptive cleanup due to previous errors, 68 video processor exception, 109 context switch timeout.
APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
# Words that stand for every Xid.
_ALL: Final = frozenset({"all", "xids"})


@dataclass(frozen=True, slots=True)
class XidRules:
    """Which Xids make a card unhealthy.

    The rules and the two variables are those of NVIDIA's device plugin (internal/rm/health.go): faults that an application
    causes on its own are ignored, every other Xid is critical; ``DP_DISABLE_HEALTHCHECKS`` adds to the ignored ones,
    ``DP_ENABLE_HEALTHCHECKS`` overrides both. ``enabled`` wins over ``ignored``; the booleans stand for all Xids that the
    other set does not name.
    """

    ignored: frozenset[int] = APPLICATION_XIDS
    enabled: frozenset[int] = frozenset()
    ignores_all: bool = False
    enables_all: bool = False

    def is_critical(self, xid: int) -> bool:
        """Does this Xid make its card unhealthy?"""
        if self.enables_all or xid in self.enabled:
            return True
        return not self.ignores_all and xid not in self.ignored

    @property
    def hears_nothing(self) -> bool:
        """No Xid is critical: reports need not be read."""
        return self.ignores_all and not self.enabled and not self.enables_all


def read_rules(disable: str, enable: str) -> tuple[XidRules, tuple[str, ...]]:
    """The rules in the two variables, and the entries of them that are no Xids."""
    ignored, ignores_all, odd = _numbers(disable)
    enabled, enables_all, also_odd = _numbers(enable)
    return XidRules(APPLICATION_XIDS | ignored, enabled, ignores_all, enables_all), (*odd, *also_odd)


def _numbers(text: str) -> tuple[frozenset[int], bool, list[str]]:
    entries = [entry for part in text.split(",") if (entry := part.strip())]
    numbers = {entry for entry in entries if entry.isascii() and entry.isdigit() and len(entry) <= 9}
    words = [entry for entry in entries if entry not in numbers]
    return (
        frozenset(map(int, numbers)),
        any(word.lower() in _ALL for word in words),
        [w for w in words if w.lower() not in _ALL],
    )


SECONDS: Final = 30.0
SECONDS_AT_START: Final = 300.0


class ContainerFaultError(GpushareError):
    """NVML does not answer in this container any more, so the plugin ends."""


class ContainerFault:
    """Faults of the plugin's own container, which only a new container cures. ``clock`` gives seconds and only goes forward.

    A container can lose its access to the devices while it runs: a reload of systemd rewrites its device rules, or the driver is
    replaced below the library that is loaded. NVML then fails in this process for ever, although the cards are healthy. So the
    plugin ends, and the kubelet makes a new container for it. At its start it waits longer, so that a really broken driver does
    not become a crash loop::

        NVML answered before in this process    ends after 30 s of the fault
        it never answered                       ends after 5 minutes
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        self._limit = SECONDS_AT_START

    def works(self) -> None:
        """NVML answers, or fails in another way."""
        self._since = None

    def answered(self) -> None:
        """NVML has shown the cards."""
        self._since, self._limit = None, SECONDS

    def fails(self, reason: str) -> str:
        """NVML fails in such a way; what to report. Raises ContainerFaultError once that has lasted."""
        now = self._clock()
        self._since = now if self._since is None else self._since
        if now - self._since >= self._limit:
            raise ContainerFaultError(
                f"{reason}; it has lasted {now - self._since:.0f} s, and only a new container may cure it"
            )
        return f"{reason}; only a new container may cure that, so this one ends if it lasts {self._limit:.0f} s"
