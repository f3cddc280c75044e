"""When pods come: their rate, and how many together, by the second of the run. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

# The replicas of a Deployment in a burst.
BURST_PODS: Final = 1000
_BURST_SECOND: Final = 5
# The share of the mean by which a day's rate is above and below it.
_SWING: Final = 0.8


class Arrivals(NamedTuple):
    """The pods of one second."""

    rate: float
    at_once: int = 0


# Arguments: the second, the mean rate, and the length of the run in seconds.
Shape = Callable[[int, float, float], Arrivals]


def steady(second: int, rate: float, seconds: float) -> Arrivals:
    """The same all the time."""
    return Arrivals(rate)


def burst(second: int, rate: float, seconds: float) -> Arrivals:
    """As ``steady``, and a Deployment of 1,000 at the sixth second."""
    return Arrivals(rate, BURST_PODS if second == _BURST_SECOND else 0)


def diurnal(second: int, rate: float, seconds: float) -> Arrivals:
    """A day in the time of the run: it begins and ends at night; ``rate`` is the mean."""
    return Arrivals(rate * (1 - _SWING * math.cos(2 * math.pi * second / max(seconds, 1))))


def weights_of(times: Sequence[float], seconds: int) -> list[float]:
    """A history in the time of a run: of each second, how many times the mean come then; the mean is 1."""
    first, length = min(times), max(times) - min(times)
    counts = [0] * seconds
    for time in times:
        counts[min(int((time - first) / length * seconds), seconds - 1) if length else 0] += 1
    return [count * seconds / len(times) for count in counts]


def weighed(weights: Sequence[float]) -> Shape:
    """As many times the rate as the second weighs."""
    return lambda second, rate, seconds: Arrivals(rate * weights[second] if second < len(weights) else 0.0)


SHAPES: Final[Mapping[str, Shape]] = {
    "steady": steady,
    "burst": burst,
    "diurnal": diurnal,
}
# Pods come when those of a trace did.
TRACE: Final = "trace"
