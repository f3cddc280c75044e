"""When the programs under test are ready, as one sees it from outside."""

from __future__ import annotations

import httpx2

from clusters.api_client import ApiClient, ApiError
from clusters.resources import NODES

# For one question, in seconds.
_ANSWER_SECONDS = 5
# The plugin writes it after it knows its cards.
_COUNT = "aliyun.com/gpu-count"


async def says_ready(url: str) -> bool:
    """Does a program answer 200 there?"""
    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=_ANSWER_SECONDS) as http:
            return (await http.get(url)).status_code == 200
    except httpx2.TransportError:
        return False


async def announces_cards(api: ApiClient, node: str, resource: str) -> bool:
    """Did the kubelet take the plugin's list, which has some of that resource, and did the plugin write what its cards are?"""
    try:
        status = (await api.get(NODES, node))["status"]
    except ApiError:
        return False
    amounts = status.get("allocatable") or {}
    return str(amounts.get(resource, "0")) != "0" and _COUNT in amounts
