"""The plan of a run, as every Locust process of it reads it, and when its pods come, by the second of the run."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from load.questions import TlsFiles

# Where Locust's processes find the plan.
VARIABLE: Final = "GPUSHARE_LOAD_PLAN"


# The replicas of a Deployment in a burst.
BURST_PODS: Final = 1000
_BURST_SECOND: Final = 5
# The share of the mean by which a day's rate is above and below it.
_SWING: Final = 0.8
# The verbs of an extender and the paths behind its URL, as kube-scheduler's configuration has them.
VERBS: Final[Mapping[str, str]] = {"filter": "filter", "prioritize": "prioritize", "bind": "bind"}


class Asked(msgspec.Struct, frozen=True):
    """An extender that pods are scheduled with. ``url`` ends before the verbs; a run asks only ``verbs``, by these paths."""

    name: str
    url: str
    tls: TlsFiles | None = None
    verbs: dict[str, str] = msgspec.field(default_factory=lambda: dict(VERBS))

    def url_of(self, verb: str) -> str:
        """Where a verb is; one that is not in ``verbs`` (inspect, explain) has its own name."""
        return f"{self.url}/{self.verbs.get(verb, verb)}"


class Plan(msgspec.Struct, frozen=True):
    """One run: pods come to the API server at ``api``, and each is scheduled with one of ``extenders``, in turn.

    ``records`` is the folder of the results.

    ``floor`` is the URL of a server that does nothing, which is asked the same questions; "" if there is none.
    ``weights``, of each second, are those of the shape ``trace``. ``window`` is how many nodes an extender sees of each question.
    The other numbers are how many users there are of each kind.
    """

    cluster: str
    window: int
    rate: float
    seconds: float
    records: str = ""
    api: str = ""
    extenders: tuple[Asked, ...] = ()
    floor: str = ""
    shape: str = "steady"
    weights: tuple[float, ...] = ()
    schedulers: int = 1
    inspectors: int = 0
    what_if: int = 0
    viewers: int = 0


def load() -> Plan:
    """The plan of this process. Raises KeyError if it has none."""
    return msgspec.json.decode(Path(os.environ[VARIABLE]).read_bytes(), type=Plan)


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


# One run on each of several clusters, and one for half an hour that is audited.
CURVES, SOAK = "curves", "soak"
SHAPES: Final[Mapping[str, Shape]] = {
    "steady": steady,
    "burst": burst,
    "diurnal": diurnal,
    CURVES: steady,
    SOAK: steady,
}
# Pods come when those of a trace did.
TRACE: Final = "trace"
