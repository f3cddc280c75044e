"""Promises of clusters.api.readiness."""

from __future__ import annotations

import asyncio

import pytest

from clusters.api.readiness import answers


@pytest.mark.parametrize(
    ("reply", "expected"), [(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", True), (b"", False)]
)
async def test_a_program_is_up_once_it_answers(reply: bytes, expected: bool) -> None:
    """A forwarded port takes connections before the program behind it does, and closes them."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]

        assert await answers(f"http://127.0.0.1:{port}/") is expected
