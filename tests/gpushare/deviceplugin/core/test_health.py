"""Promises of gpushare.deviceplugin.core.health: which cards are unhealthy, and the rules by which they recover."""

from __future__ import annotations

import msgspec
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


def health(boot: str = "one") -> CardHealth:
    """The book of a node with two cards."""
    book = CardHealth(XidRules(), COOL_DOWN)
    book.booted(boot)
    return book


def verdicts(book: CardHealth) -> list[str]:
    """Why each card is unhealthy; "" for one that is healthy."""
    cards = book.applied(CARDS).cards
    assert all(card.healthy == (not card.reason) for card in cards)
    return [card.reason for card in cards]


def test_two_unhealthy_cards_are_two() -> None:
    """Each has its own reason; an application's Xid is none."""
    book = health()
    assert not book.note_xid(A, 31)
    assert verdicts(book) == ["", ""]
    book.note_xid(A, 48)
    book.note_xid(B, 79)

    assert (verdicts(book), book.unhealthy) == (["Xid 48", "Xid 79"], (A, B))


def test_a_mild_xid_never_hides_a_fatal_one() -> None:
    """A card keeps its first fatal Xid as the reason. Later Xids, also fatal ones, and its loss are no news."""
    book = health()
    book.note_xid(A, 48)

    assert [book.note_xid(A, xid) for xid in (31, 43, 48, 79)] == [False] * 4
    book.lose(A)
    assert verdicts(book) == ["Xid 48", ""]


def test_an_xid_of_a_lost_card_is_the_graver_fault() -> None:
    """A card that was merely lost recovers more easily."""
    book = health()

    book.lose(A)
    assert book.note_xid(A, 79)
    assert verdicts(book) == ["Xid 79", ""]


def test_unread_fault_makes_unhealthy_unless_health_is_off() -> None:
    """A recovery action that appeared unseen counts as a fault."""
    book, deaf = health(), CardHealth(read_rules("all", "")[0], COOL_DOWN)

    book.miss(A)
    deaf.miss(A)
    assert (verdicts(book), verdicts(deaf)) == (["recovery action", ""], ["", ""])


def test_a_new_boot_recovers_all() -> None:
    """Rule (a)."""
    book = health()
    book.note_xid(A, 48)
    book.lose(B)

    assert book.booted("one") == []
    assert book.booted("") == []
    assert book.booted("two") == [Recovery(A, "Xid 48", RULE_BOOT), Recovery(B, "lost", RULE_BOOT)]
    assert verdicts(book) == ["", ""]
    assert book.applied(CARDS).boot == "two"


def test_first_boot_report_of_a_node_is_no_reboot() -> None:
    """An unknown boot may be this one."""
    book = health(boot="")
    book.note_xid(A, 48)

    assert book.applied(CARDS).boot == ""
    assert book.booted("one") == []
    assert verdicts(book) == ["Xid 48", ""]


@pytest.mark.parametrize("boots", [("one", "two"), ("two",)], ids=["a restart", "a reboot while no plugin ran"])
def test_what_the_node_says_is_believed_after_a_restart(boots: tuple[str, ...]) -> None:
    """Unhealthy stays unhealthy in the boot of the annotation and no longer; a fault that will be seen again is forgotten."""
    before = health()
    before.note_xid(A, 48)
    before.driver_is_away = True
    after = CardHealth(XidRules(), COOL_DOWN)
    after.restore(before.applied(CARDS))

    assert [after.booted(boot) for boot in boots[:-1]] == [[]] * (len(boots) - 1)
    assert verdicts(after) == ["Xid 48", ""]
    assert after.booted("two") == [Recovery(A, "Xid 48", RULE_BOOT)]


@pytest.mark.parametrize("reason", ["Xid 48", "lost", "recovery action", "who knows"])
def test_any_lasting_reason_on_the_node_lasts(reason: str) -> None:
    """One of a later version of ours too."""
    card = msgspec.structs.replace(CARDS.cards[0], healthy=False, reason=reason)
    book = CardHealth(XidRules(), COOL_DOWN)
    book.restore(msgspec.structs.replace(CARDS, cards=(card,)))

    assert verdicts(book) == [reason, ""]


