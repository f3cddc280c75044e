"""Promises of gpushare.model.cards: annotations of other versions, and of sizes that no node has."""

from __future__ import annotations

import json

import msgspec
import pytest

from gpushare.bounds import CARDS_OF_A_NODE, CARDS_TEXT
from gpushare.model.cards import CardFacts, NodeCards, encode_cards, read_cards
from gpushare.model.node import Device, NodeInfo, devices_of, lay_out, parse_unhealthy, read_devices
from gpushare.model.placement import Question, reason_against
from gpushare.model.pod import Request
from gpushare.wire import REASON_NEWER_CARDS
from tests.gpushare.model.test_node import MIXED, gpus, node

LATER = {
    "v": 2,
    "mode": "ids",
    "unit": "GiB",
    "boot": "boot",
    "cards": [
        {"index": 1, "uuid": "GPU-b", "model": "Tesla T4", "mib": 15079, "units": 14},
        {
            "index": 0,
            "uuid": "GPU-a",
            "units": 14,
            "healthy": False,
            "reason": "Xid 79",
            "model": ["T4"],
            "mib": "15 GiB",
        },
    ],
}


def laid(annotation: str) -> NodeInfo:
    """A node of two cards without pods, as the book has it."""
    devices, published = read_devices(node(gpus("28", "2"), annotation))
    return lay_out("n", devices, [], published)


def test_no_pod_by_a_later_annotation() -> None:
    """An unhealthy card is not taken for healthy because the annotation is of a later version: no pod gets a card of the node."""
    info = laid(json.dumps(LATER))

    assert [device.free for device in info.devices] == [0, 0]
    assert [reason_against(info, Question(Request(units))) for units in (1, 99)] == [REASON_NEWER_CARDS] * 2


@pytest.mark.parametrize(
    ("capacity", "cards"),
    [
        (gpus("28", "2"), (Device(0, 0, uuid="GPU-a", healthy=False), Device(1, 0, uuid="GPU-b", healthy=False))),
        (gpus("28", "1"), (Device(0, 28, healthy=False),)),
    ],
)
def test_refused_cards_are_shown_if_the_count_is_theirs(capacity: dict[str, object], cards: tuple[Device, ...]) -> None:
    """The cards of a later version keep their UUIDs, all of them unhealthy; with another count the node shows its average."""
    devices, published = read_devices(node(capacity, json.dumps(LATER)))
    assert (devices, published.refusal) == (cards, REASON_NEWER_CARDS)


def test_indices_stay_readable_in_any_version() -> None:
    """The indices and the UUIDs are read in any version."""
    described = read_cards(json.dumps(LATER))

    facts = CardFacts(1, "GPU-b", "", 0, 0), CardFacts(0, "GPU-a", "", 0, 0)
    assert described == (NodeCards(2, "", "", "", facts), REASON_NEWER_CARDS)


def test_a_later_version_with_more_fields_is_read() -> None:
    """The fields of a later version are taken if they are what they were, so a rollback knows the unit of the pods."""
    later = {**json.loads(encode_cards(MIXED)), "v": 2, "more": 1}

    assert read_cards(json.dumps(later)) == (msgspec.structs.replace(MIXED, v=2), REASON_NEWER_CARDS)


@pytest.mark.parametrize(
    "cards",
    [
        {},
        [{"index": 0}],
        [{"index": 0, "uuid": "a"}, {"index": 0, "uuid": "b"}],
        [{"index": -1, "uuid": "a"}],
        [{"index": at, "uuid": str(at)} for at in range(129)],
    ],
)
def test_a_later_version_is_always_refused(cards: object) -> None:
    """A node with a later version shows its average cards if the indices make no sense, and no pod gets one of them."""
    text = json.dumps({"v": 2, "cards": cards})

    assert read_cards(text) == (None, REASON_NEWER_CARDS)
    assert devices_of(node(gpus("28", "2"), text)) == (Device(0, 14, healthy=False), Device(1, 14, healthy=False))


@pytest.mark.parametrize("annotation", [None, encode_cards(MIXED)])
def test_a_forged_count_makes_no_cards(annotation: str | None) -> None:
    """Three million cards are none: the numbers of a node never size our memory. The bound itself is taken."""
    devices, (refusal, *_) = read_devices(node(gpus("3000000", "3000000"), annotation))

    assert devices == ()
    assert refusal == "the number of GPUs of a node is limited to 128 GPUs"
    assert len(devices_of(node(gpus("1280", "128")))) == 128


@pytest.mark.parametrize(
    "text",
    [
        encode_cards(NodeCards(1, "ids", "GiB", "x" * 65536, ())),
        encode_cards(NodeCards(1, "ids", "GiB", "", tuple(CardFacts(at, str(at), "", 1, 1) for at in range(129)))),
    ],
)
def test_an_annotation_too_large_is_refused(text: str) -> None:
    """An annotation that is too large is not replaced by an average: nothing is known of the health of the cards."""
    described = read_cards(text)

    assert described.cards is None
    assert described.refusal in (CARDS_TEXT.refusal, CARDS_OF_A_NODE.refusal)
    assert not any(device.healthy for device in devices_of(node(gpus("28", "2"), text)))


def card(**changes: object) -> str:
    """An annotation of one card of 28 units."""
    facts = {"index": 0, "uuid": "GPU-a", "model": "Tesla T4", "mib": 30000, "units": 28} | changes
    return json.dumps({"v": 1, "mode": "ids", "unit": "GiB", "boot": "", "cards": [facts]})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"v":0,"mode":"ids","unit":"GiB","boot":"","cards":[]}',
        '{"v":1}',
        encode_cards(NodeCards(1, "ids", "GiB", "", (CardFacts(0, "a", "", 1, 1), CardFacts(0, "b", "", 1, 1)))),
        *(
            encode_cards(NodeCards(1, mode, "MiB", "", (CardFacts(0, "GPU-a", "A", 8, 8, slots=slots),)))
            for mode, slots in (("slots", 0), ("slots", -1), ("ids", -1), ("other", 2))
        ),
        card(mib=-1),
        card(mib=10**30),
        card(index=2**63),
        card(numa=-1),
        card(units=-1),
        card(slots=2**63),
        card(uuid="a" * 129),
        card(model="T4 " * 60),
        '{"v":1,"x":' + "[" * 60_000,
    ],
)
def test_impossible_cards_are_no_annotation(text: str) -> None:
    """Broken by hand, an index twice, a mode of no version, numbers and texts that no card has, and nesting without an end."""
    assert read_cards(text) == (None, None)
    assert devices_of(node(gpus("28", "2"), text)) == (Device(0, 14), Device(1, 14))


@pytest.mark.parametrize("changes", [{"mib": 2**63 - 1}, {"uuid": "a" * 128}, {"model": "T" * 128}, {"numa": 0}])
def test_a_card_at_its_bounds_is_read(changes: dict[str, object]) -> None:
    """The largest number and the longest text are taken."""
    assert read_cards(card(**changes)).cards is not None


def test_a_list_of_unhealthy_cards_is_bounded() -> None:
    """The cards at its beginning stay unhealthy, and the caller learns that the rest is not read."""
    indices, odd = parse_unhealthy("0,2," + ",".join(map(str, range(100_000))))

    assert {0, 2} <= indices
    assert len(indices) < 3072
    assert odd == ("a list of GPUs is limited to 6144 characters",)
