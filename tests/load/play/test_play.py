"""The pure parts of a load: when pods come, what a scheduler asks and makes of answers, figures, bounds."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from load.load_commands import LoadError, read_data
from load.play.load_guard import Bounds, judge
from load.play.load_plan import BURST_PODS, SHAPES, weighed, weights_of
from load.play.results import FLOOR, Record, failures, parse, rows
from load.questions import (
    Window,
    WrongAnswerError,
    arguments,
    best,
    binding_arguments,
    fitting,
    highest,
    pod_in_question,
    refusal,
)
from load.replay.trace import SAMPLE, creation_times

NAMES = ["a", "b", "c", "d", "e"]


def test_a_window_goes_on_where_it_stopped() -> None:
    """Each node comes in its turn, and after the last one the first, as in kube-scheduler's window."""
    window = Window(NAMES, 2, start=3)

    assert [window.turn() for _ in range(4)] == [["d", "e"], ["a", "b"], ["c", "d"], ["e", "a"]]
    assert Window(NAMES, 9).turn() == NAMES


def test_a_question_is_that_of_kube_scheduler() -> None:
    """Go's keys, the pod whole, names and no nodes; a bind names the pod's uid."""
    asked = json.loads(arguments(pod_in_question("p", 4), ["a", "b"]))

    assert asked.keys() == {"Pod", "Nodes", "NodeNames"}
    assert asked["Pod"]["spec"]["containers"][0]["resources"]["limits"]["aliyun.com/gpu-mem"] == "4"
    assert (asked["Nodes"], asked["NodeNames"]) == (None, ["a", "b"])
    assert json.loads(binding_arguments("p", "a")) == {
        "PodName": "p", "PodNamespace": "load", "PodUID": "uid-p", "Node": "a",
    }  # fmt: skip


def test_nodes_that_fit_are_read_from_names_or_objects() -> None:
    """The original answers names with full nodes."""
    by_name = json.dumps({"NodeNames": ["b"], "FailedNodes": {"a": "full"}, "Error": ""}).encode()
    by_object = json.dumps({"Nodes": {"items": [{"metadata": {"name": "b"}}]}, "FailedNodes": {"a": ""}}).encode()

    assert fitting(by_name, ["a", "b"]) == fitting(by_object, ["a", "b"]) == ["b"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"<html>", "no ExtenderFilterResult"),
        (b"[]", "no ExtenderFilterResult"),
        (b'{"Error": "not synced"}', "not synced"),
        (b'{"NodeNames": ["a"]}', "names 1 and 0 nodes of 2"),
        (b'{"NodeNames": ["a", "a"]}', "names nodes twice"),
        (b'{"NodeNames": ["a", "x"]}', "that it was not asked about"),
        (b'{"NodeNames": "ab"}', "no ExtenderFilterResult"),
        (b'{"NodeNames": [1, 2]}', "no ExtenderFilterResult"),
        (b'{"NodeNames": ["a"], "FailedNodes": ["b"]}', "no ExtenderFilterResult"),
        (b'{"NodeNames": ["a"], "FailedNodes": {"a": "full"}}', "as fitting and as failed"),
        (b'{"NodeNames": ["a"], "FailedNodes": {"x": "full"}}', "FailedNodes names nodes that it was not asked about"),
        (b'{"NodeNames": ["a", "b"], "Error": NaN}', "no ExtenderFilterResult"),
        (b'\xef\xbb\xbf{"NodeNames": ["a", "b"]}', "no ExtenderFilterResult"),
        (b"", "no ExtenderFilterResult"),
        (b"null", "names 0 and 0 nodes of 2"),
    ],
)
def test_an_answer_that_means_nothing_is_a_failure(answer: bytes, message: str) -> None:
    """A node that is neither named nor refused, too."""
    with pytest.raises(WrongAnswerError, match=message):
        fitting(answer, ["a", "b"])


