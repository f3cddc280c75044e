"""Promises of clusters.processes.ports."""

from __future__ import annotations

import asyncio
import socket

import pytest

from clusters.processes.ports import free_port


async def test_a_port_stays_ours_until_a_server_of_ours_listens_on_it() -> None:
    """No other process gets it in between, nor while the server restarts; the server itself may listen."""
    port = free_port()
    for _ in range(2):
        with socket.socket() as somebody, pytest.raises(OSError, match="already in use"):
            somebody.bind(("127.0.0.1", port))
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
        server.close()
        await server.wait_closed()
