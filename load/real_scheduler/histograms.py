"""Time that programs say they have spent, from the histograms of their Prometheus pages. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from load.readings import samples

# A histogram, the label that divides it, and its name in the output.
_OF_SCHEDULER: Final = (
    ("scheduler_scheduling_attempt_duration_seconds", "result", "scheduler: attempt"),
    ("scheduler_scheduling_algorithm_duration_seconds", "", "scheduler: choosing a node"),
    ("scheduler_framework_extension_point_duration_seconds", "extension_point", "scheduler: plugins"),
)
_OF_EXTENDER: Final = (("gpushare_extender_request_duration_seconds", "verb", "gpushare"),)
_BUCKET: Final = "_bucket"


@dataclass(frozen=True, slots=True)
class Spent:
    """How often, and how long in seconds; the percentiles are as exact as the buckets."""

    count: int
    mean: float
    p50: float
    p99: float


def of_scheduler(page: str) -> dict[str, Spent]:
    """kube-scheduler's own times of an attempt and of its plugins, by name."""
    return _read(page, _OF_SCHEDULER)


def of_extender(page: str) -> dict[str, Spent]:
    """Our extender's own times of its verbs."""
    return _read(page, _OF_EXTENDER)


def _read(page: str, wanted: Iterable[tuple[str, str, str]]) -> dict[str, Spent]:
    names = {name: (label, words) for name, label, words in wanted}
    buckets: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    sums: dict[str, float] = defaultdict(float)
    for one in samples(page, (f"{name}_" for name in names)):
        label, words = names[one.name.rpartition("_")[0]]
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
