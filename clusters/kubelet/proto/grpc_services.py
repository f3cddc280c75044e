"""The services of both protocols over gRPC, read from their descriptors: a stub of each for clients, and handlers for servers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final

import grpc
import grpc.aio
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from clusters.kubelet.proto import deviceplugin_pb2, podresources_pb2

REGISTRATION: Final = deviceplugin_pb2.DESCRIPTOR.services_by_name["Registration"]
DEVICE_PLUGIN: Final = deviceplugin_pb2.DESCRIPTOR.services_by_name["DevicePlugin"]
POD_RESOURCES: Final = podresources_pb2.DESCRIPTOR.services_by_name["PodResourcesLister"]


def stub_of(channel: grpc.aio.Channel, service: ServiceDescriptor) -> SimpleNamespace:
    """The calls of a service, by name."""
    calls = {}
    for call in service.methods:
        of = channel.unary_stream if call.server_streaming else channel.unary_unary
        request, answer = GetMessageClass(call.input_type), GetMessageClass(call.output_type)
        calls[call.name] = of(f"/{service.full_name}/{call.name}", request.SerializeToString, answer.FromString)
    return SimpleNamespace(**calls)


def serve(server: grpc.aio.Server, service: ServiceDescriptor, servicer: object) -> None:
    """Answer each call by the method of its name; without that method it is not implemented."""
    handlers = {}
    for call in service.methods:
        if hasattr(servicer, call.name):
            of = grpc.unary_stream_rpc_method_handler if call.server_streaming else grpc.unary_unary_rpc_method_handler
            request, answer = GetMessageClass(call.input_type), GetMessageClass(call.output_type)
            handlers[call.name] = of(getattr(servicer, call.name), request.FromString, answer.SerializeToString)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))
