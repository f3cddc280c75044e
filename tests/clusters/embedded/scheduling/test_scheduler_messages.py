"""The JSON that the embedded scheduler sends to an extender."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusters.embedded.scheduling.preemption import Victims
from clusters.embedded.scheduling.scheduler_messages import (
    AnswerError,
    bind_request,
    decode_bind,
    decode_filter,
    decode_preempt,
    decode_prioritize,
    filter_request,
    preempt_request,
)
from tests.clusters.embedded.scheduling.scheduling_objects import make_pod

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "ns", "uid": "u-1", "managedFields": [{"manager": "kubectl"}]},
    "spec": {"containers": [{"name": "c", "command": ["sh", "-c", "a <b> && ü"]}]},
}
GOLDEN_POD = (
    '{"metadata":{"name":"p","namespace":"ns","uid":"u-1"},'
    '"spec":{"containers":[{"name":"c","command":["sh","-c","a \\u003cb\\u003e \\u0026\\u0026 ü"]}]},"status":{}}'
)
NODE = {"kind": "Node", "metadata": {"name": "n"}, "spec": {}, "status": {"allocatable": {"cpu": "1"}}}


def test_filter_request_with_names_to_the_byte() -> None:
    """Go field names, null for the nodes, Go's escapes, and the pod without kind and managedFields."""
    expected = f'{{"Pod":{GOLDEN_POD},"Nodes":null,"NodeNames":["a","b"]}}'

    assert expected == filter_request(POD, names=["a", "b"]).decode()


def test_bind_request_to_the_byte() -> None:
    """The bytes are those that kube-scheduler sends."""
    expected = '{"PodName":"p","PodNamespace":"ns","PodUID":"u-1","Node":"n1"}'

    assert expected == bind_request(POD, "n1").decode()


@pytest.mark.parametrize("case", [str, str.lower, str.upper], ids=["canonical", "lower", "upper"])
def test_decode_filter_in_any_case(case: Any) -> None:
    """Keys of the message in any case, and what follows it is not read; node names are data and keep theirs."""
    message = {
        case("NodeNames"): ["N1"],
        case("FailedNodes"): {"N2": "full"},
        case("FailedAndUnresolvableNodes"): {"N3": "no card"},
        case("Error"): "",
        "Unknown": 1,
    }
    answer = decode_filter(json.dumps(message).encode() + b" trailing")

    assert (answer.nodenames, answer.failednodes) == (["N1"], {"N2": "full"})
    assert (answer.nodes, answer.failedandunresolvablenodes) == (None, {"N3": "no card"})


def test_decode_filter_takes_null_as_absent() -> None:
    """An empty list is not absent; of keys that differ in case the last wins."""
    nulls = dict.fromkeys(["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"])

    assert decode_filter(json.dumps(nulls).encode()) == decode_filter(b"{}") == decode_filter(b"null")
    assert decode_filter(b'{"NodeNames":["a"],"nodenames":[]}').nodenames == []
    assert decode_filter(b'{"Nodes":{"items":null}}') == decode_filter(b'{"Nodes":{}}')


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"not json",
        b'{"NodeNames":["n"]',
        b"[]",
        b'{"NodeNames":"n"}',
        b'{"FailedNodes":{"n":1}}',
        b'{"Nodes":[]}',
        b'{"Error":NaN}',
        b'{"NodeNames":["n"],"Error":"no cache"}',
    ],
)
def test_decode_filter_refuses_what_go_refuses(answer: bytes) -> None:
    """Wrong types, broken JSON and any Error are errors."""
    with pytest.raises(AnswerError):
        decode_filter(answer)


def test_decode_prioritize() -> None:
    """Hosts and scores are read in order; a score of null is 0."""
    assert [("a", 7), ("b", 0)] == decode_prioritize(b'[{"Host":"a","Score":7},{"host":"b","score":null}]')
    assert [] == decode_prioritize(b"null")


@pytest.mark.parametrize("score", ["1.5", "1.0", '"1"', "true"])
def test_decode_prioritize_refuses_all_but_integers(score: str) -> None:
    """Fractions and texts are errors."""
    with pytest.raises(AnswerError):
        decode_prioritize(f'[{{"Host":"a","Score":{score}}}]'.encode())


def test_decode_prioritize_refuses_an_object() -> None:
    """The answer is a bare array."""
    with pytest.raises(AnswerError):
        decode_prioritize(b'{"Host":"a"}')


def test_decode_bind() -> None:
    """The answer to bind is an error only if its error text is not empty."""
    decode_bind(b'{"Error":""}')
    decode_bind(b'{"error":null}')
    with pytest.raises(AnswerError, match=r"^card is gone$"):
        decode_bind(b'{"error":"card is gone"}')


LOW = {**make_pod("low", nodeName="n1"), "kind": "Pod"}


def test_preempt_request_with_uids() -> None:
    """An extender with a node cache gets uids, sorted by node."""
    body = preempt_request(make_pod("high"), {"n2": Victims((), 0), "n1": Victims((LOW,), 1)}, uids_only=True)
    message = json.loads(body)

    assert ["Pod", "NodeNameToVictims", "NodeNameToMetaVictims"] == list(message)
    assert message["NodeNameToVictims"] is None
    assert ["n1", "n2"] == list(message["NodeNameToMetaVictims"])
    assert {"Pods": [{"UID": "uid-low"}], "NumPDBViolations": 1} == message["NodeNameToMetaVictims"]["n1"]


def test_decode_preempt() -> None:
    """Each node has uids and violations; null is a node without victims."""
    body = b'{"nodeNameToMetaVictims":{"n1":{"pods":[{"uid":"x"}],"numPDBViolations":2},"n2":null}}'

    assert {"n1": (["x"], 2), "n2": ([], 0)} == decode_preempt(body)
    assert {} == decode_preempt(b"{}")


def test_pod_objects_are_left_as_they_were() -> None:
    """Requests are made from the scheduler's own copy, which stays unchanged."""
    asked = make_pod()
    before = json.dumps(asked)

    filter_request(asked, names=["n"])

    assert before == json.dumps(asked)
