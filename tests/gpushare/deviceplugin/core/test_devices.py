"""Promises of gpushare.deviceplugin.core.devices."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.announced_cards import PhysicalCard, describe_cards
from gpushare.deviceplugin.core.devices import (
    MOST_IDS_OF_A_POD,
    DeviceIds,
    check_ids,
    check_ids_of_pod,
    device_list,
    encoded_size,
    short_names,
    spare_slots,
)
from gpushare.deviceplugin.proto import deviceplugin_pb2 as pb
from gpushare.errors import TooManyIdsError
from gpushare.model.cards import CardFacts, NodeCards
from gpushare.model.quantity import MemoryUnit

GIB, MIB = MemoryUnit(1024), MemoryUnit(1)
T4 = "Tesla T4"


def physical(*names: str, mib: int = 15079) -> list[PhysicalCard]:
    """Cards by the letter of their UUID, in NVML's order."""
    return [PhysicalCard(i, f"GPU-{name * 8}-0000-0000-0000-000000000000", T4, mib) for i, name in enumerate(names)]


def facts(count: int, mib: int, unit: MemoryUnit, slots: int = 0) -> NodeCards:
    """Equal cards."""
    cards = [PhysicalCard(i, f"GPU-{uuid.UUID(int=(i + 1) << 96)}", "card", mib) for i in range(count)]
    return describe_cards(cards, unit, "boot", slots=slots)


def indices(cards: NodeCards) -> dict[str, int]:
    """Index by the letter of the UUID."""
    return {card.uuid[4]: card.index for card in cards.cards}


def test_a_mixed_node_has_each_cards_own_units() -> None:
    """Two T4 and a 1080 Ti are 14, 14 and 10 GiB; the original announces the first card's size for all (defect D05)."""
    a, b = physical("a", "b")
    c = PhysicalCard(2, "GPU-c", "GeForce GTX 1080 Ti", 11178, numa=1)
    expected = [CardFacts(n, one.uuid, T4, 15079, 14) for n, one in enumerate((a, b))]
    expected.append(CardFacts(2, "GPU-c", "GeForce GTX 1080 Ti", 11178, 10, numa=1))

    assert describe_cards([a, b, c], GIB, "boot") == NodeCards(1, "ids", "GiB", "boot", tuple(expected))


INDICES: dict[str, tuple[str | None, str, set[int], dict[str, int]]] = {
    "a new node, in NVML's order": (None, "ba", set(), {"b": 0, "a": 1}),
    "a card failed to come up at boot": ("abc", "bc", set(), {"b": 1, "c": 2}),
    "another order of NVML": ("abc", "cab", set(), {"a": 0, "b": 1, "c": 2}),
    "a pod names the card that is gone": ("ab", "bn", {0}, {"a": 0, "b": 1, "n": 2}),
    "no pod names the card that is gone": ("ab", "bn", set(), {"b": 1, "n": 0}),
    "a pod names a card that was gone with all others": ("", "ab", {0}, {"a": 1, "b": 2}),
    "pods of the Go plugin, which gave NVML's": (None, "ab", {0, 1}, {"a": 0, "b": 1}),
}


@pytest.mark.parametrize(("known", "now", "in_use", "expected"), INDICES.values(), ids=INDICES.keys())
def test_a_card_keeps_its_index(known: str | None, now: str, in_use: set[int], expected: dict[str, int]) -> None:
    """A card has the index of before, and a new one none that a pod names: that pod's card may come back."""
    before = None if known is None else describe_cards(physical(*known), GIB, "boot").cards

    assert indices(describe_cards(physical(*now), GIB, "boot", before, frozenset(in_use))) == expected


@given(st.lists(st.uuids(), unique=True, min_size=1, max_size=6), st.integers(0, 9))
def test_ids_are_unique_short_and_know_their_card(uuids: list[uuid.UUID], units: int) -> None:
    """Each id names one card; at most 63 characters, as the API's comment asks."""
    cards = [CardFacts(i, f"GPU-{one}", "m", units, units) for i, one in enumerate(uuids)]
    ids = DeviceIds(cards)
    announced = [device_id for card in cards for device_id in ids.of_card(card)]

    assert len(set(announced)) == len(announced) == units * len(cards)
    assert all(len(device_id) <= 63 for device_id in announced)
    for card in cards:
        assert all(ids.card_of(device_id) == card for device_id in ids.of_card(card))


def test_ids_name_their_card_in_any_order_of_the_cards() -> None:
    """A restart in which NVML orders differently announces the same ids; the Go plugin's ids, or another card's, are not ours."""
    one, two = facts(2, 4096, GIB).cards
    foreign = ["", "gs-", "00000001-0", "gs-zzzzzzzz-0", "GPU-6901b735-44a2-5d68-a038-3e86bf344836-_-0", "x"]

    assert DeviceIds([one, two]).of_card(two) == DeviceIds([two, one]).of_card(two)
    assert [DeviceIds([one, two]).card_of(device_id) for device_id in foreign] == [None] * 6


