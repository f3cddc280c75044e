"""Are the placements over the wire those of the decisions alone? Each seed is replayed both ways, pod by pod."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clusters.processes.progress import Progress
from load.replay.arrivals import arrivals
from load.replay.extender_replay import Step, replay
from load.replay.replay_wire import replay_over_wire, site
from load.replay.replayed_world import expected_of
from load.replay.trace import Trace

# So many pods are placed between two looks at what else there is to do.
_A_LOOK: Final = 64


@dataclass(frozen=True, slots=True)
class WireRun:
    """One seed: how many pods came, how many of them lie elsewhere, and the first of those in words; seconds over the wire."""

    seed: int
    pods: int
    different: int
    first: str
    seconds: float


async def check_all(trace: Trace, policy: str, seeds: Sequence[int], progress: Progress) -> list[WireRun]:
    """One after the other. Raises ClusterError, CannotMeasureError, WrongAnswerError."""
    return [await _check(trace, policy, seed, progress) for seed in seeds]


async def _check(trace: Trace, policy: str, seed: int, progress: Progress) -> WireRun:
    pods, expected = arrivals(trace, seed), expected_of(trace)
    progress.text = f"replaying seed {seed} over the wire, {len(pods)} pods"

    def tell(number: int) -> None:
        progress.detail = f"{number} have come"

    with tempfile.TemporaryDirectory(prefix="gpushare-replay-") as folder:
        async with site(trace, policy, expected, Path(folder)) as at:
            begun = time.monotonic()
            over_wire = await replay_over_wire(at, trace, pods, seed, tell)
            seconds = time.monotonic() - begun
    progress.text = f"replaying seed {seed} without the wire"
    alone = []
    for number, step in enumerate(replay(trace, pods, policy, seed, expected)):
        alone.append(step)
        if number % _A_LOOK == 0:
            # The user may have pressed Ctrl-C.
            tell(number)
            await asyncio.sleep(0)
    return compare(seed, over_wire, alone, seconds)


def compare(seed: int, over_wire: Sequence[Step], alone: Sequence[Step], seconds: float) -> WireRun:
    """Pod by pod: its node, its cards, and what is allocated then."""
    others = [number for number, pair in enumerate(zip(over_wire, alone, strict=True)) if pair[0] != pair[1]]
    first = _words(others[0], over_wire[others[0]], alone[others[0]]) if others else ""
    return WireRun(seed, len(alone), len(others), first, seconds)


def text(runs: Sequence[WireRun]) -> str:
    """A line a seed."""
    return "\n".join(
        f"over the wire, seed {one.seed}: {one.pods} pods in {one.seconds:.1f} s, "
        + (f"{one.different} placed otherwise; first {one.first}" if one.different else "each placed as without it")
        for one in runs
    )


def as_json(runs: Sequence[WireRun]) -> list[dict[str, Any]]:
    """An object a seed."""
    return [
        {"seed": one.seed, "pods": one.pods, "different": one.different, "seconds": round(one.seconds, 3)}
        for one in runs
    ]


def _words(number: int, found: Step, expected: Step) -> str:
    def where(step: Step) -> str:
        cards = ", ".join(f"{units} of card {index}" for index, units in step.shares)
        return f"{step.node}{f' ({cards})' if cards else ''}" if step.node else "nowhere"

    return f"the {number + 1}th, {found.pod.name}: {where(found)} instead of {where(expected)}"
