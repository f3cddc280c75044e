"""Promises of gpushare.model.forecast."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.model.forecast import MOST_CLASSES, Card, Forecast, PodClass, cards_of
from gpushare.model.node import Device, lay_out
from gpushare.model.wishes import Wishes

T4 = Wishes(models=(" t4 ",))
NOT_T4 = Wishes(banned_models=(" t4 ",))
CLASSES = st.builds(
    PodClass,
    units=st.integers(0, 16),
    cards=st.integers(1, 3),
    cpu_milli=st.sampled_from((0, 1000, 4000, 9000)),
    wishes=st.sampled_from((Wishes(), T4, NOT_T4)),
)
COUNTS = st.dictionaries(CLASSES, st.integers(0, 9), min_size=1, max_size=6)
CARDS = st.lists(st.tuples(st.integers(0, 16), st.just(16), st.sampled_from(("Tesla T4", "V100"))), max_size=4)
CPU = st.one_of(st.none(), st.integers(0, 40_000))


def whole(cpu_milli: int, units: int = 10) -> Forecast:
    """The value if all pods take a card of 10 and this amount of CPU."""
    return Forecast({PodClass(units, cpu_milli=cpu_milli): 3})


def naive_fragments(counts: dict[PodClass, int], cards: list[Card], cpu: int | None) -> float:
    """Class by class, by the paper's formula."""
    weights = {one: count / one.size**0.5 for one, count in counts.items() if one.size}
    found = 0.0
    for one, weight in weights.items():
        holding = [free for free, _, model in cards if free >= one.units and one.wishes.allow_model(model)]
        fits = len(holding) >= one.cards and (cpu is None or one.cpu_milli <= cpu)
        found += weight * (sum(free for free, _, _ in cards) - (sum(holding) if fits else 0))
    return found / (sum(weights.values()) or 1)


@given(COUNTS, CARDS, CPU)
def test_fragments_are_what_the_next_pod_cannot_use(
    counts: dict[PodClass, int], cards: list[Card], cpu: int | None
) -> None:
    """In expectation over the classes, large ones for less than their number."""
    assert Forecast(counts).fragments(cards, cpu) == pytest.approx(naive_fragments(counts, cards, cpu))


@given(COUNTS, CARDS, st.integers(0, 40_000))
def test_what_is_wasted_is_part_of_what_is_free(counts: dict[PodClass, int], cards: list[Card], cpu: int) -> None:
    """The waste is not negative, not more than what is free, and the same when it is asked again."""
    found = Forecast(counts)
    free = sum(card[0] for card in cards)
    ordered = tuple(sorted(cards))

    assert 0 <= found.fragments(cards, cpu) <= free + 1e-9
    assert -1e-9 <= found.stranded(cards, cpu) <= free + 1e-9
    assert found.waste(ordered, cpu) == pytest.approx(found.fragments(cards, cpu) + 2 * found.stranded(cards, cpu))
    assert found.waste(ordered, cpu) == found.waste(ordered, cpu)
    assert found.waste(ordered, None) == found.fragments(ordered, None)


@pytest.mark.parametrize(
    ("each", "cards", "stranded"),
    [
        (4000, 3, {0: 30, 7999: 20, 8000: 10, 12_000: 0, 200_000: 0}),
        (4000, 0, {0: 0}),
        # A machine of 64 cards is taken for several smaller ones: a table has an end, and its figures do not.
        (4000, 64, {10**18: 0, 256_000: 0, 96_000: 400, 31_999: 640, 0: 640}),
        # A pod that asks for as much CPU as the table has fits there, and with any more than that.
        (254_000, 1, {253_999: 10, 254_000: 0, 10**9: 0}),
    ],
)
def test_memory_is_stranded_where_cpu_ends_first(each: int, cards: int, stranded: dict[int, float]) -> None:
    """Each pod takes a card and this CPU."""
    forecast = whole(each)
    found = {cpu: forecast.stranded([(10, 10, "T4")] * cards, cpu) for cpu in stranded}
    assert found == pytest.approx(stranded)


def test_cards_without_units_are_no_cards() -> None:
    """A card may be smaller than its unit."""
    assert whole(4000).waste(((0, 0, "T4"),), 8000) == 0
    assert whole(4000).waste((), 8000) == 0


def test_who_takes_next_to_nothing_ends() -> None:
    """A class without CPU with less memory than a step of the table takes a step."""
    tiny = Forecast({PodClass(1): 1})

    assert tiny.stranded([(1000, 1000, "A100")], 0) == pytest.approx(0)


def test_a_card_that_no_pod_may_have_is_all_stranded() -> None:
    """By the models that pods wish for."""
    expected = Forecast({PodClass(5, wishes=T4): 1})

    assert expected.stranded([(10, 10, "V100")], 8000) == 10
    assert expected.stranded([(10, 10, "T4")], 8000) == 0


def test_rare_classes_are_left_out() -> None:
    """Rare classes are left out, and so are classes that ask for no card."""
    often = {PodClass(units): 2.0 + units for units in range(2, MOST_CLASSES + 2)}
    counts = {PodClass(1): 1.0, **often, PodClass(0, cpu_milli=9): 999.0}

    assert dict(Forecast(counts).counts) == often
    assert dict(Forecast({PodClass(1): 1.0, PodClass(4): 0.0}).counts) == {PodClass(1): 1.0}


def test_an_unhealthy_card_is_none() -> None:
    """Equal cards differ in nothing else that matters here."""
    node = lay_out("n", (Device(0, 16, 2, model="B"), Device(1, 16, model="A"), Device(2, 16, healthy=False)), [])

    assert cards_of(node) == ((14, 16, "B"), (16, 16, "A"))


@pytest.mark.parametrize(("cpu", "fragments"), [(999, 12), (1000, 8), (3999, 8), (4000, 2), (None, 2)])
def test_a_pod_fits_with_its_cpu_or_more(cpu: int | None, fragments: float) -> None:
    """Both classes take all that is free of two cards and nothing of the third; the frequent one needs more CPU."""
    expected = Forecast({PodClass(5, 2, 1000): 2, PodClass(5, 2, 4000): 3})

    assert expected.fragments([(5, 10, "T4"), (5, 10, "T4"), (2, 10, "T4")], cpu) == pytest.approx(fragments)


def test_what_is_stranded_is_the_mean_over_what_fits() -> None:
    """Each class counts by its number: after the pod of 12 units 8 are left, after that of 15 units 5."""
    expected = Forecast(
        {PodClass(12, cpu_milli=1500): 1, PodClass(12, cpu_milli=2000): 2, PodClass(15, cpu_milli=2000): 1}
    )

    assert expected.stranded([(20, 20, "T4")], 2000) == pytest.approx((3 * 8 + 1 * 5) / 4)