@pytest.mark.parametrize(
    "answer",
    [
        b'{"nodeNames": ["b"], "failednodes": {"a": "full"}}',
        b'{"NodeNames": ["b"], "FailedNodes": {"a": "full"}}{"NodeNames": []}',
        b' \n{"NodeNames": ["b"], "FailedAndUnresolvableNodes": {"a": "full"}, "Other": 1}\n',
        b'{"NodeNames": ["b"], "Nodes": {"items": [{"metadata": {"name": "a"}}]}, "FailedNodes": {"a": "full"}}',
    ],
)
def test_answers_are_read_as_kube_scheduler_reads_them(answer: bytes) -> None:
    """Members match in any case, the rest behind the first value is not read, and names come before objects."""
    assert fitting(answer, ["a", "b"]) == ["b"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b'[{"Host":"a","Score":5.5}]', "a score is no integer"),
        (b'[{"Host":"a","Score":"5"}]', "a score is no integer"),
        (b'[{"Host":"a","Score":true}]', "a score is no integer"),
        (b'[{"Host":"a","Score":11}]', "a score is not within 0 and 10"),
        (b'[{"Host":"a","Score":-1}]', "a score is not within 0 and 10"),
        (b'[{"Host":"x","Score":5}]', "nodes that it was not asked about"),
        (b'[{"Host":"a","Score":5},{"Host":"a","Score":5}]', "scores nodes twice"),
        (b'[{"Host":["a"],"Score":5}]', "no HostPriorityList"),
        (b'[{"Host":"a"}]', "no HostPriorityList"),
        (b'{"Error":"x"}', "no HostPriorityList"),
    ],
)
def test_scores_that_kube_scheduler_cannot_use_are_failures(answer: bytes, message: str) -> None:
    """The real kube-scheduler decodes integers for the nodes of its question, and weighs scores up to 10."""
    with pytest.raises(WrongAnswerError, match=message):
        highest(answer, ["a", "b"])


def test_a_node_without_a_score_has_none() -> None:
    """An empty list prefers no node."""
    assert highest(b"null", ["a", "b"]) == highest(b"[]", ["a", "b"]) == ["a", "b"]
    assert highest(b'[{"host":"b","score":1}]', ["a", "b"]) == ["b"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"{}", ""),
        (b"null", ""),
        (b'{"error":"full"}', "full"),
        (b'{"Error":""}', ""),
        (b'{"Error":"no room"}', "no room"),
    ],
)
def test_a_bind_without_an_error_is_made(answer: bytes, reason: str) -> None:
    """An answer is a refusal only if it has an error, as kube-scheduler reads it; an empty body is a wrong answer."""
    assert refusal(answer) == reason
    with pytest.raises(WrongAnswerError):
        refusal(b"")


def test_the_best_node_is_one_of_the_highest() -> None:
    """Any of equal ones; a node without a score has none."""
    answer = b'[{"Host":"a","Score":3},{"Host":"b","Score":9},{"Host":"c","Score":9}]'
    found = {best(answer, ["a", "b", "c", "d"], random.Random(seed)) for seed in range(20)}

    assert found == {"b", "c"}
    with pytest.raises(WrongAnswerError, match="no HostPriorityList"):
        best(b'{"Error":""}', ["a"], random.Random(1))


def test_shapes_bring_the_pods_that_were_asked_for() -> None:
    """The mean of a day is its rate; a burst is a Deployment of 1,000 more, once."""
    totals = {
        name: [sum(part) for part in zip(*(shape(second, 20.0, 60.0) for second in range(60)), strict=True)]
        for name, shape in SHAPES.items()
    }

    assert totals["steady"] == [pytest.approx(1200), 0]
    assert totals["burst"] == [pytest.approx(1200), BURST_PODS]
    assert totals["diurnal"] == [pytest.approx(1200), 0]
    day = [SHAPES["diurnal"](second, 20.0, 60.0).rate for second in range(60)]
    assert (min(day), max(day)) == (pytest.approx(4), pytest.approx(36))


def test_a_trace_comes_in_the_time_of_a_run() -> None:
    """The requested number, in the seconds in which its pods came: a burst is still one, and an empty second stays empty."""
    weights = weights_of([1000, 1000, 1000, 1300, 2000], 10)
    shape = weighed(weights)
    assert [round(shape(second, 5.0, 10).rate, 6) for second in range(11)] == [30, 0, 0, 10, 0, 0, 0, 0, 0, 10, 0]
    assert weights_of([7], 3) == [3, 0, 0]

    sample = weights_of(creation_times(SAMPLE, "default"), 60)
    assert sum(sample) == pytest.approx(60)
    assert max(sample) > 3 * sorted(sample)[30]


RECORDS = [
    *(Record(100.0 + at / 10, "filter", "gpushare", float(at + 1), 500, "", "") for at in range(20)),
    *(Record(100.0 + at / 10, FLOOR, "gpushare", 0.5, 500, "", "") for at in range(20)),
    Record(101.0, "bind", "gpushare", 0.1, 12, "", "status 500"),
    Record(101.2, "bind", "gpushare", 4.0, 12, "no card has room", ""),
    Record(101.5, "filter", "http://other", 30.0, 900, "", ""),
    Record(101.6, FLOOR, "http://other", 3.0, 900, "", ""),
]


