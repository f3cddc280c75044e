"""Random histories of requests have the same answers and the same watches on both sides.

A failure names the first request whose answer differs. Write the case into the table of its kind when its cause is mended. More:
``--parity-operations 20000 --parity-seed 77``.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from e2e.parity.parity_requests import UnresolvedError, ask, compare, put, resolve
from e2e.parity.random_history import generate
from e2e.parity.sides import Both

_OPERATIONS: Final = 2000
_A_HISTORY: Final = 100
_FIRST_SEED: Final = 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A case for each seed: as many as make up the operations that are asked for."""
    if "seed" in metafunc.fixturenames:
        first = metafunc.config.getoption("--parity-seed", default=_FIRST_SEED)
        operations = metafunc.config.getoption("--parity-operations", default=_OPERATIONS)
        count = max(operations // _A_HISTORY, 1)
        metafunc.parametrize("seed", range(first, first + count))


@pytest.mark.promise("G1-01", "G1-02", "G1-08", "G1-11", "G1-13")
async def test_a_history_is_the_same_on_both(bare: Both, seed: int) -> None:
    """A hundred random requests, and watches of all that they change, are answered equally on both sides."""
    await compare(bare, *generate(seed, _A_HISTORY))


def test_a_seed_is_a_history() -> None:
    """A seed gives the same history each time, another seed another one."""
    assert generate(7, 50) == generate(7, 50)
    assert generate(7, 50) != generate(8, 50)


def test_histories_do_all_kinds_of_things() -> None:
    """Every verb, subresources, selectors, pages, preconditions, every kind of patch."""
    history = [each for seed in range(20) for each in generate(seed, _A_HISTORY)]

    assert {each.method for each in history} == {"GET", "POST", "PUT", "PATCH", "DELETE", "WATCH"}
    assert len({each.content_type for each in history if each.method == "PATCH"}) == 3
    words = ("/status", "/binding", "${version:", "${uid:", "${object:", "${continue:", "~1", "$patch", "fieldSelector")
    assert [word for word in words if word not in str(history)] == []


def answers(number: int) -> Any:
    """The answer to request 1."""
    metadata = {"resourceVersion": "12", "uid": "u", "continue": "more", "labels": {"a": "b"}}
    return {"kind": "Pod", "metadata": metadata} if number == 1 else None


def test_references_become_what_was_answered() -> None:
    """In paths, queries and bodies; the object of another request with changes."""
    body = {"list": ["${uid:1}"], "object": {"${object:1}": {"metadata": {"labels": {"a": None}}}}}
    params: dict[str, Any] = {"resourceVersion": "${version:1}", "continue": "${continue:1}"}
    asked = put("/${ns}/x", body, **params)
    sent = resolve(asked, "mine", answers)

    assert (sent.path, sent.params) == ("/mine/x", {"resourceVersion": "12", "continue": "more"})
    assert sent.body["list"] == ["u"]
    assert sent.body["object"]["metadata"] == {"resourceVersion": "12", "uid": "u", "continue": "more", "labels": {}}


@pytest.mark.parametrize("text", ["${version:7}", "${uid:7}"])
def test_a_reference_to_nothing_is_reported(text: str) -> None:
    """The request is not sent."""
    with pytest.raises(UnresolvedError):
        resolve(ask("GET", "/x", a=text), "mine", answers)