def test_uuids_that_begin_alike_get_longer_names() -> None:
    """Never two cards behind one id."""
    alike = ["GPU-00000000-0000-0000-0000-000000000001", "GPU-00000000-0000-0000-0000-000000000002", "MIG-1"]

    assert len(set(short_names(alike).values())) == 3
    two = [f"GPU-6901B735-44a2-5d6{number}-a038-3e86bf344836" for number in (8, 9)]
    assert list(short_names(two).values()) == ["6901b73544a25d68", "6901b73544a25d69"]


def test_ids_of_an_unhealthy_card_are_unhealthy_unless_kept() -> None:
    """All of them change together, except for those that pods keep; an id that the card has not adds nothing."""
    cards = [CardFacts(0, "GPU-a", "m", 2048, 2), CardFacts(1, "GPU-b", "m", 2048, 2, healthy=False)]

    for kept, last in (((), "Unhealthy"), (("gs-b-1", "gs-b-7", "gs-a-0"), "Healthy")):
        health = [each for _, each in device_list(cards, frozenset(kept))]
        assert health == ["Healthy", "Healthy", "Unhealthy", last]


def test_card_in_slots_mode_has_mebibytes_and_an_id_per_slot() -> None:
    """The amount is exact, and the ids stay few and short."""
    cards = describe_cards(physical("a", mib=143771), MIB, "boot", slots=3)

    assert (cards.mode, cards.unit, cards.cards[0].units, cards.cards[0].slots) == ("slots", "MiB", 143771, 3)
    assert device_list(cards.cards) == [(f"gs-aaaaaaaa-{number}", "Healthy") for number in range(3)]
    assert DeviceIds(cards.cards).card_of("gs-aaaaaaaa-2") == cards.cards[0]
    assert DeviceIds(cards.cards).cards_of(["gs-aaaaaaaa-2", "gs-zzzzzzzz-0", "x"]) == {"gs-aaaaaaaa-2": 0}


@given(st.integers(1, 8), st.integers(0, 2000))
def test_spare_slots_are_enough_and_few_and_no_cards_ids(count: int, units: int) -> None:
    """In ids mode each container with a unit finds one; no id of theirs is a memory id, for a kubelet mixes them up."""
    cards = [CardFacts(i, f"GPU-{uuid.UUID(int=(i + 1) << 96)}", "m", units, units) for i in range(count)]
    spare = [device_id for device_id, _ in spare_slots(cards)]

    assert len(set(spare)) == len(spare) == min(units * count, 512)
    assert not set(spare) & {device_id for device_id, _ in device_list(cards)}
    assert all(DeviceIds(cards).card_of(device_id) is None for device_id in spare)


@pytest.mark.parametrize("slots", [0, 2])
def test_card_removed_under_a_pod_keeps_its_amount(slots: int) -> None:
    """A kubelet that restarts with less than its running pods ask for would refuse these; the scheduler's sum would too.

    The amount is in the present unit and mode. A card in an annotation of a later version is not known.
    """
    known = describe_cards(physical("a", "b"), GIB, "boot")
    kept = describe_cards(physical("b"), MIB, "boot", known.cards, frozenset({0, 1}), slots=slots).cards

    assert [(card.index, card.healthy, card.units) for card in kept] == [(0, False, 15079), (1, True, 15079)]
    assert (kept[0].reason, kept[0].slots) == ("taken out of the machine", slots)
    assert indices(describe_cards(physical("b"), MIB, "boot", known.cards, frozenset({1}), slots=slots)) == {"b": 1}
    unknown = [CardFacts(0, "GPU-a", "", 0, 0)]
    assert indices(describe_cards(physical("b"), GIB, "boot", unknown, frozenset({0}))) == {"b": 1}


# The memory of an H200 by its driver.
H200 = 143_771


@given(st.integers(1, 3), st.sampled_from([0, 1, 9, 10, 11, 99, 100, 101, 400, 1000, 1001]))
def test_the_size_of_an_unhealthy_node_is_the_encoded_one(count: int, units: int) -> None:
    """To the byte, against the real encoder."""
    cards = [
        CardFacts(i, f"GPU-{uuid.UUID(int=(i + 1) << 96)}", "m", units, units, healthy=False) for i in range(count)
    ]
    message = pb.ListAndWatchResponse(devices=[pb.Device(ID=one, health=health) for one, health in device_list(cards)])

    assert encoded_size(cards) == message.ByteSize()


