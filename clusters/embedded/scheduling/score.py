"""In-tree scores, and the choice among the best.

The ones that tell nodes apart on which the same pods fit: how empty a node is, how evenly its cpu and memory are used,
taints that it would rather not have tolerated, and the affinity that the pod prefers. Not imitated: images that are there
already, spreading, and preferred affinity to other pods.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from clusters.api_client import Object
from clusters.embedded.scheduling.node_match import term_matches, toleration_covers
from clusters.embedded.scheduling.node_state import NodeInfo
from clusters.embedded.scheduling.scheduler_pod_requests import COUNTED, Amounts, counted_of, requests_of, total

MAX_NODE_SCORE = 100
# The range of an extender's own scores ends at 10.
MAX_EXTENDER_SCORE = 10
TAINT_WEIGHT = 3
AFFINITY_WEIGHT = 2


def in_tree(pod: Object, nodes: Sequence[NodeInfo]) -> list[int]:
    """The sum of the in-tree scores of each node."""
    asked = requests_of(pod)
    counted = counted_of(pod)
    taints = normalised([disliked_taints(pod, info.node) for info in nodes])
    affinity = normalised([preference(pod, info.node) for info in nodes])
    return [
        least_allocated(counted, info)
        + balanced(asked, info)
        + TAINT_WEIGHT * (MAX_NODE_SCORE - disliked)
        + AFFINITY_WEIGHT * preferred
        for info, disliked, preferred in zip(nodes, taints, affinity, strict=True)
    ]


def least_allocated(counted: Amounts, info: NodeInfo) -> int:
    """0 (full) to 100 (empty): the mean over cpu and memory of what would stay free with the pod on the node."""
    used = total([counted, info.counted])
    scores = []
    for name in COUNTED:
        capacity = info.allocatable.get(name, 0)
        left = capacity - used.get(name, 0)
        if capacity > 0:
            scores.append(max(left, 0) * MAX_NODE_SCORE // capacity)
    return sum(scores) // len(scores) if scores else 0


def balanced(asked: Amounts, info: NodeInfo) -> int:
    """50 to 100: whether the pod makes the use of cpu and memory more even (above 75) or less."""
    if not any(asked.get(name) for name in COUNTED):
        return 0
    gain = evenness(total([info.requested, asked]), info.allocatable) - evenness(info.requested, info.allocatable)
    half = MAX_NODE_SCORE // 2
    return half + (half + gain) // 2


def evenness(used: Amounts, allocatable: Amounts) -> int:
    """100 if cpu and memory are used alike, 50 if only one of them is."""
    shares = [min(used.get(name, 0) / allocatable[name], 1.0) for name in COUNTED if allocatable.get(name)]
    spread = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else 0.0
    return int((1 - spread) * MAX_NODE_SCORE)


def disliked_taints(pod: Object, node: Object) -> int:
    """How many ``PreferNoSchedule`` taints the pod does not tolerate."""
    tolerations = pod["spec"].get("tolerations") or []
    soft = [each for each in (node.get("spec") or {}).get("taints") or [] if each.get("effect") == "PreferNoSchedule"]
    return sum(1 for taint in soft if not any(toleration_covers(each, taint) for each in tolerations))


def preference(pod: Object, node: Object) -> int:
    """The weights of the preferred node affinity that the node meets."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    return sum(int(each["weight"]) for each in terms if term_matches(each.get("preference") or {}, node))


def normalised(scores: Sequence[int]) -> list[int]:
    """Scores scaled so that the highest is 100."""
    highest = max(scores, default=0)
    return [MAX_NODE_SCORE * score // highest if highest else 0 for score in scores]


def with_extenders(score: int, extender_score: int) -> int:
    """The sum of both; the extenders' part (score times weight, added up) is scaled from 0..10 to 0..100."""
    return score + extender_score * (MAX_NODE_SCORE // MAX_EXTENDER_SCORE)


def pick_best(scores: Sequence[tuple[str, int]], rng: random.Random) -> str:
    """The name with the highest score; one of the best at random if several are equal."""
    best = max(score for _, score in scores)
    return rng.choice([name for name, score in scores if score == best])
