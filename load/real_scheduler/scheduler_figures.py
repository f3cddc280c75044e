"""The results of turns, as text: pods a second, how long pods waited, the use of each program. Pure.

The time that programs report of themselves is read from the histograms of their Prometheus pages.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from load.bench.bench_figures import percentile
from load.load_reports import number, table
from load.readings import samples

# Promises of the project: these shares of the pods a second without an extender, and with one that agrees, and the number of nodes
# that take the pods, as a multiple of the least.
SHARE, SHARE_OF_AGREEING, NODES = 0.65, 0.80, 1.25
# With gpushare nodes are scored by kube-scheduler (gpushare-setup --node-scores=binpack), or by the extender.
WITHOUT, WITH, PRIORITIZED = "without an extender", "with gpushare", "with /prioritize"
# An extender in C that decides nothing and binds nothing: the most that the scheduler reaches with any on this machine.
AGREES: Final = "with one that agrees"
KINDS: Final = (WITHOUT, AGREES, WITH, PRIORITIZED)
# Those of each node, as the original's plugin publishes them.
CARDS, UNITS = 8, 16
# The units of pods, in turn, by the name of the mix.
MIXES: Final = {"small": (1, 2, 3, 4), "mixed": (1, 2, 4, 8, 12, 16), "whole": (UNITS,)}
_MS: Final = 1000
# A use below this on average is not shown, in seconds.
_SHOWN: Final = 2e-5
# Histograms of kube-scheduler and of our extender: the label that divides each, and its name in the output.
_HISTOGRAMS: Final = {
    "scheduler_scheduling_attempt_duration_seconds": ("result", "scheduler: attempt"),
    "scheduler_scheduling_algorithm_duration_seconds": ("", "scheduler: choosing a node"),
    "scheduler_framework_extension_point_duration_seconds": ("extension_point", "scheduler: plugins"),
    "gpushare_extender_request_duration_seconds": ("verb", "gpushare"),
}
_BUCKET: Final = "_bucket"
UNSCHEDULABLE: Final = "scheduler: attempt unschedulable"


@dataclass(frozen=True, slots=True)
class Spent:
    """How often, and how long in seconds; the percentiles are as exact as the buckets."""

    count: int
    mean: float
    p50: float
    p99: float


def spent(page: str) -> dict[str, Spent]:
    """A program's own times, by name: of an attempt and of the plugins of kube-scheduler, of the verbs of our extender."""
    buckets: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    sums: dict[str, float] = defaultdict(float)
    for one in samples(page, (f"{name}_" for name in _HISTOGRAMS)):
        label, words = _HISTOGRAMS[one.name.rpartition("_")[0]]
        key = f"{words} {one.labels[label]}" if label else words
        if one.name.endswith(_BUCKET):
            buckets[key][float(one.labels["le"])] += one.value
        elif one.name.endswith("_sum"):
            sums[key] += one.value
    return {key: _spent(of, sums[key]) for key, of in buckets.items() if max(of.values())}


def _spent(cumulated: Mapping[float, float], total: float) -> Spent:
    ordered = sorted(cumulated.items())
    count = int(ordered[-1][1])
    return Spent(count, total / count, _quantile(ordered, 0.5), _quantile(ordered, 0.99))


