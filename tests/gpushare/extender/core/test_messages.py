"""Promises of gpushare.extender.core.messages: the bytes of kube-scheduler, any release."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpushare.extender.core.filter import FilterResult
from gpushare.extender.core.messages import (
    BindingArgs,
    MalformedMessageError,
    decode_args,
    decode_binding,
    decode_pod,
    decode_preemption,
    encode_binding_result,
    encode_filter_error,
    encode_filter_result,
    encode_json,
    encode_priorities,
    encode_victims,
    fits,
    reasons_in,
)
from gpushare.extender.core.preempt import Victims

POD = {
    "metadata": {"name": "p", "namespace": "d", "uid": "u", "creationTimestamp": None},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
NODE = {"metadata": {"name": "n1"}, "spec": {}, "status": {"x": [1, 2.50]}}


@pytest.mark.promise("EXT-002", "EXT-003")
@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({"Pod": POD, "Nodes": None, "NodeNames": ["a", "b"]}, ["a", "b"]),
        ({"pod": POD, "nodes": None, "nodenames": ["a", "b"]}, ["a", "b"]),
        ({"Pod": POD, "nodeNames": ["a", "b"]}, ["a", "b"]),
        ({"pod": POD, "NodeNames": ["a", "b"]}, ["a", "b"]),
        ({"POD": POD, "NODENAMES": ["a", "b"], "Unknown": {"deep": [1]}}, ["a", "b"]),
        ({"Pod": POD, "Nodes": None, "NodeNames": None}, []),
    ],
)
def test_filter_questions_are_read_in_any_casing(document: object, names: list[str]) -> None:
    """Go matches keys without regard to case, and schedulers up to 1.16 send lower case. Null means absent."""
    asked = decode_args(json.dumps(document).encode())

    assert (asked.pod.metadata.name, asked.names, asked.full) == ("p", names, None)


@pytest.mark.promise("EXT-005")
@pytest.mark.parametrize("key", ["Nodes", "nodes"])
def test_full_nodes_keep_their_bytes(key: str) -> None:
    """A scheduler without node cache replaces its Node objects by what comes back."""
    body = json.dumps({"Pod": POD, key: {"metadata": {}, "items": [NODE]}, "NodeNames": None}).encode()
    body = body.replace(b"2.5", b"2.50")
    asking, names, full = decode_args(body)

    assert asking.metadata.name == "p"
    assert full is not None
    assert (names, [json.loads(bytes(node)) for node in full]) == (["n1"], [NODE])
    assert b"2.50" in bytes(full[0])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "^the request body is empty$"),
        (b"  ", "^the request body is empty$"),
        (b"{not json", "^the request body cannot be read: JSON is malformed"),
        (b"[]", "cannot be read"),
        (b'"x"', "cannot be read"),
        (b"{}", "^the request names no Pod$"),
        (b'{"Pod":null}', "^the request names no Pod$"),
        (b'{"Pod":{"metadata":7}}', "cannot be read"),
        (b'{"Pod":{},"NodeNames":[1]}', "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
    ],
)
def test_body_that_is_no_question_is_refused_with_its_fault(body: bytes, says: str) -> None:
    """Never a crash, whatever comes."""
    with pytest.raises(MalformedMessageError, match=says):
        decode_args(body)
    if b'"NodeNames"' not in body:
        with pytest.raises(MalformedMessageError, match=says):
            decode_preemption(body)


DEEP = b'{"f:a":' * 9_990 + b"{}" + b"}" * 9_990
WITH_DEPTHS = b'{"metadata":{"name":"n","uid":"u","managedFields":[{"fieldsV1":%b}]}}' % DEEP


def test_a_question_about_deep_objects_is_answered() -> None:
    """A scheduler that sends pods and nodes whole sends what their authors wrote into them. A large one is refused."""
    asked = decode_args(b'{"Pod":%b,"Nodes":{"items":[%b]}}' % (WITH_DEPTHS, WITH_DEPTHS))
    victims = b'{"Pod":%b,"NodeNameToVictims":{"n":{"Pods":[%b]}}}' % (WITH_DEPTHS, WITH_DEPTHS)

    assert (asked.pod.metadata.name, asked.names) == ("n", ["n"])
    assert decode_preemption(victims)[1] == {"n": Victims(("u",), 0)}
    with pytest.raises(MalformedMessageError, match="nested too deeply"):
        decode_args(b'{"Pod":{},"Nodes":{"items":[%b]}}' % b",".join([WITH_DEPTHS] * 60))


PROPOSED = {"n": {"Pods": [{"UID": "a"}, {"UID": "b"}, {"UID": "a"}, {}], "NumPDBViolations": 2}, "m": None}
READ = {"n": Victims(("a", "b"), 2), "m": Victims((), 0)}


@pytest.mark.parametrize(
    ("document", "read"),
    [
        ({"Pod": POD, "NodeNameToMetaVictims": PROPOSED}, READ),
        ({"Pod": POD, "NodeNameToMetaVictims": PROPOSED, "NodeNameToVictims": {"x": {}}}, READ),
        ({"POD": POD, "nodeNameToMetaVictims": PROPOSED}, READ),
        ({"Pod": POD, "nodeNameToMetaVictims": PROPOSED}, READ),
        ({"pod": POD, "NodeNameToMetaVictims": PROPOSED}, READ),
        ({"Pod": POD, "nodenametovictims": PROPOSED}, READ),
        (
            {"pod": POD, "nodeToVictims": {"n": {"pods": [{"uid": "a"}], "numPDBViolations": 1}}},
            {"n": Victims(("a",), 1)},
        ),
        ({"Pod": POD, "NodeNameToVictims": {"n": {"Pods": [{"metadata": {"uid": "a"}}]}}}, {"n": Victims(("a",), 0)}),
        ({"Pod": POD, "NodeNameToVictims": None}, {}),
    ],
)
def test_preempt_questions_are_read_in_any_form(document: object, read: dict[str, Victims]) -> None:
    """By uid in today's spelling or in lower case, or with whole pods; each victim once."""
    asking, proposed = decode_preemption(json.dumps(document).encode())

    assert (asking.metadata.name, proposed) == ("p", read)


