"""Faults and recoveries of a node's cards from one moment of rest to the next, and how its Node must show them. Pure.

Rules: an Xid of an application changes nothing, any other Xid and a loss make a card unhealthy, and
it is healthy again by an operator's annotation, or after a cool-down without an advice of its driver.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from e2e.checkers.plugin_answers import XIDS_OF_APPLICATIONS
from e2e.site.node_cards import described

COOL_DOWN_SECONDS: Final = 1.0
# Xids after which the driver advises a reset or a reboot, and critical ones after which it advises nothing.
_ADVISED, _OTHERS = ("48", "79", "119"), ("61", "92")
LOST, MISSED = "lost", "recovery action"
_MOST_MOMENTS: Final = 4
# The chances that the plugin is away during a moment, that the Node is created again in it, and that the card is that of the first.
_AWAY, _AGAIN, _FIRST = 0.3, 0.2, 0.7


@dataclass(frozen=True, slots=True)
class Fault:
    """The state of one card: why it is unhealthy, "" if it is not, whether its driver advises a recovery, whether it is lost.

    ``is_unread``: an Xid that came while it was unhealthy need not have been read yet, as it changes nothing.
    """

    reason: str = ""
    is_advised: bool = False
    is_lost: bool = False
    is_unread: bool = False

    def after(self, change: Sequence[str]) -> Fault:
        """The state after a change that no plugin has seen yet."""
        match change:
            case ["xid", xid]:
                return replace(self, is_advised=self.is_advised or xid in _ADVISED, is_unread=bool(self.reason))
            case ["lose"]:
                return replace(self, is_lost=True)
            case ["repair"]:
                return replace(self, is_lost=False, is_advised=False)
        return self

    def seen(self, change: Sequence[str], *, knows_advice: bool) -> str:
        """The reason that a plugin shows in the end, which reads the ``change`` that led here, or starts after it ()."""
        begins = ""
        match change:
            case ["operator"]:
                return ""
            case ["xid", xid] if xid not in XIDS_OF_APPLICATIONS:
                begins = f"Xid {xid}"
            case [] if self.is_advised and knows_advice:
                begins = MISSED
        reason = self.reason or (LOST if self.is_lost else begins)
        is_calm = not self.is_lost and (not self.is_advised if knows_advice else reason == LOST)
        return "" if is_calm else reason


@dataclass(frozen=True, slots=True)
class Moment:
    """The events of one node: commands of ``fake-nvml``, and the card that an operator declares healthy, "" for none.

    ``before`` and ``after`` are the states of its cards.
    """

    commands: tuple[tuple[str, ...], ...]
    operator: str
    before: Mapping[int, Fault]
    after: Mapping[int, Fault]
    is_away: bool = False
    is_again: bool = False

    def wrong(self, begun: float, writes: Sequence[tuple[float, Mapping[int, str]]]) -> Iterator[str]:
        """The cards that the ``writes`` of the Node, each with its time, do not show as before and then as after it."""
        for card, fault in self.before.items():
            due, shown = [fault.reason, self.after[card].reason], [fault.reason]
            for at, reasons in writes:
                if (reason := reasons.get(card, "not there")) == shown[-1]:
                    continue
                shown.append(reason)
                if not reason and str(card) != self.operator and at - begun < COOL_DOWN_SECONDS:
                    yield f"card {card} recovered {at - begun:.1f} s after {self.commands}"
            if shown != [*dict.fromkeys(due)]:
                yield f"card {card} was shown as {shown}, should be {due}, after {self.commands} {self.operator}"


def moments(
    rng: random.Random, faults: Mapping[int, Fault], held: Sequence[int], *, knows_advice: bool
) -> Iterator[Moment]:
    """Some moments of a node of these cards, mostly of one that is ``held``; its driver may not know what it advises."""
    first = rng.choice(held)
    for _ in range(rng.randint(2, _MOST_MOMENTS)):
        is_away, is_again = rng.random() < _AWAY, rng.random() < _AGAIN
        others = rng.sample(rng.choice((held, sorted(faults))), rng.randint(0, 1))
        changed = {first if rng.random() < _FIRST else rng.choice(held), *others}
        if is_again and not is_away:
            yield Moment((), "", faults, faults, is_again=True)
            continue
        moment = _moment(rng, faults, changed, is_away=is_away, knows_advice=knows_advice)
        # Without a healthy card no plugin counts as started.
        if not all(fault.reason for fault in moment.after.values()):
            yield moment
            faults = moment.after


def _moment(
    rng: random.Random, faults: Mapping[int, Fault], changed: Collection[int], *, is_away: bool, knows_advice: bool
) -> Moment:
    alike = [card for card in faults if rng.random() < 1 / len(faults)]
    # A plugin opens NVML again and again while a card is lost, and may miss an Xid.
    hears = is_away or not any(fault.is_lost for fault in faults.values())
    commands: list[tuple[str, ...]]
    commands, operator, after = [("xid", str(card), rng.choice(XIDS_OF_APPLICATIONS)) for card in alike], "", {}
    for card, fault in faults.items():
        change: tuple[str, ...] = ("none",)
        if card in changed:
            change = _change(rng, fault, knows_advice=knows_advice, hears=hears)
        if change == ("operator",):
            change = ("repair",) if operator or is_away else change
            operator = operator or ("" if is_away else str(card))
        if change[0] not in ("none", "operator"):
            commands.append((change[0], str(card), *change[1:]))
        now = fault.after(change)
        reason = now.seen(() if is_away else change, knows_advice=knows_advice)
        after[card] = replace(now, reason=reason, is_unread=now.is_unread and bool(reason) and not is_away)
    commands.sort(key=lambda command: command[0] == "lose")
    return Moment(tuple(commands), operator, faults, after, is_away=is_away)


def _change(rng: random.Random, fault: Fault, *, knows_advice: bool, hears: bool) -> tuple[str, ...]:
    """A change of a card. A lost one reports no Xid, and an operator's word would not make it healthy.

    A card that recovers without an operator may do so before the Node is written. An Xid that is read after an operator's word
    makes the card unhealthy again.
    """
    xid = ("xid", rng.choice(_ADVISED if knows_advice else (*_ADVISED, *_OTHERS)))
    if fault.is_lost:
        return ("repair",)
    if not fault.reason:
        return rng.choice((xid, xid, ("lose",)) if hears else (("lose",),))
    return rng.choice((xid, ("repair",), ("repair",) if fault.is_unread else ("operator",)))


def reasons_of(node: Mapping[str, Any]) -> dict[int, str]:
    """Why each card of a Node is unhealthy, "" for the others; {} without our annotation."""
    found = described(node)
    return {index: card.reason for index, card in found.cards.items()} if found else {}