def test_card_recovers_after_a_cool_down_without_driver_advice() -> None:
    """Rule (b)."""
    book = health()
    book.note_xid(A, 48)

    assert book.observe(A, answers=True, action=0, now=100) == []
    assert book.observe(A, answers=True, action=0, now=159.9) == []
    assert book.observe(A, answers=True, action=0, now=160) == [Recovery(A, "Xid 48", RULE_COOL_DOWN)]
    assert book.observe(A, answers=True, action=0, now=161) == []
    assert verdicts(book) == ["", ""]


@pytest.mark.parametrize("action", [1, 2, 3, 4, None])
def test_card_with_advice_or_a_mute_driver_stays_unhealthy(action: int | None) -> None:
    """After most faults a card answers questions as before."""
    book = health()
    book.note_xid(A, 48)
    for now in range(0, 1000, 10):
        assert book.observe(A, answers=True, action=action, now=now) == []

    assert verdicts(book) == ["Xid 48", ""]


@pytest.mark.parametrize("disturb", ["silence", "action", "xid", "same xid"])
def test_a_disturbance_restarts_the_cool_down(disturb: str) -> None:
    """Silence, an advice and any critical Xid all do."""
    book = health()
    book.note_xid(A, 48)
    book.observe(A, answers=True, action=0, now=0)
    if disturb == "silence":
        book.observe(A, answers=False, action=None, now=50)
    elif disturb == "action":
        book.observe(A, answers=True, action=1, now=50)
    else:
        book.note_xid(A, 48 if disturb == "same xid" else 94)

    assert book.observe(A, answers=True, action=0, now=60) == []
    assert len(book.observe(A, answers=True, action=0, now=120)) == 1


@pytest.mark.parametrize(
    ("action", "recovers"), [(None, True), (1, False)], ids=["an old driver", "a reset is asked for"]
)
def test_lost_card_recovers_by_answering_alone(action: int | None, recovers: bool) -> None:
    """There was no Xid, so answering is enough, unless the driver asks for a reset."""
    book = health()
    book.lose(A)
    book.observe(A, answers=True, action=action, now=0)

    assert book.observe(A, answers=True, action=action, now=60) == [Recovery(A, "lost", RULE_ANSWERS)] * recovers


def test_an_operators_annotation_heals_the_named_cards() -> None:
    """Rule (c)."""
    book = health()
    book.note_xid(A, 48)
    book.note_xid(B, 48)

    assert book.accept([A, "GPU-unknown"]) == [Recovery(A, "Xid 48", RULE_OPERATOR)]
    assert verdicts(book) == ["", "Xid 48"]


def test_an_operator_names_cards_by_index_or_uuid() -> None:
    """Entries that name no card are returned apart."""
    assert named_cards(f" 1 ,{A},,7,0x", CARDS.cards) == ((B, A), ("7", "0x"))


def test_declared_cards_are_unhealthy_while_they_are_declared() -> None:
    """The ConfigMap names indices."""
    book = health()

    book.declared = frozenset({1, 9})
    assert verdicts(book) == ["", "ConfigMap"]
    book.declared = frozenset()
    assert verdicts(book) == ["", ""]


def test_without_a_driver_all_cards_are_unhealthy() -> None:
    """All cards are unhealthy until the driver is back, and a card that was unhealthy before stays unhealthy."""
    book = health()
    book.note_xid(A, 48)

    book.driver_is_away = True
    assert verdicts(book) == ["Xid 48", "no driver"]
    book.driver_is_away = False
    assert verdicts(book) == ["Xid 48", ""]


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
        (
            "", "",
            [1, 48, 61, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 154, 999],
            [13, 31, 43, 45, 68, 109],
        ),
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
)  # fmt: skip
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
