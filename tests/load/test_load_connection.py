"""Answers put together from what a socket gives."""

from __future__ import annotations

import pytest

from load.bench.bench_connection import Answer, whole_answer

LENGTH = b"HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"
EMPTY = b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "answer"), [(LENGTH, Answer(200, b"hello")), (CHUNKED, Answer(200, b"hello")), (EMPTY, Answer(503, b""))]
)
@pytest.mark.parametrize("size", [1, 7, 20, 1000])
def test_an_answer_is_whole_with_its_last_byte_and_not_before(data, answer, size) -> None:
    """However the bytes come; the original answers in chunks."""
    pieces: list[bytes] = []
    for at in range(0, len(data), size):
        pieces.append(data[at : at + size])
        found = whole_answer(pieces)
        assert (found is not None) == (at + size >= len(data))
    assert found == answer
