"""The questions of kube-scheduler to an extender, and how it reads the answers."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("read", "answer", "message"),
    [
        (fitting, b"<html>", "no ExtenderFilterResult"),
        (fitting, b'{"Error": "not synced"}', "not synced"),
        (fitting, b'{"NodeNames": ["a"]}', "names 1 and 0 nodes of 2"),
        (fitting, b'{"NodeNames": ["a", "a"]}', "names nodes twice"),
        (fitting, b'{"NodeNames": ["a", "x"]}', "that it was not asked about"),
        (fitting, b'{"NodeNames": [1, 2]}', "no ExtenderFilterResult"),
        (fitting, b'{"NodeNames": ["a"], "FailedNodes": {"a": "full"}}', "as fitting and as failed"),
        (fitting, b'{"NodeNames": ["a"], "FailedNodes": {"x": "full"}}', "names nodes that it was not asked about"),
        (fitting, b'{"NodeNames": ["a", "b"], "Error": NaN}', "no ExtenderFilterResult"),
        (fitting, b"null", "names 0 and 0 nodes of 2"),
        (highest, b'[{"Host":"a","Score":true}]', "a score is no integer"),
        (highest, b'[{"Host":"a","Score":11}]', "a score is not within 0 and 10"),
        (highest, b'[{"Host":"a","Score":-1}]', "a score is not within 0 and 10"),
        (highest, b'[{"Host":"x","Score":5}]', "nodes that it was not asked about"),
        (highest, b'[{"Host":"a","Score":5},{"Host":"a","Score":5}]', "scores nodes twice"),
        (highest, b'[{"Host":"a"}]', "no HostPriorityList"),
    ],
)
def test_an_answer_that_kube_scheduler_cannot_use_fails(read: Any, answer: bytes, message: str) -> None:
    """A node that is neither named nor refused is a failure, too; so is a score beyond 10."""
    with pytest.raises(WrongAnswerError, match=message):
        read(answer, ["a", "b"])


@pytest.mark.parametrize(
    "answer",
    [
        b'{"Nodes": {"items": [{"metadata": {"name": "b"}}]}, "FailedNodes": {"a": ""}}',
        b'{"nodeNames": ["b"], "failednodes": {"a": "full"}}',
        b'{"NodeNames": ["b"], "FailedNodes": {"a": "full"}}{"NodeNames": []}',
        b' \n{"NodeNames": ["b"], "FailedAndUnresolvableNodes": {"a": "full"}, "Other": 1}\n',
    ],
)
def test_answers_are_read_as_kube_scheduler_reads_them(answer: bytes) -> None:
    """Members match in any case, and the rest behind the first value is not read. The original answers with full nodes."""
    assert fitting(answer, ["a", "b"]) == ["b"]


def test_a_bind_without_an_error_is_made() -> None:
    """An answer is a refusal only if it has an error; an empty body is a wrong answer."""
    assert [refusal(one) for one in (b"null", b'{"Error":""}', b'{"Error":"no room"}')] == ["", "", "no room"]
    with pytest.raises(WrongAnswerError):
        refusal(b"")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (b"[]", set(NAMES)),
        (b'[{"host":"b","score":1}]', {"b"}),
        (b'[{"Host":"a","Score":3},{"Host":"b","Score":9},{"Host":"c","Score":9}]', {"b", "c"}),
    ],
)
def test_the_best_node_is_one_of_the_highest(answer: bytes, found: set[str]) -> None:
    """Any of equal ones; a node without a score has none, and an empty list prefers no node."""
    assert {best(answer, NAMES, random.Random(seed)) for seed in range(40)} == found
