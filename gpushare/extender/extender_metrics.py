"""The extender's counters of itself: answers and how long they took. Plain numbers, for one thread.

Each answer is counted before it is sent, so counting must cost next to nothing: these counters take less than half the time of
Prometheus' own, which have locks. The library that shows them is loaded only if ``/metrics`` is served.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from gpushare import wire
from gpushare.errors import DoesNotFitError, GpushareError, InvalidQuantityError, InvalidWishError
from gpushare.extender.core.messages import MalformedMessageError
from gpushare.kube.api_errors import ApiError

FILTER: Final = "filter"
PRIORITIZE: Final = "prioritize"
PREEMPT: Final = "preempt"
BIND: Final = "bind"
VERBS: Final = (FILTER, PRIORITIZE, PREEMPT, BIND)

# Verdicts: the pod can go somewhere; it cannot, for a reason of the cluster or of its own; there was no answer to that.
GRANTED: Final = "granted"
REFUSED: Final = "refused"
FAILED: Final = "failed"

# Reasons: those of the scheduler, and some that are longer than a label may be.
REASONS: Final = frozenset(text for name, text in vars(wire).items() if name.startswith("REASON_"))
BAD_WISH: Final = "bad wish"
BAD_AMOUNT: Final = "bad amount"
NOT_READY: Final = "not ready"
MALFORMED: Final = "malformed request"
API_SERVER: Final = "API server"
INTERNAL: Final = "internal error"
OTHER: Final = "other"
FAILURES: Final = (NOT_READY, MALFORMED, API_SERVER, INTERNAL, OTHER)

# Calls of pods that wait, and audits of the book, beside ``FAILED``.
CALLED: Final = "called"
DONE: Final = "done"

# Upper ends, in seconds: a filter takes some 100 µs, and after 10 s the scheduler waits no more.
BOUNDS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
_BOUNDS_NS: Final = tuple(round(bound * 1e9) for bound in BOUNDS)


class Latency:
    """How long the answers of one verb took. ``counts`` are of each bucket alone; the last is of those above all bounds."""

    __slots__ = ("counts", "sum_ns")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum_ns = 0

    def add(self, ns: int) -> None:
        """One more, in nanoseconds."""
        self.counts[bisect_left(_BOUNDS_NS, ns)] += 1
        self.sum_ns += ns


class ExtenderMetrics:
    """The calls of the rest of the extender. ``clock_ns`` times the answers."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self.clock_ns = clock_ns
        self.latencies = {verb: Latency() for verb in VERBS}
        # By verb, verdict and reason. Known combinations are there, as 0, from the first scrape on: a rate needs a begin.
        known = [(verb, GRANTED, "") for verb in VERBS]
        known += [(FILTER, REFUSED, reason) for reason in sorted(REASONS)]
        known += [(verb, FAILED, reason) for verb in VERBS for reason in FAILURES]
        self.requests: Counter[tuple[str, str, str]] = Counter(dict.fromkeys(known, 0))
        self.calls: Counter[str] = Counter({CALLED: 0, FAILED: 0})
        self.audits: Counter[str] = Counter({DONE: 0, FAILED: 0})
        # The units and objects of each kind that the last audit which came to its end repaired.
        self.drift: Mapping[str, tuple[int, int]] = {}
        # May every program that reaches this machine ask, without a sign of which program it is?
        self.is_open = False

    def count(self, verb: str, verdict: str, reason: str = "") -> None:
        """A verb answered. ``reason`` is a constant of this module or of ``wire``."""
        self.requests[verb, verdict, reason] += 1

    def count_error(self, verb: str, error: Exception) -> None:
        """It answered with an error, or raised one."""
        self.requests[verb, *outcome_of(error)] += 1

    def count_call(self, is_done: bool) -> None:
        """A pod that waits was called, or could not be."""
        self.calls[CALLED if is_done else FAILED] += 1

    @contextmanager
    def timed(self, verb: str) -> Iterator[None]:
        """Time the verb's function, which counts its answer; an exception is counted here."""
        began = self.clock_ns()
        try:
            yield
        except Exception as error:
            self.count_error(verb, error)
            raise
        finally:
            self.latencies[verb].add(self.clock_ns() - began)


def outcome_of(error: Exception) -> tuple[str, str]:
    """Verdict and reason of an answer that is an error."""
    if isinstance(error, DoesNotFitError):
        return REFUSED, reason_of(str(error))
    if isinstance(error, InvalidWishError):
        return REFUSED, BAD_WISH
    if isinstance(error, InvalidQuantityError):
        return REFUSED, BAD_AMOUNT
    if isinstance(error, MalformedMessageError):
        return FAILED, MALFORMED
    if not isinstance(error, GpushareError):
        return FAILED, INTERNAL
    return FAILED, API_SERVER if isinstance(error.__cause__, ApiError) else OTHER


def reason_of(text: str) -> str:
    """A reason for the scheduler as a label: one of ``wire``'s, without what may follow it; none for none, else ``OTHER``."""
    if not text or text in REASONS:
        return text
    known = text.partition(": ")[0]
    return known if known in REASONS else OTHER
