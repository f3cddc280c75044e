"""Wait for the end of a ListAndWatch stream as a kubelet sees it."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio


async def stream_ended(stream: Any) -> bool:
    """Whether the next read ends the stream: by its status OK, or by a connection that the server closed before that was read."""
    try:
        return await stream.read() is grpc.aio.EOF
    except grpc.aio.AioRpcError as error:
        return error.code() is grpc.StatusCode.UNAVAILABLE