def test_figures_are_of_each_verb_of_each_extender() -> None:
    """Percentiles in ms, and over what the server that does nothing took."""
    found = {(row["extender"], row["verb"]): row for row in rows(RECORDS, 2.0)}

    assert found.keys() == {
        (extender, verb)
        for extender, verb in [
            ("gpushare", "filter"),
            ("gpushare", "bind"),
            ("gpushare", FLOOR),
            ("http://other", "filter"),
            ("http://other", FLOOR),
        ]
    }
    ours = found["gpushare", "filter"]
    assert (ours["count"], ours["per_second"], ours["p50"], ours["p99"], ours["max"]) == (20, 10.0, 10.0, 20.0, 20.0)
    assert (ours["p50_over_floor"], ours["p999"], ours["p999_over_floor"]) == (20.0, None, None)
    bind = found["gpushare", "bind"]
    assert (bind["failures"], bind["refused"], bind["p50"]) == (1, 1, 4.0)
    assert found["http://other", "filter"]["p50_over_floor"] == 10.0
    assert [one["wrong"] for one in failures(RECORDS)] == ["status 500", "no card has room"]


def test_who_fits_is_the_mean_of_the_questions() -> None:
    """The time of filters; unknown if it was not reported."""
    told = [Record(1.0, "filter", "x", 1.0, 5, "", "", fit) for fit in (0.25, 0.75, None)]
    (found,) = rows(told, 1.0)
    assert found["fit"] == 0.5
    assert rows(RECORDS, 2.0)[0]["fit"] is None


def test_records_are_read_as_they_were_written() -> None:
    """A record has a text of one line for an answer that was wrong."""
    lines = ["100.5\tfilter\tgpushare\t1.25\t500\t\t\t0.25\t\t\n", "101\tbind\tx\t2\t0\tfull\tstatus 500: no\t\tp\tn\n"]
    assert parse(lines) == [
        Record(100.5, "filter", "gpushare", 1.25, 500, "", "", 0.25),
        Record(101.0, "bind", "x", 2.0, 0, "full", "status 500: no", None, "p", "n"),
    ]


def bounds(path: Path, *lines: str) -> Path:
    """A file of bounds."""
    path.write_text("bounds:\n" + "".join(f"  - {{{line}}}\n" for line in lines))
    return path


def test_bounds_are_judged_by_ratio(tmp_path: Path) -> None:
    """Over the server that does nothing, or over another extender; a broken bound is printed with its excess."""
    path = bounds(
        tmp_path / "bounds.yaml",
        "verb: filter, figure: p50, most: 20",
        "verb: filter, figure: p99, most: 32",
        "verb: filter, figure: p50, most: 0.5, over: 'http://other'",
        "verb: bind, figure: failures, most: 0",
        "verb: inspect, figure: p50, most: 9",
        "verb: bind, figure: refused, most: 0.4",
    )
    verdicts = judge(read_data(path, Bounds).bounds, rows(RECORDS, 2.0), "gpushare")

    assert [verdict.is_kept for verdict in verdicts] == [True, False, True, False, None, False]
    assert [verdict.text() for verdict in verdicts] == [
        "kept    filter p50: 20, at most 20 x floor",
        "BROKEN  filter p99: 40, at most 32 x floor, 25% above it",
        "kept    filter p50: 0.3333, at most 0.5 x http://other",
        "BROKEN  bind failures: 1, at most 0",
        "BROKEN  inspect p50: not measured, at most 9 x floor",
        "BROKEN  bind refused: 0.5, at most 0.4, 25% above it",
    ]


def test_a_bound_names_the_extenders_it_applies_to(tmp_path: Path) -> None:
    """By default answers are judged of all and times of ours; to names others, all, or one; an absent one is not measured."""
    path = bounds(
        tmp_path / "bounds.yaml",
        "verb: filter, figure: failures, most: 0",
        "verb: filter, figure: p50, most: 31, to: others",
        "verb: filter, figure: p50, most: 32, to: all",
        "verb: bind, figure: failures, most: 9, to: gpushare",
        "verb: filter, figure: p50, most: 33, to: 'http://other'",
        "verb: filter, figure: p50, most: 34, to: absent",
    )
    found = [
        (one.what, one.most, one.value is not None)
        for one in judge(read_data(path, Bounds).bounds, rows(RECORDS, 2.0), "gpushare")
    ]

    assert found == [
        ("filter failures", 0, True), ("filter p50", 32, True), ("bind failures", 9, True),
        ("http://other filter failures", 0, True), ("http://other filter p50", 31, True),
        ("http://other filter p50", 32, True), ("http://other filter p50", 33, True), ("absent filter p50", 34, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("verb: filter, figure: p98, most: 1", "Invalid enum value 'p98'"),
        ("verb: filter, figure: p50", "missing required field `most`"),
        ("verb: filter, figure: p50, most: -1", "most"),
        ("verb: filter, figure: p50, most: 1, unless: x", "unknown field `unless`"),
    ],
)
def test_a_file_without_bounds_is_refused(tmp_path: Path, line: str, message: str) -> None:
    """One line that names the file."""
    path = bounds(tmp_path / "bounds.yaml", line)

    with pytest.raises(LoadError, match=message) as raised:
        read_data(path, Bounds)

    assert str(path) in str(raised.value)