def _quantile(ordered: Sequence[tuple[float, float]], part: float) -> float:
    """Within its bucket as if all were spread evenly there; of the last one its lower end, as Prometheus has it."""
    wanted, low, before = part * ordered[-1][1], 0.0, 0.0
    for edge, count in ordered:
        if count >= wanted:
            return low if math.isinf(edge) else low + (edge - low) * (wanted - before) / (count - before)
        low, before = edge, count
    return low


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of all pods: pods a second, and processor seconds by program.

    ``waited`` are seconds from a pod's creation to its binding, sorted, if pods came at a rate; ``spent`` is the time that the
    scheduler, and our extender if it was there, report of themselves.
    """

    kind: str
    pods_per_second: float
    cpu_seconds: dict[str, float]
    waited: Sequence[float] = ()
    spent: Mapping[str, Spent] = field(default_factory=dict)
    nodes: int = 0
    cards: int = 0
    """The number of nodes, and of cards, that got a pod; no card without an extender."""

    @property
    def refused(self) -> int:
        """The number of attempts in which the scheduler found no node for a pod."""
        return self.spent[UNSCHEDULABLE].count if UNSCHEDULABLE in self.spent else 0


@dataclass(frozen=True, slots=True)
class Workload:
    """The pods of a turn, of the sizes of a mix. ``rate`` of them come a second while the scheduler is at work; 0: all before."""

    pods: int
    rate: int = 0
    mix: str = "small"

    def units_of(self, number: int) -> int:
        """The units of one pod."""
        sizes = MIXES[self.mix]
        return sizes[number % len(sizes)]

    @property
    def least_nodes(self) -> int:
        """The number of nodes that hold all units of the pods."""
        return math.ceil(sum(map(self.units_of, range(self.pods))) / (CARDS * UNITS))


def missed(turns: Sequence[Turn], least_nodes: int) -> list[str]:
    """The promises that are not kept."""
    nodes = statistics.median(turn.nodes for turn in turns if turn.kind == WITH) / least_nodes
    found = [] if share(turns) >= SHARE else [f"{share(turns):.0%} of what kube-scheduler binds alone, not {SHARE:.0%}"]
    if _has(turns, AGREES) and (part := rate(turns, WITH) / rate(turns, AGREES)) < SHARE_OF_AGREEING:
        found.append(f"{part:.0%} of what an extender that agrees reaches, not {SHARE_OF_AGREEING:.0%}")
    return found if nodes <= NODES else [*found, f"{nodes:.2f} times the least number of nodes, not {NODES}"]


def _has(turns: Iterable[Turn], kind: str) -> bool:
    return any(turn.kind == kind for turn in turns)


def rate(turns: Iterable[Turn], kind: str) -> float:
    """The median of pods a second of the turns of this kind."""
    return statistics.median(turn.pods_per_second for turn in turns if turn.kind == kind)


def share(turns: Sequence[Turn]) -> float:
    """The share of the pods a second without an extender that is reached with it."""
    return rate(turns, WITH) / rate(turns, WITHOUT)


def text(turns: Sequence[Turn], setting: str, work: Workload) -> str:
    """The printed text: the share first, then each turn with the processor time of a pod by program."""
    lines = [
        f"{setting}: gpushare reaches {share(turns):.0%} of what kube-scheduler binds alone (promised: {SHARE:.0%})",
        *_ceiling(turns),
        f"{work.pods} pods need {work.least_nodes} nodes at least",
    ]
    programs = list(dict.fromkeys(name for turn in turns for name in turn.cpu_seconds))
    rows = [
        (
            turn.kind,
            number(turn.pods_per_second, 1),
            f"{turn.nodes}",
            f"{turn.cards or '-'}",
            f"{turn.refused}",
            *(
                number(_MS * turn.cpu_seconds[name] / work.pods, 2) if name in turn.cpu_seconds else "-"
                for name in programs
            ),
        )
        for turn in turns
    ]
    lines += ["processor ms a pod, by program", *table(("", "pods/s", "nodes", "cards", "no room", *programs), rows)]
    for kind in KINDS:
        lines += _details([turn for turn in turns if turn.kind == kind])
    return "\n".join(lines)


def _ceiling(turns: Sequence[Turn]) -> Iterator[str]:
    if _has(turns, PRIORITIZED):
        yield f"with /prioritize it reaches {rate(turns, PRIORITIZED) / rate(turns, WITHOUT):.0%}"
    if _has(turns, AGREES):
        part = rate(turns, AGREES) / rate(turns, WITHOUT)
        yield f"an extender in C that only agrees, and leaves binding to the scheduler, reaches {part:.0%}"
    else:
        yield "what an extender that only agrees reaches was left out: by --kinds, or as there is no cc, gcc or clang here"


def _details(turns: Sequence[Turn]) -> Iterator[str]:
    """All turns of a kind together."""
    waited = sorted(seconds for turn in turns for seconds in turn.waited)
    names = list(dict.fromkeys(name for turn in turns for name in turn.spent))
    if not waited and not names:
        return
    rows = []
    if waited:
        cuts = [percentile(waited, part) for part in (0.5, 0.99)]
        rows.append(_row("created until bound", len(waited), statistics.mean(waited), *cuts))
    for name in names:
        of = [turn.spent[name] for turn in turns if name in turn.spent]
        count = sum(one.count for one in of)
        mean = sum(one.count * one.mean for one in of) / count if count else 0.0
        if mean >= _SHOWN:
            cuts = [statistics.median(one.p50 for one in of), statistics.median(one.p99 for one in of)]
            rows.append(_row(name, count, mean, *cuts))
    yield ""
    yield from table((f"{turns[0].kind}, ms", "count", "mean", "p50", "p99"), rows)


def _row(name: str, count: int, *seconds: float) -> tuple[str, ...]:
    return (name, str(count), *(number(_MS * one, 2) for one in seconds))
