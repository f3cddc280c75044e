"""No bytes raise an unhandled error in the extender, none change its book: those that a fuzzer found, and some of chance."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.fuzz.extender_edge import BrokenError, Edge
from tests.fuzz.seeds import beginnings, found, framed

_MUTATED = 3000


@pytest.fixture
def edge() -> Iterator[Edge]:
    """With a small cluster."""
    edge = Edge()
    yield edge
    edge.close()


def test_every_kind_of_request_is_answered(edge: Edge) -> None:
    """The rig reaches its goal: each beginning has an answer, and most of them are answers of the verbs."""
    answers = [edge.feed(framed(data)) for data in beginnings()]

    assert all(answers)
    assert sum(statuses[0] == 200 for statuses in answers) > len(answers) // 2


def test_what_the_fuzzer_found_breaks_nothing(edge: Edge) -> None:
    """Inputs that reached other code than those before them."""
    inputs = found()
    for data in inputs:
        edge.feed(framed(data))

    assert len(inputs) > 100


def test_bytes_of_chance_break_nothing(edge: Edge) -> None:
    """Beginnings with bytes changed, left out, doubled and swapped, as a fuzzer does; the same in each run."""
    rng = random.Random(7)
    known = [*beginnings(), *found()]
    for _ in range(_MUTATED):
        data = bytearray(rng.choice(known))
        for _ in range(rng.randint(1, 4)):
            _mutate(rng, data)
        edge.feed(framed(bytes(data)))


def test_the_rig_sees_an_unhandled_error() -> None:
    """The rig reports an unhandled error of the code that answers the probe."""

    def fail() -> bool:
        raise RuntimeError

    edge = Edge(is_ready=fail)
    with pytest.raises(BrokenError, match="answered with"):
        edge.feed(b"GET /readyz HTTP/1.1\r\n\r\n")
    edge.close()


def test_the_rig_sees_a_change_of_the_book(edge: Edge) -> None:
    """The rig reports a changed book, from which a node is gone."""
    edge.book.remove_node("n2")
    with pytest.raises(BrokenError, match="the book has changed"):
        edge.feed(b"GET /version HTTP/1.1\r\n\r\n")


def _mutate(rng: random.Random, data: bytearray) -> None:
    """Change some bytes in one of five ways."""
    at = rng.randrange(len(data) + 1)
    match rng.randrange(5):
        case 0:
            data[at:at] = rng.randbytes(rng.randint(1, 4))
        case 1:
            del data[at : at + rng.randint(1, 8)]
        case 2:
            data[at : at + 1] = rng.choice(
                [b"\r\n", b'"', b"{", b"}", b"[", b"null", b"-1", b"9" * 30, b"\xff", b"1e999"]
            )
        case 3:
            other = rng.randrange(len(data) + 1)
            data[at:at] = data[other : other + 20]
        case _ if data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