T4X2 = facts(2, 15360, MIB)
TOO_MANY: dict[str, tuple[NodeCards, str, int | None, str]] = {
    "16 MB, and 4 MiB is the limit": (facts(8, 81920, MIB), "v1.35.1", None, " 655360 ids, .*use --memory-unit 8MiB, or "),
    "an operator's limit, for old kubelets too": (facts(1, 15360, MIB), "v1.28.2", 100, "more than 100 "),
    "eight H200": (facts(8, H200, MIB), "v1.30.0", None, "use --memory-unit 16MiB, or --mode slots "),
    "a new kubelet": (facts(8, H200, MIB), "v1.36.3", None, "use --memory-unit 512MiB, or --mode slots "),
    "a larger unit": (
        facts(8, H200, MemoryUnit.parse("256MiB")), "v1.36.3", None, "use --memory-unit 512MiB, or --mode slots "
    ),
    "no unit leaves each card one": (
        facts(8, 2048, GIB), "v1.30.0", 4, r"; use --mode slots \(exact MiB\), or --max-ids 16 "
    ),
    "one unit a card": (facts(8, 2048, GIB), "v1.30.0", 8, "use --memory-unit 2048MiB, or --mode slots "),
    "one card": (facts(1, 15079, MIB), "v1.30.0", 14, "use --memory-unit GiB, or --mode slots "),
    "slots": (
        facts(8, H200, MIB, 600), "v1.36.3", None, "^--slots 600 makes 4800 ids, .* use --slots 500, or --max-ids 4800"
    ),
    "slots of one card": (
        facts(1, H200, MIB, 5000), "v1.36.3", None, "^--slots 5000 makes 5000 ids, .* use --slots 4000, or --max-ids 5000"
    ),
    "slots beyond an operator's limit": (
        facts(8, H200, MIB, 2), "v1.36.3", 4, "^--slots 2 makes 16 ids, .* use --slots 1, or"
    ),
    "slots beyond 4 MiB": (
        facts(8, H200, MIB, 50_000), "v1.30.0", None,
        r"^--slots 50000 makes 400000 ids, \d+ bytes; a kubelet takes 4194304; use --slots 1\d{4}$",
    ),
    # From 1.36 on a kubelet stands still over tens of thousands.
    **{
        f"a kubelet of {version[:20]!r}": (
            T4X2, version, None,
            f"^--memory-unit MiB makes 30720 ids, more than 4000 .kubelet {version or 'unknown'}.; .* or --max-ids 30720 if",
        )
        for version in ("v1.36.3", "v1.40.0-alpha.1", "v2.0.0", "", "nonsense", f"v{'9' * 5000}.1")
    },
}  # fmt: skip


@pytest.mark.parametrize(("cards", "version", "limit", "says"), TOO_MANY.values(), ids=TOO_MANY.keys())
def test_a_list_that_a_kubelet_would_not_take_is_refused(
    cards: NodeCards, version: str, limit: int | None, says: str
) -> None:
    """The refusal names what would fit: a unit, slots, or more ids."""
    with pytest.raises(TooManyIdsError, match=says):
        check_ids(cards, version, limit)


@pytest.mark.parametrize(
    ("cards", "version", "limit"),
    [
        (facts(8, 81920, MemoryUnit.parse("8MiB")), "v1.35.1", None),
        (T4X2, "v1.28.2", None),
        (T4X2, "v1.36.3", 30720),
        (facts(2, 15360, MemoryUnit.parse("8MiB")), "v1.36.3", None),
        (facts(8, H200, MemoryUnit.parse("16MiB")), "v1.30.0", None),
        (facts(8, H200, MemoryUnit.parse("512MiB")), "v1.36.3", None),
        (facts(8, H200, MIB, slots=500), "v1.36.3", None),
        *((facts(8, H200, GIB), version, None) for version in ("v1.19.0", "v1.30.0", "v1.36.3", "")),
    ],
)
def test_a_list_that_a_kubelet_takes_is_served(cards: NodeCards, version: str, limit: int | None) -> None:
    """The number that a refusal named works, and so do 1,120 ids everywhere."""
    check_ids(cards, version, limit)


@pytest.mark.promise("DP-023")
def test_pod_with_an_unwritable_status_is_refused() -> None:
    """A new kubelet writes each id into it; an old one does not."""
    cards = facts(1, 81920, MIB)
    with pytest.raises(TooManyIdsError, match="each into the pod's status.* --memory-unit 32MiB, or --mode slots"):
        check_ids_of_pod(MOST_IDS_OF_A_POD + 1, cards, "v1.36.3")

    with pytest.raises(TooManyIdsError, match="kubelet unknown writes each"):
        check_ids_of_pod(MOST_IDS_OF_A_POD + 1, cards, "")

    check_ids_of_pod(MOST_IDS_OF_A_POD, cards, "v1.36.3")
    check_ids_of_pod(81920, cards, "v1.35.9")
    check_ids_of_pod(81920, facts(1, 81920, MIB, slots=48), "v1.36.3")
