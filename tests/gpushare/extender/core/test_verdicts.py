"""Promises of gpushare.extender.core.verdicts."""

from __future__ import annotations

import pytest

from gpushare.bounds import Bound
from gpushare.extender.core import verdicts as module
from gpushare.extender.core.filter import FilterResult
from gpushare.extender.core.reservations import Fate, State
from gpushare.extender.core.verdicts import (
    FIRST_PATIENCE,
    LAST_PATIENCE,
    NODES_COMPARED,
    Verdict,
    Verdicts,
    reason_of_wait,
)
from gpushare.manifests import ObjectMeta
from gpushare.model.pod import Request
from gpushare.model.waiting import Wait

PENDING = Fate(State.PENDING)
HELD = FilterResult(["a"], {}, {})
REFUSED = FilterResult([], {"full": ["a", "b"]}, {"small": ["c"]})


def pod(name: str, uid: str = "") -> ObjectMeta:
    """A pod of namespace ns."""
    return ObjectMeta(name=name, namespace="ns", uid=uid or f"uid-{name}")


def due(verdicts: Verdicts, now: float, *pending: str, most: int = 9, others: State = State.BOUND) -> list[str]:
    """Names of those that are due."""
    found = verdicts.due(now, lambda metadata: PENDING if metadata.name in pending else Fate(others), most)
    return [one.metadata.name for one in found]


def test_the_last_answer_is_kept_with_how_often_was_asked() -> None:
    """By the pod's name; a pod re-created under it is another."""
    verdicts = Verdicts()
    verdicts.note(pod("p", "old"), Request(3), REFUSED, b"", 1)
    verdicts.note(pod("p"), Request(3), REFUSED, b"", 2)
    verdicts.note(pod("p"), Request(3), FilterResult(["a"], {}, {}), b"fits", 3)
    found = verdicts.of("ns", "p")

    assert found == Verdict(pod("p"), Request(3), 3, 2, 1, "", {}, b"fits", 0, FIRST_PATIENCE, 3)
    assert (verdicts.of("ns", "q"), verdicts.of("other", "p")) == (None, None)
    assert (verdicts.by_uid("uid-p"), verdicts.by_uid("p")) == (found, None)
    verdicts.note(pod("p"), None, REFUSED, b"no", 4, priority=7)
    reasons = {"full": 2, "small": 1}
    assert verdicts.of("ns", "p") == Verdict(pod("p"), None, 4, 3, 0, "full", reasons, b"no", 7, FIRST_PATIENCE, 4)


def test_a_new_node_is_a_reason_to_call_soon() -> None:
    """A node of the last call waits for the longer patience, and so do nodes that are too many to be compared."""
    verdicts = Verdicts()
    verdicts.note(pod("p"), Request(3), REFUSED, b"", 0)
    verdict = verdicts.of("ns", "p")
    assert verdict is not None
    names = [str(at) for at in range(NODES_COMPARED)]
    verdict.called(["0"], 100)

    assert [verdict.may_be_called(["0"], now) for now in (109, 110)] == [False, True]
    assert [verdict.may_be_called(names, now) for now in (104, 105)] == [False, True]
    assert [verdict.may_be_called([*names, "more"], now) for now in (109, 110)] == [False, True]
    verdict.called(["0"], 200)
    assert (verdict.patience, verdict.tried) == (20, {"0"})
    verdict.called(["0", "1"], 300)
    assert (verdict.patience, verdict.tried, verdict.waits_since) == (10, {"0", "1"}, 300)


def test_pod_is_due_if_refused_everywhere_and_not_asked_about() -> None:
    """A refused pod is due once its scheduler had the time to ask again, and each question about it starts that time again."""
    verdicts = Verdicts()
    verdicts.note(pod("refused"), Request(3), REFUSED, b"", 0)
    verdicts.note(pod("fits"), Request(3), FilterResult(["a"], {}, {}), b"", 0)
    verdicts.note(pod("nonsense"), None, REFUSED, b"", 0)
    everybody = ("refused", "fits", "nonsense")

    assert due(verdicts, FIRST_PATIENCE - 0.1, *everybody) == []
    assert due(verdicts, FIRST_PATIENCE, *everybody) == ["refused"]
    verdicts.note(pod("refused"), Request(3), REFUSED, b"", FIRST_PATIENCE)
    assert due(verdicts, FIRST_PATIENCE + 1, *everybody) == []


def test_pod_called_in_vain_is_called_less_and_less_often() -> None:
    """A pod that was called in vain is called less and less often, also if the scheduler asks for it in between."""
    verdicts = Verdicts()
    verdicts.note(pod("p"), Request(3), REFUSED, b"", 0)
    now, waits = 0.0, []
    for _ in range(9):
        (one,) = verdicts.due(now + LAST_PATIENCE, lambda _: PENDING, 9)
        waits.append(one.patience)
        now += LAST_PATIENCE
        one.called(["a"], now)
        verdicts.note(pod("p"), Request(3), REFUSED, b"", now)

    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]


@pytest.mark.parametrize("state", [State.BOUND, State.GONE])
def test_a_pod_that_waits_no_more_is_forgotten(state: State) -> None:
    """A pod that is bound or gone is forgotten as soon as its turn comes."""
    verdicts = Verdicts()
    verdicts.note(pod("ended"), Request(3), REFUSED, b"", 0)
    assert due(verdicts, 10, others=state) == []

    assert (len(verdicts), verdicts.of("ns", "ended")) == (0, None)


