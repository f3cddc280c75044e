"""Promises of the pure parts: generation, references, normal forms, comparison, shrinking."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.parity.histories.history_compare import compare
from e2e.parity.histories.history_replay import Answer, Record, Stream
from e2e.parity.histories.operations import (
    WATCH,
    History,
    Operation,
    UnresolvedError,
    decode,
    encode,
    resolve,
)
from e2e.parity.histories.random_history import generate
from e2e.parity.histories.shrink import shrink

_UIDS = ("11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222")


def test_a_seed_is_a_history() -> None:
    """A seed gives the same history each time, another seed another one, each of as many operations as were asked for."""
    assert generate(7, 50) == generate(7, 50)
    assert generate(7, 50) != generate(8, 50)
    assert [each.id for each in generate(7, 50)] == list(range(50))


def test_a_history_can_be_written_down() -> None:
    """An operation a line, and read again as it was."""
    history = generate(3, 40)
    text = encode(history)

    assert decode(text) == history
    assert len(text.splitlines()) == 42


def test_histories_do_all_kinds_of_things() -> None:
    """Every verb, subresources, selectors, pages, preconditions, every kind of patch."""
    history = [each for seed in range(20) for each in generate(seed, 100)]
    text = encode(history)

    assert {each.method for each in history} == {"GET", "POST", "PUT", "PATCH", "DELETE", WATCH}
    assert len({each.content_type for each in history if each.method == "PATCH"}) >= 4
    for word in (
        "/status",
        "/binding",
        "${version:",
        "${uid:",
        "${object:",
        "${continue:",
        "~1",
        "$patch",
        "fieldSelector",
    ):
        assert word in text


def answers(number: int) -> Any:
    """The answer to operation 1."""
    metadata = {"resourceVersion": "12", "uid": "u", "continue": "more", "labels": {"a": "b"}}
    return {"kind": "Pod", "metadata": metadata} if number == 1 else None


def test_references_become_what_was_answered() -> None:
    """In paths, queries and bodies; the object of another operation with changes."""
    operation = Operation(
        2,
        "PUT",
        "/${ns}/x",
        params={"resourceVersion": "${version:1}", "continue": "${continue:1}"},
        body={"list": ["${uid:1}"], "object": {"${object:1}": {"metadata": {"labels": {"a": None}}}}},
    )
    sent = resolve(operation, "mine", answers)

    assert (sent.path, sent.params) == ("/mine/x", {"resourceVersion": "12", "continue": "more"})
    assert sent.body["list"] == ["u"]
    assert sent.body["object"]["metadata"] == {"resourceVersion": "12", "uid": "u", "continue": "more", "labels": {}}


@pytest.mark.parametrize("text", ["${version:7}", "${uid:7}"])
def test_a_reference_to_nothing_is_reported(text: str) -> None:
    """The operation is not sent."""
    with pytest.raises(UnresolvedError):
        resolve(Operation(9, "GET", "/x", params={"a": text}), "mine", answers)


def record(namespace: str, first: int, uid: str, **more: Any) -> Record:
    """A side with writes that begin at ``first``: a ConfigMap is created and changed."""
    item = {"metadata": {"name": "a", "namespace": namespace, "uid": uid, "resourceVersion": str(first)}, **more}
    later = {**item, "metadata": {**item["metadata"], "resourceVersion": str(first + 3)}}
    events = [{"type": "ADDED", "object": item}, {"type": "MODIFIED", "object": later}]
    return Record(namespace, answers={0: Answer(201, item)}, whole={"configmaps": Stream(events, ended="end")})


def test_what_is_each_servers_own_is_no_difference() -> None:
    """Numbers of writes, uids, namespaces, times, managers of fields."""
    first = record("one", 10, _UIDS[0], time="2026-01-01T00:00:00Z", managedFields=[{"manager": "x"}])
    second = record("two", 900, _UIDS[1], time="2026-11-11T11:11:11Z")

    assert compare(first, second) == []


def test_another_write_is_a_difference() -> None:
    """A resourceVersion means one write, and the other side must show the same."""
    first, second = record("one", 10, _UIDS[0]), record("one", 10, _UIDS[0])
    second.answers[0] = Answer(201, second.whole["configmaps"].events[1]["object"])
    (found,) = compare(first, second)

    assert (found.operation, found.what) == (0, ".body.metadata.resourceVersion")
    assert (found.first, found.second) == ("write 0", "write 1")


def test_the_least_difference_is_reported() -> None:
    """Where it stands, and both values; null is not absent."""
    first, second = record("one", 10, _UIDS[0], data={"a": 1}), record("one", 10, _UIDS[0], data={"a": 1, "b": None})
    found = compare(first, second)

    assert found[0].what == ".body.data.b"
    assert "(absent)" in found[0].text()


@pytest.mark.parametrize("other", [True, 1.0, "1"])
def test_values_that_only_python_takes_for_equal_differ(other: Any) -> None:
    """A client in Go cannot read 1.0 or true in the place of 1."""
    assert compare(record("one", 10, _UIDS[0], count=1), record("two", 10, _UIDS[0], count=other))


def test_a_watch_that_says_less_is_a_difference() -> None:
    """An event that is missing, and one that came another way."""
    first, second = record("one", 10, _UIDS[0]), record("one", 10, _UIDS[0])
    first.watches[1] = Stream(first.whole["configmaps"].events, ended="end")
    second.watches[1] = Stream(second.whole["configmaps"].events[1:], ended="end")

    assert {each.operation for each in compare(first, second)} == {1}


async def test_shrinking_leaves_what_is_needed() -> None:
    """Two operations that only together fail, of a hundred."""
    history = generate(5, 100)

    async def fails(candidate: History) -> bool:
        return {17, 80} <= {each.id for each in candidate}

    assert [each.id for each in await shrink(history, fails, most_runs=200)] == [17, 80]
