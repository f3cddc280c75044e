"""Promises of gpushare.deviceplugin.core.health: which cards are unhealthy, and the rules by which they recover."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpushare.deviceplugin.core.health import (
    APPLICATION_XIDS,
    RULE_ANSWERS,
    RULE_BOOT,
    RULE_COOL_DOWN,
    RULE_OPERATOR,
    CardHealth,
    ContainerFault,
    ContainerFaultError,
    Recovery,
    XidRules,
    named_cards,
    read_rules,
)
from gpushare.model.cards import CardFacts, NodeCards

A, B = "GPU-a", "GPU-b"
CARDS = NodeCards(1, "ids", "GiB", "one", (CardFacts(0, A, "m", 15360, 15), CardFacts(1, B, "m", 15360, 15)))
COOL_DOWN = 60.0


def health() -> CardHealth:
    """The book of a node with two cards."""
    book = CardHealth(XidRules(), COOL_DOWN)
    book.booted("one")
    return book


def verdicts(book: CardHealth) -> list[str]:
    """Why each card is unhealthy; "" for one that is healthy."""
    cards = book.applied(CARDS).cards
    assert all(card.healthy == (not card.reason) for card in cards)
    return [card.reason for card in cards]


Event = Callable[[CardHealth], object]


def xid(uuid: str, *codes: int) -> Event:
    """The driver reports these."""
    return lambda book: [book.note_xid(uuid, code) for code in codes]


def lost(uuid: str) -> Event:
    """The card does not answer."""
    return lambda book: book.lose(uuid)


def declared(*indices: int) -> Event:
    """The ConfigMap names these."""
    return lambda book: setattr(book, "declared", frozenset(indices))


def unlimited(*uuids: str) -> Event:
    """By --memory-limit require these are not given out."""
    return lambda book: setattr(book, "unlimited", dict.fromkeys(uuids, "NoHook"))


def away(is_away: bool) -> Event:
    """The driver goes or comes."""
    return lambda book: setattr(book, "driver_is_away", is_away)


# An event, and why each card is unhealthy after it.
FAULTS: dict[str, tuple[list[Event], list[str]]] = {
    "two unhealthy cards are two": ([xid(A, 48), xid(B, 79)], ["Xid 48", "Xid 79"]),
    "an application's Xid is none": ([xid(A, 31)], ["", ""]),
    "nothing hides the first fatal Xid": ([xid(A, 48, 31, 43, 48, 79), lost(A)], ["Xid 48", ""]),
    "an Xid of a lost card is graver: that would recover more easily": ([lost(A), xid(A, 79)], ["Xid 79", ""]),
    "a recovery action that appeared unseen": ([lambda book: book.miss(A)], ["recovery action", ""]),
    "the ConfigMap names indices": ([declared(1, 9)], ["", "ConfigMap"]),
    "struck off it": ([declared(1, 9), declared()], ["", ""]),
    "it cannot limit, as is required": ([unlimited(B), declared(1)], ["", "ConfigMap"]),
    "it can again": ([unlimited(A, B), unlimited(B)], ["", "no memory limit: NoHook"]),
    "without a driver all are": ([xid(A, 48), away(True)], ["Xid 48", "no driver"]),
    "the driver is back": ([xid(A, 48), away(True), away(False)], ["Xid 48", ""]),
}


@pytest.mark.parametrize(("events", "expected"), FAULTS.values(), ids=FAULTS.keys())
def test_each_card_has_its_own_gravest_fault(events: list[Event], expected: list[str]) -> None:
    """A fault of one card changes no other, and nothing milder that follows hides it."""
    book = health()
    for event in events:
        event(book)

    assert verdicts(book) == expected


def test_a_new_fault_is_news_and_no_other() -> None:
    """The cards with one are those to look after; with health checks off a fault that was not read is none."""
    book, deaf = health(), CardHealth(read_rules("all", "")[0], COOL_DOWN)
    book.lose(B)
    deaf.miss(A)

    assert [book.note_xid(A, code) for code in (31, 48, 31, 48, 79)] == [False, True, False, False, False]
    assert book.note_xid(B, 79)
    assert (book.unhealthy, verdicts(deaf)) == ((B, A), ["", ""])


def booted(boot: str) -> Event:
    """The machine's boot has this id."""
    return lambda book: book.booted(boot)


def look(now: float, action: int | None = 0, *, answers: bool = True) -> Event:
    """A look at card a."""
    return lambda book: book.observe(A, answers=answers, action=action, now=now)


