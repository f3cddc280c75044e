"""How many ids a kubelet takes, and which unit would fit instead. Pure.

Four limits, none of which a kubelet or an API server explains:

* 4 MiB in one message: past it the kubelet drops the list, and the node shows nothing.
* From 1.36 on the kubelet looks each new id up in the ids of all containers, under its lock: 4,000 ids take about a
  second, tens of thousands minutes, in which the node stands still.
* From 1.36 on the kubelet writes each id of a container into the pod's status (``allocatedResourcesStatus``), which the
  API server and etcd take up to a size; beyond that the state of the pod is never published.
* An id has at most 63 characters (see ``devices``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.core.devices import UNHEALTHY, DeviceIds, id_count
from gpushare.errors import TooManyIdsError
from gpushare.model.cards import MODE_IDS, MODE_SLOTS, CardFacts, NodeCards
from gpushare.model.quantity import MemoryUnit

# The first kubelet that looks ids up one by one, and that writes them into the pod's status.
_NEW_KUBELET: Final = (1, 36)
# Ids that such a kubelet takes in about a second.
DEFAULT_MAX_IDS: Final = 4000
# Ids of one pod with a status that such a kubelet can still write. Tried: API server 1.36.3 kept a status of 49,101 ids of 17
# characters and refused one of 49,375 (etcd's request limit); the rest is for the other fields of a pod.
MOST_IDS_OF_A_POD: Final = 40_000


def check_ids(cards: NodeCards, kubelet_version: str, max_ids: int | None) -> None:
    """Refuse a list that the kubelet would not take. Raises TooManyIdsError, which names a unit or mode that fits.

    ``max_ids`` (the operator's word) replaces the limit that we assume for a kubelet of 1.36 or newer. A version that
    we cannot read counts as new.
    """
    count = sum(map(id_count, cards.cards))
    if max_ids is None and is_new(kubelet_version):
        max_ids = DEFAULT_MAX_IDS
    if max_ids is not None and count > max_ids:
        raise TooManyIdsError(
            f"{_asked(cards)} makes {count} ids, more than {max_ids} (kubelet {kubelet_version or 'unknown'}); "
            f"use {_fitting(cards, max_ids)}, or --max-ids {count} if this kubelet takes them"
        )
    limit = wire.KUBELET_MESSAGE_LIMIT
    if (size := encoded_size(cards.cards)) > limit:
        raise TooManyIdsError(
            f"{_asked(cards)} makes {count} ids, {size} bytes; a kubelet takes {limit}; "
            f"use {_fitting(cards, count * limit // size)}"
        )


def check_ids_of_pod(units: int, cards: NodeCards, kubelet_version: str) -> None:
    """Refuse a pod with too many ids for its status to be written. Raises TooManyIdsError."""
    if units > MOST_IDS_OF_A_POD and cards.mode == MODE_IDS and is_new(kubelet_version):
        raise TooManyIdsError(
            f"a pod of {units} units of {cards.unit} is more than the API server can keep: kubelet "
            f"{kubelet_version or 'unknown'} writes each into the pod's status, which holds {MOST_IDS_OF_A_POD}; "
            f"ask for less, or run this node's device plugin with {_fitting(cards, DEFAULT_MAX_IDS)}"
        )


def encoded_size(cards: Sequence[CardFacts]) -> int:
    """Bytes of the list as the kubelet receives it, in the worst case: every card sick ("Unhealthy" is longer)."""
    ids = DeviceIds(cards)
    return sum(_size_of(len(ids.prefix_of(card)), id_count(card)) for card in cards)


def is_new(kubelet_version: str) -> bool:
    """Is this kubelet of 1.36 or newer, or of a version that cannot be read?"""
    release = kubelet_release(kubelet_version)
    return release is None or release >= _NEW_KUBELET


def kubelet_release(kubelet_version: str) -> tuple[int, int] | None:
    """Major and minor of ``v1.36.3``, or None if the text does not begin like that."""
    match = re.match(r"v?(\d+)\.(\d+)", kubelet_version)
    return (int(match[1]), int(match[2])) if match is not None else None


def _size_of(prefix: int, count: int) -> int:
    """``count`` Devices with ids of a prefix and a number: a tag and a length before each of message, id and health."""
    size = 0
    digits, first = 1, 0
    while first < count:
        last = min(10**digits, count)
        size += (last - first) * (2 + 2 + prefix + digits + 2 + len(UNHEALTHY))
        digits, first = digits + 1, last
    return size


def _asked(cards: NodeCards) -> str:
    return f"--slots {cards.cards[0].slots}" if cards.mode == MODE_SLOTS else f"--memory-unit {cards.unit}"


def _fitting(cards: NodeCards, ids: int) -> str:
    """The flags with which the cards make no more than ``ids`` ids."""
    if cards.mode == MODE_SLOTS:
        return f"--slots {max(ids // len(cards.cards), 1)}"
    unit = _unit_for(cards, ids)
    return f"--memory-unit {unit}, or --mode slots (exact MiB)" if unit else "--mode slots (exact MiB)"


def _unit_for(cards: NodeCards, ids: int) -> MemoryUnit | None:
    """The smallest unit, a power of two of MiB, that makes no more than ``ids`` ids; None if a card would have none."""
    mib = 1
    while sum(card.mib // mib for card in cards.cards) > ids:
        mib *= 2
    return MemoryUnit(mib) if all(card.mib >= mib for card in cards.cards) else None
