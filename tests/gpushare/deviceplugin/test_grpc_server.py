"""Promises of gpushare.deviceplugin.grpc_server; e2e/device_plugin has those that a kubelet sees."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import grpc.aio

from gpushare.deviceplugin.allocation.allocate import Allocator
from gpushare.deviceplugin.cards.node_status import NodeWriter
from gpushare.deviceplugin.core import devices
from gpushare.deviceplugin.grpc_server import DevicePluginServer
from gpushare.deviceplugin.proto import deviceplugin_pb2 as pb
from gpushare.model.cards import CardFacts
from tests.counted import bytes_of


def test_a_list_takes_little_more_memory_than_its_ids() -> None:
    """A kubelet takes 128,000 of them, so no second list of devices may stand beside the message."""
    cards = tuple(CardFacts(number, f"GPU-{number:08}", "T4", 4000, 4000) for number in range(6))
    node = SimpleNamespace(listeners=[], kept_ids=frozenset, cards=SimpleNamespace(cards=cards, mode="ids"))
    server = DevicePluginServer(cast("Allocator", object()), cast("NodeWriter", node))

    async def listed() -> int:
        context = cast("grpc.aio.ServicerContext[object, object]", None)
        return len((await anext(server.ListAndWatch(pb.Empty(), context))).devices)

    assert asyncio.run(listed()) == 4000 * len(cards)
    assert bytes_of(lambda: asyncio.run(listed())) < 1.5 * bytes_of(lambda: devices.device_list(cards))
