"""Pods of a former boot of the machine that their status still shows as running (``model.pod.is_lingering``).

None of their processes is left, but after a shutdown of the node nothing may ever correct the status (kubernetes/kubernetes#98012),
and the pod would keep its card. When the plugin starts in another boot than the one that the cards annotation names, it ends
those that linger: it writes the boot on them, which the extender and ``inspect`` read. It does so before it registers and
before it publishes the boot, so a pod of this boot cannot be among them, and an interrupted start does it again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.cards.node_status import NodeWriter
from gpushare.deviceplugin.core.node_pods import NodePods
from gpushare.kube.api_errors import ApiError, ConflictError, ForbiddenError, InvalidError, NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import Pod
from gpushare.model.pod import is_lingering

_LOG = logging.getLogger(__name__)

RETRY_SECONDS: Final = 2.0
_TEXT: Final = (
    "the node has booted since this pod ended, so none of its containers is left, whatever its status shows: "
    "its GPU memory is free"
)


async def end_pods_of_former_boot(client: ApiClient, node: NodeWriter, pods: NodePods, events: EventRecorder) -> None:
    """Write on each pod that lingers that the present boot has ended it, if the machine has booted since the plugin last ran.

    An API server that does not answer is asked again; a pod that it refuses to change keeps its card.
    """
    before = node.cards_before
    if before is None or not before.boot or not node.boot or before.boot == node.boot:
        return
    for pod in filter(is_lingering, pods.in_admission_order()):
        ended = await _end(client, pod, node.boot)
        if ended is not None:
            pods.set(ended)
            await events.record("Pod", pod.metadata, wire.EVENT_ENDED_BY_BOOT, _TEXT)


async def _end(client: ApiClient, pod: Pod, boot: str) -> Pod | None:
    metadata = pod.metadata
    while True:
        try:
            ended = await client.annotate_pod(pod, {wire.ANNOTATION_ENDED: boot})
        except (NotFoundError, ConflictError, InvalidError, ForbiddenError) as error:
            _LOG.warning("not ended pod=%s/%s uid=%s error=%s", metadata.namespace, metadata.name, metadata.uid, error)
            return None
        except ApiError as error:
            _LOG.warning(
                "not ended yet pod=%s/%s uid=%s error=%s", metadata.namespace, metadata.name, metadata.uid, error
            )
            await asyncio.sleep(RETRY_SECONDS)
        else:
            _LOG.info("ended by a boot pod=%s/%s uid=%s boot=%s", metadata.namespace, metadata.name, metadata.uid, boot)
            return ended
