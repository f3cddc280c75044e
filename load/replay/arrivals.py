"""In which order the pods of a trace come: shuffled by a seed, and as many as ask for a given part of all cards. Pure.

The protocol of the published figures ("Beware of Fragmentation", USENIX ATC 2023): a list that asks for less is topped up by
draws with replacement for as long as the next stays within the part; of one that asks for more random pods are left out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from load.replay.trace import Trace, TracePod

# The published figures are for so much demand, in parts of all cards.
PUBLISHED_DEMAND: Final = 1.3
_MOST_PODS: Final = 1_000_000


def arrivals(trace: Trace, seed: int, demand: float = PUBLISHED_DEMAND) -> list[TracePod]:
    """The pods in order; equal for equal arguments."""
    rng = random.Random(seed)
    most = int(trace.capacity * demand)
    pods = list(trace.pods)
    rng.shuffle(pods)
    asked = sum(pod.demand for pod in pods)
    if asked > most:
        return _cut(pods, asked - most)
    # From a list with hardly any pod that asks for a card no more come than this.
    while len(pods) < _MOST_PODS and asked + (pod := rng.choice(trace.pods)).demand <= most:
        pods.append(pod)
        asked += pod.demand
    return pods


def _cut(pods: Sequence[TracePod], excess: int) -> list[TracePod]:
    """Without the last of them, which are random ones, until no more than the excess is gone."""
    kept = list(pods)
    while excess > 0:
        excess -= kept.pop().demand
    return kept
