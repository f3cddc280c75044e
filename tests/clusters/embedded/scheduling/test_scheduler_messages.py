from __future__ import annotations

import json
from typing import Any

import pytest

from clusters.embedded.scheduling.go_json import AnswerError
from clusters.embedded.scheduling.preemption import Victims
from clusters.embedded.scheduling.scheduler_messages import (
    FilterAnswer,
    bind_request,
    decode_bind,
    decode_filter,
    decode_preempt,
    decode_prioritize,
    filter_request,
    preempt_request,
)
from tests.clusters.embedded.scheduling.scheduling_objects import make_node, make_pod

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


def test_filter_request_with_nodes_to_the_byte() -> None:
    """The bytes are those that kube-scheduler sends to an extender without a node cache."""
    expected = (
        f'{{"Pod":{GOLDEN_POD},"Nodes":{{"metadata":{{}},"items":['
        '{"metadata":{"name":"n"},"spec":{},"status":{"allocatable":{"cpu":"1"}}}]},"NodeNames":null}'
    )

    assert expected == filter_request(POD, nodes=[NODE]).decode()


def test_bind_request_to_the_byte() -> None:
    """The bytes are those that kube-scheduler sends."""
    expected = '{"PodName":"p","PodNamespace":"ns","PodUID":"u-1","Node":"n1"}'

    assert expected == bind_request(POD, "n1").decode()


def body(message: Any) -> bytes:
    return json.dumps(message).encode()


@pytest.mark.parametrize("case", [str, str.lower, str.upper], ids=["canonical", "lower", "upper"])
def test_decode_filter_in_any_case(case: Any) -> None:
    """Keys of the message in any case; node names are data and keep theirs."""
    answer = {
        case("NodeNames"): ["N1"],
        case("FailedNodes"): {"N2": "full"},
        case("FailedAndUnresolvableNodes"): {"N3": "no card"},
        case("Error"): "",
        "Unknown": 1,
    }

    assert FilterAnswer(["N1"], None, {"N2": "full"}, {"N3": "no card"}) == decode_filter(body(answer))


def test_decode_filter_takes_null_as_absent() -> None:
    """Null and a missing field are the same; an empty list is not."""
    answer = dict.fromkeys(["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"])

    assert FilterAnswer() == decode_filter(body(answer)) == decode_filter(b"{}") == decode_filter(b"null")
    assert FilterAnswer([]) == decode_filter(b'{"NodeNames":[]}')


def test_decode_filter_reads_the_first_value_only() -> None:
    """Go's decoder leaves the rest of the body unread."""
    assert FilterAnswer(["n"]) == decode_filter(b' \n{"NodeNames":["n"]} trailing')


def test_decode_filter_of_the_same_key_twice_keeps_the_last() -> None:
    """Keys that differ in case are the same key."""
    assert FilterAnswer(["b"]) == decode_filter(b'{"NodeNames":["a"],"nodenames":["b"]}')


def test_decode_filter_reads_nodes() -> None:
    """Whole nodes are read from either spelling of the field."""
    answer = decode_filter(body({"nodes": {"metadata": {}, "items": [make_node("n1")]}}))

    assert answer.nodes is not None
    assert ["n1"] == [node["metadata"]["name"] for node in answer.nodes]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"not json",
        b'{"NodeNames":["n"]',
        b"[]",
        b'"text"',
        b'{"NodeNames":"n"}',
        b'{"NodeNames":[1]}',
        b'{"FailedNodes":[]}',
        b'{"FailedNodes":{"n":1}}',
        b'{"Nodes":[]}',
        b'{"Nodes":{"items":{}}}',
        b'{"Nodes":{"items":[1]}}',
        b'{"Error":false}',
        b'{"Error":NaN}',
        b"[" * 100_000,
    ],
)
def test_decode_filter_refuses_what_go_refuses(answer: bytes) -> None:
    """Wrong types, broken JSON and endless nesting are errors."""
    with pytest.raises(AnswerError):
        decode_filter(answer)


def test_decode_filter_with_error_is_always_a_failure() -> None:
    """Names beside an error do not count."""
    with pytest.raises(AnswerError, match=r"^no cache$"):
        decode_filter(body({"NodeNames": ["n"], "Error": "no cache"}))


def test_decode_prioritize() -> None:
    """Hosts and scores are read in order; a score of null is 0."""
    assert [("a", 7), ("b", 0)] == decode_prioritize(b'[{"Host":"a","Score":7},{"host":"b","score":null}]')
    assert [] == decode_prioritize(b"null")


@pytest.mark.parametrize("score", ["1.5", "1.0", "1e1", '"1"', "true", "9223372036854775808"])
def test_decode_prioritize_refuses_all_but_64_bit_integers(score: str) -> None:
    """Fractions, texts and numbers that are too large are errors."""
    with pytest.raises(AnswerError):
        decode_prioritize(f'[{{"Host":"a","Score":{score}}}]'.encode())


def test_decode_prioritize_refuses_an_object() -> None:
    """The answer is a bare array."""
    with pytest.raises(AnswerError, match="HostPriorityList"):
        decode_prioritize(b'{"Host":"a"}')


def test_decode_bind() -> None:
    """Only a text that is not empty is an error."""
    decode_bind(b'{"Error":""}')
    decode_bind(b'{"error":null}')
    with pytest.raises(AnswerError, match=r"^card is gone$"):
        decode_bind(b'{"error":"card is gone"}')


def test_pod_objects_are_left_as_they_were() -> None:
    """Requests are made from the scheduler's own copy."""
    before = json.dumps(POD)

    filter_request(POD, nodes=[NODE])

    assert before == json.dumps(POD)
    assert "kind" in make_pod()


LOW = {**make_pod("low", nodeName="n1"), "kind": "Pod"}


def test_preempt_request_with_uids() -> None:
    """An extender with a node cache gets uids, sorted by node."""
    body = preempt_request(make_pod("high"), {"n2": Victims((), 0), "n1": Victims((LOW,), 1)}, uids_only=True)
    message = json.loads(body)

    assert ["Pod", "NodeNameToVictims", "NodeNameToMetaVictims"] == list(message)
    assert message["NodeNameToVictims"] is None
    assert ["n1", "n2"] == list(message["NodeNameToMetaVictims"])
    assert {"Pods": [{"UID": "uid-low"}], "NumPDBViolations": 1} == message["NodeNameToMetaVictims"]["n1"]


def test_preempt_request_with_whole_pods() -> None:
    """An extender without a node cache gets the pods themselves."""
    message = json.loads(preempt_request(make_pod("high"), {"n1": Victims((LOW,), 0)}, uids_only=False))

    assert message["NodeNameToMetaVictims"] is None
    assert {"metadata", "spec", "status"} == set(message["NodeNameToVictims"]["n1"]["Pods"][0])


def test_decode_preempt() -> None:
    """Each node has uids and violations; null is a node without victims."""
    body = b'{"nodeNameToMetaVictims":{"n1":{"pods":[{"uid":"x"}],"numPDBViolations":2},"n2":null}}'

    assert {"n1": (["x"], 2), "n2": ([], 0)} == decode_preempt(body)
    assert {} == decode_preempt(b"{}")
