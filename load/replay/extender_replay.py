"""Replay: one pod after the other comes, is placed by the policy, and stays; a pod that fits nowhere is passed over."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpushare.model.allocation import Shares
from gpushare.model.outlook import Outlook
from load.replay.replayed_world import World
from load.replay.trace import Trace, TracePod


@dataclass(frozen=True, slots=True)
class Step:
    """After a pod came: the demand of all that came and what of the cards is allocated, in units; where it was placed."""

    pod: TracePod
    arrived: int
    allocated: int
    node: str = ""
    shares: Shares = field(default=())


def replay(trace: Trace, pods: Sequence[TracePod], policy: str, seed: int, expected: Outlook | None) -> Iterator[Step]:
    """The steps, one a pod. Between nodes that are alike the seed decides, as chance does in kube-scheduler.

    ``expected`` is what the policy knows of the pods to come; None: what it sees.
    """
    rng, world, arrived = random.Random(seed), World(trace, policy, expected), 0
    for number, pod in enumerate(pods):
        arrived += pod.demand
        best = world.candidates(pod)
        if not best:
            yield Step(pod, arrived, world.allocated)
            continue
        node = rng.choice(best)
        shares = world.place(pod, number, node)
        yield Step(pod, arrived, world.allocated, node, shares)


def ratios(trace: Trace, steps: Sequence[Step], demands: Sequence[float]) -> list[float]:
    """The share of all cards that is allocated, in percent, once pods that ask for these parts of all cards have come."""
    found = []
    for demand in demands:
        reached = [step.allocated for step in steps if step.arrived <= trace.capacity * demand]
        found.append(100 * (reached[-1] if reached else 0) / trace.capacity)
    return found