def test_a_pod_that_the_watch_will_show_is_not_forgotten() -> None:
    """A watch that is behind shows the pod minutes later: until then it is not called, and then it is."""
    verdicts = Verdicts()
    verdicts.note(pod("p"), Request(3), REFUSED, b"", 50)
    assert due(verdicts, LAST_PATIENCE + 49, others=State.UNKNOWN) == []
    assert due(verdicts, LAST_PATIENCE + 49, "p") == ["p"]
    assert due(verdicts, LAST_PATIENCE + 50, others=State.UNKNOWN) == []

    assert len(verdicts) == 0


def test_longest_waiting_pods_come_first_a_few_at_a_time() -> None:
    """A turn is short."""
    verdicts = Verdicts()
    for name in "abcd":
        verdicts.note(pod(name), Request(3), REFUSED, b"", 0)
    verdicts.note(pod("a"), Request(3), REFUSED, b"", 1)

    assert due(verdicts, 10, *"abcd", most=2) == ["b", "c"]


def test_who_is_passed_over_leaves_room_for_others() -> None:
    """A pod that is passed over leaves room for the others, so that all get their turn in the end."""
    verdicts = Verdicts()
    for name in ("a", "b", "c"):
        verdicts.note(pod(name), Request(3), REFUSED, b"", 0)

    assert [found.metadata.name for found in verdicts.due(10, lambda _: PENDING, 1, {"uid-a", "uid-c"})] == ["b"]


def test_only_the_newest_verdicts_are_kept_node_by_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest verdicts are kept node by node. The others keep only the number of nodes for each reason, to save memory."""
    monkeypatch.setattr(module, "ANSWERS_KEPT", Bound("answers", 7, "bytes"))
    verdicts = Verdicts()
    for name in "abc":
        verdicts.note(pod(name), Request(3), REFUSED, b"abc", 0)
    verdicts.note(pod("b"), Request(3), REFUSED, b"abc", 1)
    found = {name: verdicts.of("ns", name) for name in "abc"}

    assert {name: one is not None and one.answer is not None for name, one in found.items()} == {
        "a": False,
        "b": True,
        "c": True,
    }
    assert found["a"] is not None
    assert found["a"].reasons == {"full": 2, "small": 1}


def test_the_size_of_what_is_kept_stays_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a pod that waits no more had its answer still, or not."""
    monkeypatch.setattr(module, "ANSWERS_KEPT", Bound("answers", 8, "bytes"))
    verdicts = Verdicts()
    for name in "abc":
        verdicts.note(pod(name), Request(3), REFUSED, b"abc", 0)
    verdicts.drop("uid-a")
    verdicts.note(pod("d"), Request(3), REFUSED, b"abc", 0)
    assert [_kept(verdicts, name) for name in "bcd"] == [None, b"abc", b"abc"]
    verdicts.drop("uid-d")
    verdicts.note(pod("e"), Request(3), REFUSED, b"abcde", 0)

    assert [_kept(verdicts, name) for name in "bce"] == [None, b"abc", b"abcde"]


def _kept(verdicts: Verdicts, name: str) -> bytes | None:
    found = verdicts.of("ns", name)
    assert found is not None
    return found.answer


def test_only_so_many_pods_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was asked for longest ago goes."""
    monkeypatch.setattr(module, "MOST_PODS", 2)
    verdicts = Verdicts()
    for name in "abc":
        verdicts.note(pod(name), Request(3), REFUSED, b"", 0)

    assert [verdicts.of("ns", name) is None for name in "abc"] == [True, False, False]
    verdicts.drop("uid-b")
    verdicts.drop("uid-b")
    assert len(verdicts) == 1


def test_a_pod_that_was_refused_everywhere_has_one_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that was refused everywhere has one reason, also once its nodes are forgotten. A pod that fits a node has none."""
    monkeypatch.setattr(module, "ANSWERS_KEPT", Bound("answers", 1, "bytes"))
    verdicts = Verdicts()
    verdicts.note(pod("old"), Request(3), REFUSED, b"a", 0)
    verdicts.note(pod("fits"), Request(3), FilterResult(["a"], {"full": ["b"]}, {}), b"a", 0)
    verdicts.note(pod("small"), Request(3), FilterResult([], {}, {"small": ["c"]}), b"abc", 0)
    found = [verdicts.of("ns", name) for name in ("old", "fits", "small")]

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
    verdicts = Verdicts()
    if answer is not None:
        verdicts.note(pod("p"), Request(3), answer, b"", 0)

    assert reason_of_wait(Wait(None, gated, "s", report, ""), verdicts.of("ns", "p")) == reason


def test_a_verdict_keeps_no_annotations() -> None:
    """Thousands of pods are remembered, and an author may write 256 KiB of them for each."""
    verdicts = Verdicts()
    verdicts.note(ObjectMeta("p", "ns", "uid-p", annotations={"a": "x" * 250_000}), Request(3), REFUSED, b"", 0)
    found = verdicts.of("ns", "p")

    assert found is not None
    assert found.metadata == ObjectMeta("p", "ns", "uid-p")


def test_answers_are_kept_by_their_size() -> None:
    """A question may name few nodes by long names, so nodes are not what is counted."""
    verdicts = Verdicts()
    for at in range(40):
        verdicts.note(pod(str(at)), Request(3), REFUSED, bytes(2**20), 0)
    kept = [verdicts.of("ns", str(at)) for at in range(40)]

    assert sum(len(one.answer or b"") for one in kept if one is not None) == 32 * 2**20
