"""Promises of gpushare.extender.core.filter_cache."""

from __future__ import annotations

from collections.abc import Set

import pytest

from gpushare.bounds import Bound
from gpushare.extender.core import filter_cache as module
from gpushare.extender.core.filter import FilterResult
from gpushare.extender.core.filter_cache import (
    FIRST_PATIENCE,
    LAST_PATIENCE,
    NODES_COMPARED,
    CachedAnswer,
    FilterCache,
    reason_of_wait,
)
from gpushare.extender.core.reservations import Fate, State
from gpushare.manifests import ObjectMeta
from gpushare.model.pod import Request
from gpushare.model.waiting import Wait

PENDING = Fate(State.PENDING)
HELD = FilterResult(["a"], {}, {})
REFUSED = FilterResult([], {"full": ["a", "b"]}, {"small": ["c"]})


def pod(name: str, uid: str = "") -> ObjectMeta:
    """A pod of namespace ns."""
    return ObjectMeta(name=name, namespace="ns", uid=uid or f"uid-{name}")


def due(filter_cache: FilterCache, now: float, most: int, passed_over: Set[str] = frozenset()) -> list[str]:
    """Names of those that are due, if all are pending."""
    return [one.metadata.name for one in filter_cache.due(now, lambda _: PENDING, most, passed_over)]


def test_the_last_answer_is_kept_with_how_often_was_asked() -> None:
    """By the pod's name, without its annotations, which may be large; a pod re-created under it is another."""
    filter_cache = FilterCache()
    filter_cache.note(pod("p", "old"), Request(3), REFUSED, b"", 1)
    filter_cache.note(pod("p"), Request(3), REFUSED, b"", 2)
    annotated = ObjectMeta("p", "ns", "uid-p", annotations={"a": "x" * 250_000})
    filter_cache.note(annotated, Request(3), FilterResult(["a"], {}, {}), b"fits", 3)
    found = filter_cache.of("ns", "p")

    assert found == CachedAnswer(pod("p"), Request(3), 3, 2, 1, "", {}, b"fits", 0, FIRST_PATIENCE, 3)
    assert (filter_cache.of("ns", "q"), filter_cache.of("other", "p")) == (None, None)
    assert (filter_cache.by_uid("uid-p"), filter_cache.by_uid("p")) == (found, None)
    filter_cache.note(pod("p"), None, REFUSED, b"no", 4, priority=7)
    reasons = {"full": 2, "small": 1}
    assert filter_cache.of("ns", "p") == CachedAnswer(
        pod("p"), None, 4, 3, 0, "full", reasons, b"no", 7, FIRST_PATIENCE, 4
    )


def test_a_new_node_is_a_reason_to_call_soon() -> None:
    """A node of the last call waits for the longer patience, and so do nodes that are too many to be compared."""
    filter_cache = FilterCache()
    filter_cache.note(pod("p"), Request(3), REFUSED, b"", 0)
    cached = filter_cache.of("ns", "p")
    assert cached is not None
    names = [str(at) for at in range(NODES_COMPARED)]
    cached.called(["0"], 100)

    assert [cached.may_be_called(["0"], now) for now in (109, 110)] == [False, True]
    assert [cached.may_be_called(names, now) for now in (104, 105)] == [False, True]
    assert [cached.may_be_called([*names, "more"], now) for now in (109, 110)] == [False, True]
    cached.called(["0"], 200)
    assert (cached.patience, cached.tried) == (20, {"0"})
    cached.called(["0", "1"], 300)
    assert (cached.patience, cached.tried, cached.waits_since) == (10, {"0", "1"}, 300)


@pytest.mark.parametrize(
    ("state", "seconds", "is_due", "is_kept"),
    [
        (State.PENDING, FIRST_PATIENCE - 0.1, False, True),
        (State.PENDING, FIRST_PATIENCE, True, True),
        (State.BOUND, FIRST_PATIENCE, False, False),
        (State.GONE, FIRST_PATIENCE, False, False),
        # A watch that is behind shows the pod minutes later.
        (State.UNKNOWN, LAST_PATIENCE - 1, False, True),
        (State.UNKNOWN, LAST_PATIENCE, False, False),
    ],
)
def test_refused_pod_is_due_after_a_while(state: State, seconds: float, is_due: bool, is_kept: bool) -> None:
    """A refused pod is due once its scheduler had the time to ask again, and forgotten once it waits no more."""
    filter_cache = FilterCache()
    filter_cache.note(pod("p"), Request(3), REFUSED, b"", 50)
    found = filter_cache.due(50 + seconds, lambda _: Fate(state), 9)

    assert [one.metadata.name for one in found] == ["p"] * is_due
    assert (len(filter_cache), filter_cache.of("ns", "p") is not None) == (is_kept, is_kept)


