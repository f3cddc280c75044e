"""A small cluster that lives, until it is cancelled: pods come and go, one waits, one uses more than it booked, and a card
becomes unhealthy and recovers. It never holds more pods than at its start and ``_STAY`` visitors.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clusters.api.api_client import MERGE_PATCH, ApiError
from clusters.api.resources import NODES, PODS
from clusters.demo import HOSTNAME, PLAYER_MIB, on_node, player
from clusters.provider import Cluster

LIVING_NODES: Final = Path(__file__).parent / "simulated" / "living.yaml"
WAITING_POD: Final = "latecomer"
# Between two beats, in seconds; and how many beats a visitor stays.
PAUSE_SECONDS: Final = 3.0
_STAY: Final = 4
_UNITS: Final = (2, 5, 9)
# The card that becomes unhealthy, the number of beats of a round, and the beats of it at which it does so and recovers.
UNHEALTHY_NODE: Final = "node2"
_CARD: Final = "3"
_ROUND: Final = 10
_ILL_AT: Final = 3
_WELL_AT: Final = 7
# An error of the card's memory, for which it is not used until it was reset.
_XID: Final = "48"
_RECOVERED: Final = "gpushare.aliyun.com/recovered"
_MIB: Final = 1024
_LABEL: Final = "app"


@dataclass(frozen=True, slots=True)
class Beat:
    """The changes of one beat: a visitor that comes, one that goes, a card that becomes unhealthy or is healthy again."""

    comes: str
    units: int
    goes: str
    becomes_unhealthy: bool
    recovers: bool


def beat(number: int) -> Beat:
    """The beat of that number, from 0. Pure."""
    return Beat(
        comes=f"visitor-{number}",
        units=_UNITS[number % len(_UNITS)],
        goes=f"visitor-{number - _STAY}" if number >= _STAY else "",
        becomes_unhealthy=number % _ROUND == _ILL_AT,
        recovers=number % _ROUND == _WELL_AT,
    )


def first_pods() -> Iterator[dict[str, Any]]:
    """Pods that stay: node3's cards are filled, one waits for a card of it, and one uses more than it booked. Pure."""
    yield from on_node("fill.yaml", "node3")
    yield from on_node("latecomer.yaml", "node3")
    yield player("greedy", 1, {HOSTNAME: "node1"}, holds_mib=PLAYER_MIB)


def visitor(name: str, units: int) -> dict[str, Any]:
    """A pod that keeps to its booking. Pure."""
    pod = player(name, units, {"visitors": "welcome"}, holds_mib=units * _MIB * 3 // 4)
    return pod | {"metadata": {"name": name, "labels": {_LABEL: "visitor"}}}


async def settle(cluster: Cluster) -> None:
    """Create the pods that stay, if they are not there, and delete what an earlier life has left. Raises ApiError."""
    for left in await cluster.api.list(PODS, "default", label_selector=f"{_LABEL}=visitor"):
        await cluster.api.delete_exactly(PODS, left)
    for pod in first_pods():
        await _create(cluster, pod)


async def live(cluster: Cluster, pause_seconds: float = PAUSE_SECONDS) -> None:
    """Go on until cancelled. A pod that a user has deleted is no error. Raises ApiError, ClusterError."""
    for number in itertools.count():
        await _act(cluster, beat(number))
        await asyncio.sleep(pause_seconds)


async def _act(cluster: Cluster, now: Beat) -> None:
    if now.goes:
        with _unless("NotFound"):
            await cluster.api.delete(PODS, now.goes, "default")
    await _create(cluster, visitor(now.comes, now.units))
    if now.becomes_unhealthy:
        await cluster.fake_nvml(UNHEALTHY_NODE, "xid", _CARD, _XID)
    if now.recovers:
        annotations = {"metadata": {"annotations": {_RECOVERED: _CARD}}}
        await cluster.api.patch(NODES, UNHEALTHY_NODE, annotations, content_type=MERGE_PATCH)


async def _create(cluster: Cluster, pod: dict[str, Any]) -> None:
    with _unless("AlreadyExists"):
        await cluster.api.create(pod)


@contextlib.contextmanager
def _unless(reason: str) -> Iterator[None]:
    """An answer with this reason is no error."""
    try:
        yield
    except ApiError as error:
        if error.reason != reason:
            raise