CALM = Recovery(A, "Xid 48", RULE_COOL_DOWN)
# An event, and the cards that recover by it.
RECOVERIES: dict[str, tuple[list[Event], list[Recovery]]] = {
    "rule (a), a new boot": (
        [booted("one"), xid(A, 48), lost(B), booted("one"), booted(""), booted("two"), booted("two")],
        [Recovery(A, "Xid 48", RULE_BOOT), Recovery(B, "lost", RULE_BOOT)],
    ),
    "an unknown boot may be this one": ([booted(""), xid(A, 48), booted("one")], []),
    "rule (b), a cool-down": ([xid(A, 48), look(100), look(159.9), look(160), look(161)], [CALM]),
    "before its end": ([xid(A, 48), look(100), look(159.9)], []),
    # After most faults a card answers questions as before.
    **{
        f"the driver asks for {action}": ([xid(A, 48), *(look(now, action) for now in range(0, 1000, 10))], [])
        for action in (1, 2, 3, 4, None)
    },
    **{
        f"{what} restarts the cool-down, {'which ends' if later else 'which does not end yet'}": (
            [xid(A, 48), look(0), event, look(60), *later], [CALM] * len(later),
        )
        for what, event in {
            "silence": look(50, None, answers=False), "an advice": look(50, 1), "an Xid": xid(A, 94), "the same": xid(A, 48),
        }.items()
        for later in ([], [look(120)])
    },
    "lost: answering is enough": ([lost(A), look(0, None), look(60, None)], [Recovery(A, "lost", RULE_ANSWERS)]),
    "lost, and a reset is asked for": ([lost(A), look(0, 1), look(60, 1)], []),
    "rule (c), an operator's annotation": (
        [xid(A, 48), xid(B, 48), lambda book: book.accept([A, "GPU-unknown"])], [Recovery(A, "Xid 48", RULE_OPERATOR)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("events", "expected"), RECOVERIES.values(), ids=RECOVERIES.keys())
def test_a_card_recovers_by_a_rule_alone(events: list[Event], expected: list[Recovery]) -> None:
    """A card that does not recover stays unhealthy."""
    book = CardHealth(XidRules(), COOL_DOWN)
    results = [event(book) for event in events]
    found = [one for result in results if isinstance(result, list) for one in result if isinstance(one, Recovery)]

    assert found == expected
    assert not {one.uuid for one in found} & set(book.unhealthy)


@pytest.mark.parametrize("boots", [("one", "two"), ("two",)], ids=["a restart", "a reboot while no plugin ran"])
@pytest.mark.parametrize("is_away", [True, False])
def test_what_the_node_says_is_believed_after_a_restart(boots: tuple[str, ...], is_away: bool) -> None:
    """Unhealthy stays unhealthy in the boot of the annotation and no longer; a fault that will be seen again is forgotten."""
    before = health()
    before.note_xid(A, 48)
    before.driver_is_away = is_away
    before.unlimited = {B: "NoHook"}
    after = CardHealth(XidRules(), COOL_DOWN)
    after.restore(before.applied(CARDS))

    assert [after.booted(boot) for boot in boots[:-1]] == [[]] * (len(boots) - 1)
    assert after.applied(CARDS).boot == "one"
    assert verdicts(after) == ["Xid 48", ""]
    assert after.booted("two") == [Recovery(A, "Xid 48", RULE_BOOT)]


def test_an_operator_names_cards_by_index_or_uuid() -> None:
    """Entries that name no card are returned apart."""
    assert named_cards(f" 1 ,{A},,7,0x", CARDS.cards) == ((B, A), ("7", "0x"))


def test_removed_card_is_unhealthy_while_it_is_still_announced() -> None:
    """A removed card is unhealthy while it is still announced, and its earlier fault is not cured when it comes back."""
    book = health()
    book.note_xid(A, 48)

    cards = book.applied(CARDS, {A: "in MIG mode", B: "taken out of the machine"}).cards
    assert [(card.healthy, card.reason) for card in cards] == [(False, "Xid 48"), (False, "taken out of the machine")]
    assert verdicts(book) == ["Xid 48", ""]


@pytest.mark.parametrize(
    ("disable", "enable", "critical", "ignored"),
    [
        ("", "", [1, 48, 61, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 154, 999], [13, 31, 43, 45, 68, 109]),
        ("48, 63", "", [79], [13, 48, 63]),
        ("all", "", [], [48, 79, 31]),
        ("XIDs", "", [], [48, 79, 31]),
        ("48,all", "", [], [48, 79, 31]),
        ("all", "48", [48], [79, 31]),
        ("", "45", [45, 79], [13]),
        ("48", "48", [48], [13]),
        ("all", "all", [13, 48, 79], []),
        ("48", "ALL", [13, 48, 79], []),
    ],
)
def test_the_two_variables_mean_what_they_mean_to_nvidias_plugin(
    disable: str, enable: str, critical: list[int], ignored: list[int]
) -> None:
    """The one adds to what is ignored, the other overrides both; no reports are needed if no Xid is critical."""
    rules, odd = read_rules(disable, enable)

    assert [xid for xid in critical if not rules.is_critical(xid)] == []
    assert [xid for xid in ignored if rules.is_critical(xid)] == []
    assert (odd, rules.hears_nothing) == ((), not critical)


def test_entries_that_are_no_xids_are_skipped_and_named() -> None:
    """A slip in one entry does not cost the others."""
    rules, odd = read_rules(f"48,,4x, ²,{'9' * 5000}", "-1,45")

    assert (rules.ignored, rules.enabled) == (APPLICATION_XIDS | {48}, frozenset({45}))
    assert odd == ("4x", "²", "9" * 5000, "-1")


def test_a_lasting_fault_of_the_container_ends_the_plugin() -> None:
    """After minutes at the plugin's start, so that a broken driver is no crash loop; after seconds once NVML has answered."""
    fault = ContainerFault(iter([1000, 1299, 2000, 2299, 3000, 3029, 4000, 4029, 4030]).__next__)

    at_start = [fault.fails("no permission") for _ in range(2)]
    fault.works()
    at_start += [fault.fails("no permission") for _ in range(2)]
    fault.answered()
    later = [fault.fails("no permission") for _ in range(2)]
    fault.works()
    later += [fault.fails("no permission") for _ in range(2)]
    with pytest.raises(
        ContainerFaultError, match="^no permission; it has lasted 30 s, and only a new container may cure it$"
    ):
        fault.fails("no permission")

    ends = "no permission; only a new container may cure that, so this one ends if it lasts"
    assert at_start + later == [f"{ends} 300 s"] * 4 + [f"{ends} 30 s"] * 4