def test_pod_is_due_if_refused_everywhere_and_not_asked_about() -> None:
    """Each question about a pod starts its time again."""
    filter_cache = FilterCache()
    filter_cache.note(pod("refused"), Request(3), REFUSED, b"", 0)
    filter_cache.note(pod("fits"), Request(3), FilterResult(["a"], {}, {}), b"", 0)
    filter_cache.note(pod("nonsense"), None, REFUSED, b"", 0)

    assert due(filter_cache, FIRST_PATIENCE, 9) == ["refused"]
    filter_cache.note(pod("refused"), Request(3), REFUSED, b"", FIRST_PATIENCE)
    assert due(filter_cache, FIRST_PATIENCE + 1, 9) == []


def test_pod_called_in_vain_is_called_less_and_less_often() -> None:
    """A pod that was called in vain is called less and less often, also if the scheduler asks for it in between."""
    filter_cache = FilterCache()
    filter_cache.note(pod("p"), Request(3), REFUSED, b"", 0)
    now, waits = 0.0, []
    for _ in range(9):
        (one,) = filter_cache.due(now + LAST_PATIENCE, lambda _: PENDING, 9)
        waits.append(one.patience)
        now += LAST_PATIENCE
        one.called(["a"], now)
        filter_cache.note(pod("p"), Request(3), REFUSED, b"", now)

    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_longest_waiting_pods_come_first_a_few_at_a_time() -> None:
    """A turn is short, and a pod that is passed over leaves room for the others."""
    filter_cache = FilterCache()
    for name in "abcd":
        filter_cache.note(pod(name), Request(3), REFUSED, b"", 0)
    filter_cache.note(pod("a"), Request(3), REFUSED, b"", 1)

    assert due(filter_cache, 10, 2) == ["b", "c"]
    assert due(filter_cache, 10, 2, {"uid-b", "uid-d"}) == ["c", "a"]


def test_the_size_of_what_is_kept_stays_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a pod that waits no more had its answer still, or not; an answer that comes again counts once."""
    monkeypatch.setattr(module, "ANSWERS_KEPT", Bound("answers", 8, "bytes"))
    filter_cache = FilterCache()
    for name in "abc":
        filter_cache.note(pod(name), Request(3), REFUSED, b"abc", 0)
    filter_cache.drop("uid-a")
    filter_cache.note(pod("d"), Request(3), REFUSED, b"abc", 0)
    assert [_kept(filter_cache, name) for name in "bcd"] == [None, b"abc", b"abc"]
    filter_cache.drop("uid-d")
    for _ in range(2):
        filter_cache.note(pod("e"), Request(3), REFUSED, b"abcde", 0)

    assert [_kept(filter_cache, name) for name in "bce"] == [None, b"abc", b"abcde"]


def _kept(filter_cache: FilterCache, name: str) -> bytes | None:
    found = filter_cache.of("ns", name)
    assert found is not None
    return found.answer


def test_only_so_many_pods_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was asked for longest ago goes."""
    monkeypatch.setattr(module, "MOST_PODS", 2)
    filter_cache = FilterCache()
    for name in "abc":
        filter_cache.note(pod(name), Request(3), REFUSED, b"", 0)

    assert [filter_cache.of("ns", name) is None for name in "abc"] == [True, False, False]
    filter_cache.drop("uid-b")
    filter_cache.drop("uid-b")
    assert len(filter_cache) == 1


def test_a_pod_that_was_refused_everywhere_has_one_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that was refused everywhere has one reason, also once its nodes are forgotten. A pod that fits a node has none."""
    monkeypatch.setattr(module, "ANSWERS_KEPT", Bound("answers", 1, "bytes"))
    filter_cache = FilterCache()
    filter_cache.note(pod("old"), Request(3), REFUSED, b"a", 0)
    filter_cache.note(pod("fits"), Request(3), FilterResult(["a"], {"full": ["b"]}, {}), b"a", 0)
    filter_cache.note(pod("small"), Request(3), FilterResult([], {}, {"small": ["c"]}), b"abc", 0)
    found = [filter_cache.of("ns", name) for name in ("old", "fits", "small")]

    assert [one and (one.answer, one.reason) for one in found] == [(None, "full"), (None, ""), (b"abc", "small")]


@pytest.mark.parametrize(
    ("gated", "report", "answer", "reason"),
    [
        (True, "SchedulingGated", None, "scheduling gates"),
        (True, "", REFUSED, "scheduling gates"),
        (False, "Unschedulable", REFUSED, "full"),
        (False, "", REFUSED, "full"),
        (False, "Unschedulable", None, "refused by its scheduler"),
        (False, "SchedulerError", HELD, "refused by its scheduler"),
        (False, "", None, "no report of its scheduler"),
        (False, "", HELD, None),
    ],
    ids=["gated", "gated again", "refused", "just refused", "never asked", "bind failed", "new", "being bound"],
)
def test_a_pod_waits_for_one_reason(gated: bool, report: str, answer: FilterResult | None, reason: str | None) -> None:
    """Its gates come first, then the extender's last answer, then the report of its scheduler."""
    filter_cache = FilterCache()
    if answer is not None:
        filter_cache.note(pod("p"), Request(3), answer, b"", 0)

    assert reason_of_wait(Wait(None, gated, "s", report, ""), filter_cache.of("ns", "p")) == reason
