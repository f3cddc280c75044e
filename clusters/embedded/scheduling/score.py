"""In-tree scores, and the choice among the best.

One score stands for kube-scheduler's dozen: the emptier a node, the better. On nodes that differ in nothing else the
rest of the dozen gives every node the same.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from clusters.embedded.scheduling.node_state import NodeInfo
from clusters.embedded.scheduling.pod_requests import Amounts

MAX_NODE_SCORE = 100
# The range of an extender's own scores ends at 10.
MAX_EXTENDER_SCORE = 10
# What a pod counts for where it asks for nothing, so that such pods spread: thousandths of a cpu, and bytes.
DEFAULT_REQUESTS = {"cpu": 100, "memory": 200 * 1024 * 1024}


def least_allocated(requests: Amounts, info: NodeInfo) -> int:
    """0 (full) to 100 (empty): the mean over cpu and memory of what would stay free with the pod on the node."""
    scores = []
    for name, default in DEFAULT_REQUESTS.items():
        capacity = info.allocatable.get(name, 0)
        left = capacity - info.requested.get(name, 0) - requests.get(name, default)
        scores.append(left * MAX_NODE_SCORE // capacity if capacity > 0 and left > 0 else 0)
    return sum(scores) // len(scores)


def with_extenders(score: int, extender_score: int) -> int:
    """The sum of both; the extenders' part (score times weight, added up) is scaled from 0..10 to 0..100."""
    return score + extender_score * (MAX_NODE_SCORE // MAX_EXTENDER_SCORE)


def pick_best(scores: Sequence[tuple[str, int]], rng: random.Random) -> str:
    """The name with the highest score; one of the best at random where several are equal."""
    best = max(score for _, score in scores)
    return rng.choice([name for name, score in scores if score == best])
