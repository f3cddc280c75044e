"""``python -m load.idle_server IDS SOCKET...``: gRPC servers that send one list of this length and then nothing, until killed.

It shows the use of a process of this stack while nothing at all happens: the floor of a device plugin.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import grpc.aio

from clusters.kubelet.proto import deviceplugin_pb2 as pb


async def serve(ids: int, sockets: Sequence[str]) -> None:
    """Until cancelled."""
    devices = [pb.Device(ID=f"gs-{number:013d}", health="Healthy") for number in range(ids)]
    ready = pb.ListAndWatchResponse(devices=devices).SerializeToString()

    async def answer(request: Any, context: Any) -> AsyncIterator[bytes]:
        yield ready
        await asyncio.Event().wait()

    handler: grpc.RpcMethodHandler[Any, bytes] = grpc.unary_stream_rpc_method_handler(
        answer, request_deserializer=pb.Empty.FromString
    )
    methods = grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", {"ListAndWatch": handler})
    servers = []
    for socket in sockets:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((methods,))
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        servers.append(server)
    print("serves", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2:]))
