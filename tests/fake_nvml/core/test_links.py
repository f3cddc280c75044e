"""How cards reach each other, as facts of the records."""

from __future__ import annotations

import pytest

from fake_nvml.core.layout import Card, StateFile
from fake_nvml.core.links import capability, common_ancestor, other_end, peer_status
from fake_nvml.core.returns import NVSWITCH_BUS, Code, ReturnCodeError


def node(*cards: Card) -> StateFile:
    content = StateFile()
    for slot, card in enumerate(cards):
        content.cards[slot] = card
    return content


def card(number: int, **fields: int) -> Card:
    return Card(uuid=b"GPU-%d" % number, pci_bus=number, pci_root=number, **fields)


def buses(content: StateFile, slot: int) -> list[int | None]:
    """The bus at the other end of each link."""
    ends = (other_end(content, slot, link) for link in range(content.cards[slot].nvlinks))
    return [None if end is None else end.pci_bus for end in ends]


def test_links_go_round_the_other_cards_of_the_group() -> None:
    """A card that is missing, or of another model, is at no end; the last slots have a group of their own."""
    linked = {"nvlinks": 4, "nvlink_peers": 3, "pci_device_id": 9}
    content = node(card(1, **linked), card(2, **linked), card(3, pci_device_id=8), card(4, **linked), Card())
    content.cards[63] = card(64, **linked)

    assert [buses(content, slot) for slot in (0, 1, 3, 63)] == [
        [2, None, 2, None],
        [1, None, 1, None],
        [None] * 4,
        [None] * 4,
    ]
    assert buses(node(card(1, nvlinks=2)), 0) == [None, None]
    assert [peer_status(content, 0, other, 2) for other in (1, 2, 3)] == [0, 5, 5]


def test_links_go_round_the_switches() -> None:
    """All cards with switches are linked, and no card without."""
    content = node(card(1, nvlinks=3, nvswitches=2), card(2, nvlinks=3, nvswitches=2), card(3, nvlinks=3))

    assert buses(content, 0) == [NVSWITCH_BUS, NVSWITCH_BUS + 1, NVSWITCH_BUS]
    assert [peer_status(content, 0, other, 3) for other in (1, 2)] == [0, 5]


def test_cards_without_ecc_are_no_peers_over_pcie() -> None:
    """It takes two that are."""
    content = node(card(1, ecc_supported=1), card(2, ecc_supported=1), card(3))

    assert [peer_status(content, 0, other, 0) for other in (1, 2)] == [0, 1]


def test_cards_meet_at_root_socket_or_system() -> None:
    """Two cards whose sockets are not known may be at the same one."""
    content = node(card(1, numa=0), card(2, numa=0), card(3, numa=1), card(4, numa=-1), card(5, numa=-1))
    content.cards[1].pci_root = 1

    assert [common_ancestor(content, 0, other) for other in range(4)] == [0, 10, 50, 50]
    content.cards[1].pci_root = 2
    assert (common_ancestor(content, 0, 1), common_ancestor(content, 3, 4)) == (40, 30)


@pytest.mark.parametrize(("major", "has"), [(7, [1, 1, 1, 1, 0, 0]), (8, [1, 1, 1, 1, 1, 0]), (9, [1] * 6)])
def test_links_can_do_more_with_each_generation(major: int, has: list[int]) -> None:
    """SLI from Ampere on, and the last from Hopper on."""
    assert [capability(card(1, compute_major=major), asked) for asked in range(6)] == has


def test_numbers_that_nvml_lacks_are_invalid() -> None:
    """A link, a capability, a way between cards, and a card's way to itself."""
    content = node(card(1, nvlinks=1), card(2))
    for wrong in (
        lambda: other_end(content, 0, 1),
        lambda: capability(content.cards[0], 6),
        lambda: peer_status(content, 0, 1, 5),
        lambda: peer_status(content, 0, 0, 0),
    ):
        with pytest.raises(ReturnCodeError) as raised:
            wrong()
        assert raised.value.code == Code.INVALID_ARGUMENT
