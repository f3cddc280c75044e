"""``python -m load.idle_server SOCKET...``: gRPC servers that send one empty list and then nothing, until they are killed.

It shows the use of a process of this stack while nothing at all happens: the floor of a device plugin at rest.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc.aio

from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.kubelet.proto import deviceplugin_pb2_grpc as pb_grpc


class _Silent(pb_grpc.DevicePluginServicer):
    async def ListAndWatch(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        yield pb.ListAndWatchResponse()
        await asyncio.Event().wait()


async def serve(sockets: Sequence[str]) -> None:
    """Until cancelled."""
    servers = []
    for socket in sockets:
        server = grpc.aio.server()
        pb_grpc.add_DevicePluginServicer_to_server(_Silent(), server)
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        servers.append(server)
    print("serves", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1:]))
