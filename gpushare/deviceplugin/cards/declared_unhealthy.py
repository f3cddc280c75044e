"""Cards that an operator declares unhealthy: the ConfigMap ``kube-system/unhealthy-gpu-<node>`` of the contract.

The extender follows it too, and stops placing there immediately; here the kubelet gets the new list. A role without the right
to read it (the original's) is no fault: then only the extender knows.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final
from urllib.parse import quote

from gpushare import wire
from gpushare.deviceplugin.cards.node_status import NodeWriter
from gpushare.deviceplugin.core.health import CardHealth
from gpushare.foreign import Decoder, UnreadableError
from gpushare.kube.api_errors import ApiError, NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.manifests import ConfigMap
from gpushare.model.node import parse_unhealthy

_LOG = logging.getLogger(__name__)

# How often it is read, in seconds: people and scripts write it, and the extender acts on it before that.
POLL_SECONDS: Final = 30.0
_DECODER: Final = Decoder(ConfigMap)
# Characters of the name of a ConfigMap.
_LONGEST_NAME: Final = 253


async def follow_declared(client: ApiClient, node: NodeWriter, health: CardHealth) -> None:
    """Enter the cards of the ConfigMap in ``health``, until cancelled. A node of the longest names can have none."""
    if len(wire.UNHEALTHY_CONFIGMAP_PREFIX + node.name) > _LONGEST_NAME:
        line = "the node's name is too long for a ConfigMap that declares cards unhealthy prefix=%s longest=%d"
        _LOG.warning(line, wire.UNHEALTHY_CONFIGMAP_PREFIX, _LONGEST_NAME - len(wire.UNHEALTHY_CONFIGMAP_PREFIX))
        return
    name = quote(wire.UNHEALTHY_CONFIGMAP_PREFIX + node.name, safe="")
    path = f"/api/v1/namespaces/{wire.UNHEALTHY_CONFIGMAP_NAMESPACE}/configmaps/{name}"
    reported: tuple[str, ...] = ()
    while True:
        try:
            text = await _declared(client, path)
        except (ApiError, UnreadableError) as error:
            # Its last content still holds, be it from before our start.
            _LOG.debug("cannot read path=%s error=%s", path, error)
        else:
            indices, odd = parse_unhealthy(text)
            if odd and odd != reported:
                _LOG.warning("no card indices path=%s entries=%.200s", path, ",".join(odd))
            reported = odd
            health.declared = indices
            node.refresh()
        await asyncio.sleep(POLL_SECONDS)


async def _declared(client: ApiClient, path: str) -> str:
    try:
        found = _DECODER.decode(await client.request("GET", path))
    except NotFoundError:
        return ""
    return (found.data or {}).get("gpus", "")