@pytest.mark.promise("EXT-002")
@pytest.mark.parametrize(
    "document",
    [
        {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n"},
        {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "node": "n"},
        {"podname": "p", "podnamespace": "d", "poduid": "u", "node": "n"},
        {"podName": "p", "podNamespace": "d", "podUID": "u", "node": "n", "more": 1},
    ],
)
def test_bind_orders_are_read_in_any_casing(document: object) -> None:
    """Bind orders are read in any casing, as those of filter are."""
    assert decode_binding(json.dumps(document).encode()) == BindingArgs("p", "d", "u", "n")


def test_a_bind_order_that_lacks_something_says_what() -> None:
    """All missing names in one message. A name may have 253 characters, and the uid is not needed."""
    with pytest.raises(MalformedMessageError, match="lacks PodNamespace, Node"):
        decode_binding(b'{"PodName":"p"}')
    with pytest.raises(MalformedMessageError, match="lacks PodName, PodNamespace$"):
        decode_binding(b'{"Node":"n"}')
    order = {"PodName": "a" * 253, "PodNamespace": "d", "Node": "n"}
    assert decode_binding(json.dumps(order).encode()) == BindingArgs("a" * 253, "d", "", "n")


def test_a_pod_alone_is_read() -> None:
    """A pod alone is what a person asks about."""
    assert decode_pod(json.dumps(POD).encode()).metadata.uid == "u"


@pytest.mark.parametrize("name", ["a/../b", "a/b", "..", "%2e", "A", "a b", "a" * 300])
def test_a_strangers_names_are_names(name: str) -> None:
    """A name that Kubernetes does not allow is refused, because a slash in a path would reach another object."""
    with pytest.raises(MalformedMessageError, match="not the name"):
        decode_binding(json.dumps({"PodName": name, "PodNamespace": "d", "Node": "n"}).encode())
    with pytest.raises(MalformedMessageError, match=re.escape(f"{name[:100]!r} is not the name of an object")):
        decode_binding(json.dumps({"PodName": "p", "PodNamespace": name, "Node": "n"}).encode())


@pytest.mark.promise("EXT-001")
def test_answers_have_the_canonical_names_of_go() -> None:
    """Every key present, Error never omitted; full nodes in a list, priorities in the order asked, and victims by uid."""
    full = json.loads(encode_filter_result(FilterResult(["n1"], {}, {}), [msgspec.Raw(json.dumps(NODE).encode())]))
    assert full["Nodes"] == {"metadata": {}, "items": [NODE]}
    assert json.loads(encode_filter_error("why")) == {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": None,
        "FailedAndUnresolvableNodes": None,
        "Error": "why",
    }
    assert (encode_binding_result(), encode_binding_result("no")) == (b'{"Error":""}', b'{"Error":"no"}')
    assert encode_priorities({"b": 3, "a": 10}) == b'[{"Host":"b","Score":3},{"Host":"a","Score":10}]'
    assert json.loads(encode_victims({"n": Victims(("a", "b"), 2)})) == {
        "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 2}}
    }
    assert encode_json({"a": [1, None]}) == b'{"a":[1,null]}'


def test_what_fits_is_found_in_an_answer() -> None:
    """Only a whole name, and only among those that fit, whatever full nodes contain and others are called."""
    full = msgspec.Raw(b'{"metadata":{"name":"a-1","labels":{"FailedNodes":"c"}}}')
    names = ["c", "FailedNodes", "a"]
    answer = encode_filter_result(FilterResult(["a-1", "b"], {"full": ["NodeNames", *names]}, {"none": ["d"]}), [full])

    assert [name for name in ("a-1", "b", "d", "full", *names) if fits(answer, name)] == ["a-1", "b"]


_WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
_REFUSED = st.dictionaries(_WORDS, st.lists(_WORDS, min_size=1, max_size=4, unique=True), max_size=3)


@pytest.mark.promise("EXT-001")
@given(st.lists(_WORDS, max_size=3), _REFUSED, _REFUSED)
@example(["a"], {"full": ["b", "c"], "no slot": ["d"]}, {"none": ["e"]})
@example([], {"full": ['","', '"', "\\", ",", "\n"]}, {})
def test_a_filter_answer_says_of_each_name_what_was_found(
    fitting: list[str], failed: dict[str, list[str]], unresolvable: dict[str, list[str]]
) -> None:
    """However odd the texts; and it can be read back for an explanation."""
    answer = encode_filter_result(FilterResult(fitting, failed, unresolvable))
    by_name = [{name: reason for reason, names in one.items() for name in names} for one in (failed, unresolvable)]

    assert json.loads(answer) == {
        "Nodes": None,
        "NodeNames": fitting,
        "FailedNodes": by_name[0],
        "FailedAndUnresolvableNodes": by_name[1],
        "Error": "",
    }
    assert reasons_in(answer) == {**dict.fromkeys(fitting, ""), **by_name[0], **by_name[1]}


LONG = "x" * 5_000_000
NAMES = ["n"] * 20_001
VICTIMS = {"Pods": [{"UID": "u"}] * 1_001}
MANY_PODS = {"n": {"Pods": [{}] * 2_000_001}}
NODES_BOUND, BYTES_BOUND = "nodes of a question is limited to 20000", "in full, is limited to 4194304 bytes"
CONTAINERS_BOUND = "containers of a pod is limited to 1024"
VICTIMS_BOUND = "its victims in full is limited to 2000000 values"


@pytest.mark.parametrize(
    ("decode", "body", "refusal"),
    [
        (decode_args, {"Pod": POD, "NodeNames": NAMES}, NODES_BOUND),
        (decode_args, {"pod": POD, "nodenames": NAMES}, NODES_BOUND),
        (decode_args, {"Pod": POD, "Nodes": {"items": [{}] * 20_001}}, NODES_BOUND),
        (
            decode_args,
            {"Pod": POD, "Nodes": {"items": [0] * 8_000_000}},
            "its nodes in full is limited to 8000000 values",
        ),
        (decode_args, {"Pod": POD, "NodeNames": [LONG]}, BYTES_BOUND),
        (decode_args, {"Pod": POD, "Nodes": {"items": []}, "x": LONG}, BYTES_BOUND),
        (decode_args, {"Pod": {"spec": {"containers": [{}] * 1_025}}}, CONTAINERS_BOUND),
        (decode_args, {"Pod": {"spec": {"initContainers": [{}] * 1_025}}}, CONTAINERS_BOUND),
        (decode_args, {"Pod": {"spec": {"containers": [{}] * 600, "initContainers": [{}] * 600}}}, CONTAINERS_BOUND),
        *(
            (decode_args, {"Pod": {"metadata": {key: "u" * 254}}}, "uid of a pod is limited to 253 characters")
            for key in ("name", "namespace", "uid")
        ),
        (decode_pod, {"spec": {"containers": [{}] * 1_025}}, CONTAINERS_BOUND),
        (decode_pod, {"metadata": {"name": LONG}}, BYTES_BOUND),
        (decode_binding, {"PodName": "p", "PodNamespace": "d", "Node": "n" * 70_000}, "bind is limited to 65536 bytes"),
        (
            decode_preemption,
            {"Pod": POD, "NodeNameToMetaVictims": dict.fromkeys(map(str, range(20_001)))},
            NODES_BOUND,
        ),
        (
            decode_preemption,
            {"Pod": POD, "NodeNameToMetaVictims": dict.fromkeys(map(str, range(100)), VICTIMS)},
            "victims of a question is limited to 100000",
        ),
        (decode_preemption, {"Pod": POD, "NodeNameToVictims": MANY_PODS}, VICTIMS_BOUND),
        (decode_preemption, {"pod": POD, "nodeNameToVictims": MANY_PODS}, VICTIMS_BOUND),
        (decode_preemption, {"Pod": {"spec": {"containers": [{}] * 1_025}}}, CONTAINERS_BOUND),
    ],
)
def test_a_question_has_bounds(decode: Callable[[bytes], object], body: object, refusal: str) -> None:
    """More than a scheduler asks of is refused, before it takes much more memory than its bytes."""
    with pytest.raises(MalformedMessageError, match=refusal):
        decode(msgspec.json.encode(body))
