"""When the programs under test are ready, as one sees it from outside; and what a plugin announces, for clusters without one."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from clusters.api.api_client import ApiClient, ApiError, Object
from clusters.api.connection import Connection, TransportError
from clusters.api.resources import NODES, PODS, SERVICE_ACCOUNTS

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


# Tells a drain that the pod is a DaemonSet's in all but its owner: an owner that does not exist would have it deleted.
STANDS_FOR: Final = "stands-for-the-pod-of"
# The kubelet of a simulated machine runs an unknown image until the pod is deleted; real nodes have this one already.
_IMAGE: Final = "registry.k8s.io/pause:3.10"
_ENDED: Final = ("Succeeded", "Failed")
# No program renews its token during a test run, so the token must outlive the run: a year instead of the usual hour.
_TOKEN_SECONDS: Final = 365 * 86400


async def find(api: ApiClient, account: str, node: str) -> str:
    """The name of a pod on ``node`` with the ServiceAccount ``account`` (``namespace/name``); "" if there is none."""
    namespace, _, name = account.partition("/")
    pods = await api.list(PODS, namespace, field_selector=f"spec.nodeName={node}")
    return next((str(pod["metadata"]["name"]) for pod in pods if _runs_as(pod, name)), "")


async def ensure(api: ApiClient, account: str, node: str) -> str:
    """The name of such a pod, which is created if there is none. Raises ApiError."""
    found = await find(api, account, node)
    if found:
        return found
    namespace, _, name = account.partition("/")
    manifest = {
        "apiVersion": "v1",
        "kind": PODS.kind,
        "metadata": {"generateName": f"{name}-ds-", "labels": {STANDS_FOR: name}},
        "spec": {
            "serviceAccountName": name,
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            # Without a request the scheduler would count a tenth of a processor when it compares nodes.
            "containers": [
                {"name": "program", "image": _IMAGE, "resources": {"requests": {"cpu": "0", "memory": "0"}}}
            ],
        },
    }
    created = await api.create(manifest, namespace)
    return str(created["metadata"]["name"])


async def service_account_token(api: ApiClient, namespace: str, account: str, pod: str = "") -> str:
    """Request a token. Raises ApiError if there is no such account, or no such ``pod`` of it.

    With ``pod``, the token is bound to that pod of the same namespace: it is valid as long as the pod exists, and the API
    server adds the names of the pod and of its node to the user's extra fields, as for the token that a kubelet mounts.
    """
    spec = {"expirationSeconds": _TOKEN_SECONDS}
    bound = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod}} if pod else {}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {**spec, **bound}}
    answer = await api.request("POST", SERVICE_ACCOUNTS.path(namespace, account, "token"), body=request)
    return str(answer["status"]["token"])


def _runs_as(pod: Object, account: str) -> bool:
    is_going = "deletionTimestamp" in pod["metadata"] or (pod.get("status") or {}).get("phase") in _ENDED
    return pod["spec"].get("serviceAccountName") == account and not is_going
