"""In-tree scores, and the choice among the best.

Nodes differ only in how empty they are. Not imitated: how evenly cpu and memory are used, soft taints, preferred affinity,
spreading, and images that are there already.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from clusters.amounts import Amounts
from clusters.embedded.scheduling.cluster_view import COUNTED, NodeInfo

MAX_NODE_SCORE = 100
# The range of an extender's own scores ends at 10.
MAX_EXTENDER_SCORE = 10


def least_allocated(counted: Amounts, info: NodeInfo) -> int:
    """0 (full) to 100 (empty): the mean over cpu and memory of what would stay free with the pod on the node."""
    scores = []
    for name in COUNTED:
        capacity = info.allocatable.get(name, 0)
        left = capacity - counted.get(name, 0) - info.counted.get(name, 0)
        if capacity > 0:
            scores.append(max(left, 0) * MAX_NODE_SCORE // capacity)
    return sum(scores) // len(scores) if scores else 0


def with_extenders(score: int, extender_score: int) -> int:
    """The sum of both; the extenders' part (score times weight, added up) is scaled from 0..10 to 0..100."""
    return score + extender_score * (MAX_NODE_SCORE // MAX_EXTENDER_SCORE)


def pick_best(scores: Sequence[tuple[str, int]], rng: random.Random) -> str:
    """The name with the highest score; one of the best at random if several are equal."""
    best = max(score for _, score in scores)
    return rng.choice([name for name, score in scores if score == best])
