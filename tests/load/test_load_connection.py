"""Answers put together from what a socket gives."""

from __future__ import annotations

import pytest

from load.bench.bench_questions import Answer, whole_answer

LENGTH = b"HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 5\r\n\r\nhello"
EMPTY = b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(("data", "answer"), [(LENGTH, Answer(200, b"hello")), (EMPTY, Answer(503, b""))])
@pytest.mark.parametrize("size", [1, 7, 20, 1000])
def test_an_answer_is_whole_with_its_last_byte_and_not_before(data, answer, size) -> None:
    """However the bytes come."""
    for at in range(0, len(data), size):
        found = whole_answer(data[: at + size])
        assert (found is not None) == (at + size >= len(data))
    assert found == answer


def test_an_answer_without_a_length_is_refused() -> None:
    """The end of an answer would not be known."""
    with pytest.raises(ConnectionError, match="without Content-Length"):
        whole_answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n")
