"""How cards reach each other: by NVLink, directly or through switches, and below which part of the PCIe tree. Pure."""

from __future__ import annotations

from fake_nvml.core.layout import CARDS, Card, StateFile
from fake_nvml.core.returns import (
    NVLINK_CAPABILITY_SLI,
    NVLINK_CAPABILITY_VALID,
    NVSWITCH_BUS,
    NVSWITCH_ID,
    P2P_ATOMICS,
    P2P_CHIPSET_NOT_SUPPORTED,
    P2P_LAST,
    P2P_NOT_SUPPORTED,
    P2P_NVLINK,
    P2P_OK,
    TOPOLOGY_HOSTBRIDGE,
    TOPOLOGY_INTERNAL,
    TOPOLOGY_NODE,
    TOPOLOGY_SINGLE,
    TOPOLOGY_SYSTEM,
    Code,
    ReturnCodeError,
)


def other_end(content: StateFile, slot: int, link: int) -> Card | None:
    """The card, or the switch as one, at the other end of a link; None if there is none.

    Raises INVALID_ARGUMENT for a link that the card does not have.
    """
    card: Card = content.cards[slot]
    if link >= card.nvlinks:
        raise ReturnCodeError(Code.INVALID_ARGUMENT)
    if card.nvswitches:
        return Card(pci_bus=NVSWITCH_BUS + link % card.nvswitches, pci_device_id=NVSWITCH_ID)
    first = slot - slot % max(card.nvlink_peers, 1)
    # A card is linked to all of its group but itself.
    group = [one for one in range(first, first + card.nvlink_peers) if one != slot]
    peer = group[link % len(group)] if group else CARDS
    there = peer < CARDS and content.cards[peer].uuid and content.cards[peer].pci_device_id == card.pci_device_id
    return content.cards[peer] if there else None


def capability(card: Card, asked: int) -> bool:
    """Whether links of a card have one of NVML's capabilities: as captured of V100, A100 and H100."""
    if asked > NVLINK_CAPABILITY_VALID:
        raise ReturnCodeError(Code.INVALID_ARGUMENT)
    since = {NVLINK_CAPABILITY_SLI: 8, NVLINK_CAPABILITY_VALID: 9}
    return bool(card.compute_major >= since.get(asked, 0))


def common_ancestor(content: StateFile, one: int, other: int) -> int:
    """NVML's level of the PCIe tree at which two cards meet."""
    first, second = content.cards[one], content.cards[other]
    if one == other:
        return TOPOLOGY_INTERNAL
    if (first.pci_domain, first.pci_root) == (second.pci_domain, second.pci_root):
        return TOPOLOGY_SINGLE
    if first.numa == second.numa:
        return TOPOLOGY_HOSTBRIDGE if first.numa < 0 else TOPOLOGY_NODE
    return TOPOLOGY_SYSTEM


def peer_status(content: StateFile, one: int, other: int, index: int) -> int:
    """Whether two cards reach each other's memory in one of NVML's ways. Cards for games do not over PCIe."""
    if index > P2P_LAST or one == other:
        raise ReturnCodeError(Code.INVALID_ARGUMENT)
    first, second = content.cards[one], content.cards[other]
    if index in (P2P_NVLINK, P2P_ATOMICS):
        return P2P_OK if _are_linked(content, one, other) else P2P_NOT_SUPPORTED
    return P2P_OK if first.ecc_supported and second.ecc_supported else P2P_CHIPSET_NOT_SUPPORTED


def _are_linked(content: StateFile, one: int, other: int) -> bool:
    first, second = content.cards[one], content.cards[other]
    if first.nvswitches:
        return bool(second.nvswitches)
    ends = (other_end(content, one, link) for link in range(first.nvlinks))
    return any(end is not None and end.uuid == second.uuid for end in ends)
