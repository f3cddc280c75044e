"""When the programs under test are ready, as one sees it from outside; and what a plugin announces, for clusters without one."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import Connection, TransportError
from clusters.api.resources import NODES

# For one question, in seconds.
_ANSWER_SECONDS = 5
# A plugin of gpushare writes it after it knows its cards.
_OURS, _COUNT = "aliyun.com/gpu-", "aliyun.com/gpu-count"
# One GiB, which is a plugin's unit unless a flag names another.
_MIB_PER_UNIT: Final = 1024


async def is_up(origin: str, ready: str, tls: ssl.SSLContext | None = None) -> bool:
    """Is the program at ``http://host:port`` up: does its path ``ready`` answer 200, or if it has none, is its port open?"""
    return await (says_ready(origin + ready, tls) if ready else _takes_connections(origin))


async def _takes_connections(origin: str) -> bool:
    parts = urlsplit(origin)
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def says_ready(url: str, tls: ssl.SSLContext | None = None) -> bool:
    """Does a program answer 200 there?"""
    return await _status(url, tls) == 200


async def answers(url: str) -> bool:
    """Does a program answer there, whatever its answer is?"""
    return await _status(url) is not None


async def _status(url: str, tls: ssl.SSLContext | None = None) -> int | None:
    try:
        async with asyncio.timeout(_ANSWER_SECONDS), Connection(tls=tls) as http:
            return (await http.request("GET", url)).status_code
    except (TransportError, TimeoutError):
        return None


async def announces_cards(api: ApiClient, node: str, resource: str, *, may_be_none: bool = False) -> bool:
    """Did the kubelet take the plugin's list, which has some of that resource, and one of gpushare the number of its cards?

    With ``may_be_none`` the list may be empty: the cards of the node do not report how much memory they have.
    """
    try:
        status = (await api.get(NODES, node))["status"]
    except ApiError:
        return False
    amounts = status.get("allocatable") or {}
    amount = str(amounts.get(resource, ""))
    return amount != "" and (may_be_none or amount != "0") and (_COUNT in amounts or not resource.startswith(_OURS))


async def announce_cards(api: ApiClient, node: str, cards: Sequence[Mapping[str, Any]]) -> None:
    """Write on the Node what a device plugin announces for these cards; for clusters without one."""
    units = sum(card["memory"]["total_mib"] // _MIB_PER_UNIT for card in cards)
    amounts = {"aliyun.com/gpu-mem": str(units), _COUNT: str(len(cards))}
    status = {"status": {"capacity": amounts, "allocatable": amounts}}
    await api.patch(NODES, node, status, subresource="status")
