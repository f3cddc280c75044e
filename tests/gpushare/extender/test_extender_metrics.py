"""Promises of gpushare.extender.extender_metrics."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare import wire
from gpushare.errors import DoesNotFitError, GpushareError, InvalidQuantityError, InvalidWishError
from gpushare.extender import extender_metrics as module
from gpushare.extender.bind import BindError
from gpushare.extender.core.messages import MalformedMessageError
from gpushare.extender.extender_metrics import BOUNDS, REASONS, ExtenderMetrics, outcome_of, reason_of
from gpushare.kube.api_errors import ServerError


class Clock:
    """Each look at it is later by the next step."""

    def __init__(self, *steps: int) -> None:
        self._now, self._steps = 0, iter(steps)

    def __call__(self) -> int:
        self._now += next(self._steps)
        return self._now


def fail(error: Exception) -> Callable[[bytes], bytes]:
    """A verb that does."""

    def verb(body: bytes) -> bytes:
        raise error

    return verb


@pytest.mark.parametrize(
    ("ns", "bucket"),
    [(0, 0), (99_999, 0), (100_000, 0), (100_001, 1), (10_000_000_000, len(BOUNDS) - 1), (10_000_000_001, len(BOUNDS))],
)
def test_an_answer_is_in_the_bucket_whose_end_it_does_not_pass(ns: int, bucket: int) -> None:
    """From 100 µs to 10 s, and above; an end belongs to its bucket, as in Prometheus' ``le``."""
    metrics = ExtenderMetrics(Clock(5, ns))

    assert metrics.timed("filter")(bytes.upper)(b"a") == b"A"
    latency = metrics.latencies["filter"]
    assert [at for at, count in enumerate(latency.counts) if count] == [bucket]
    assert latency.sum_ns == ns
    assert sum(metrics.latencies["bind"].counts) == 0


@pytest.mark.parametrize(
    ("error", "reason"), [(MalformedMessageError("x"), "malformed request"), (ZeroDivisionError(), "internal error")]
)
def test_what_a_verb_raises_is_counted_timed_and_raised(error: Exception, reason: str) -> None:
    """An error that a verb raises is counted under a fixed reason, timed and raised."""
    metrics = ExtenderMetrics(Clock(0, 7))

    with pytest.raises(type(error)):
        metrics.timed("preempt")(fail(error))(b"")
    assert (metrics.requests["preempt", "failed", reason], metrics.latencies["preempt"].sum_ns) == (1, 7)


def test_answers_and_calls_are_counted_by_outcome() -> None:
    """An answer adds one to the counter of its verb, verdict and reason, and to no other. Calls are counted from 0 on."""
    metrics = ExtenderMetrics(Clock())
    assert metrics.calls == {"called": 0, "failed": 0}
    metrics.count("filter", "refused", wire.REASON_NO_SLOT)
    for is_done in (True, True, False):
        metrics.count_call(is_done)

    assert {key: n for key, n in metrics.requests.items() if n} == {("filter", "refused", wire.REASON_NO_SLOT): 1}
    assert metrics.calls == {"called": 2, "failed": 1}


def caused(error: GpushareError, cause: Exception) -> GpushareError:
    """As raised from another."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (DoesNotFitError(wire.REASON_NO_SLOT), ("refused", wire.REASON_NO_SLOT)),
        (DoesNotFitError(f"{wire.REASON_UNKNOWN_NODE}: n17"), ("refused", wire.REASON_UNKNOWN_NODE)),
        (InvalidWishError(f"annotation {wire.WISH_SPLIT} is odd"), ("refused", "bad wish")),
        (InvalidQuantityError("'1.5' is no number of units"), ("refused", "bad amount")),
        (MalformedMessageError("the request names no Pod"), ("failed", "malformed request")),
        (caused(BindError("refused"), ServerError("500")), ("failed", "API server")),
        (BindError("pod d/p has ended"), ("failed", "other")),
    ],
)
def test_an_error_has_a_verdict_and_a_reason(error: GpushareError, outcome: tuple[str, str]) -> None:
    """A refusal is about the pod; a failure is not."""
    assert outcome_of(error) == outcome


def test_every_reason_of_the_scheduler_is_a_label() -> None:
    """Every reason of the scheduler is a label, also one that is added to wire.py later."""
    named = {value for name, value in vars(wire).items() if name.startswith("REASON_")}

    assert named == REASONS
    assert all(reason_of(reason) == reason for reason in named)
    assert reason_of("") == ""


@given(st.text() | st.sampled_from(sorted(REASONS)).flatmap(lambda reason: st.text().map(lambda rest: reason + rest)))
def test_no_text_becomes_a_label(text: str) -> None:
    """Names of nodes and pods would be series without end."""
    assert reason_of(text) in REASONS | {"", module.OTHER}
