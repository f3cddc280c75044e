"""Before the plugin serves a node: what other plugins, other units and other boots have left behind.

* The kubelet must have let go of ``gpu-mem`` before slots mode. A kubelet owns every resource for which a device plugin ever
  registered, until it forgets it: it writes its own count over any amount in the node's status, and refuses pods that ask for
  the resource while no plugin serves it. Its checkpoint shows which it owns: on a node that ran in ids mode (or the original's
  plugin) ``gpu-mem`` is among them. (A kubelet that goes on running forgets a resource some minutes after its plugin has gone,
  once no pod has any of it.)
* Pods that were bound in another unit must have ended (``core.bookings``).
* Pods of a former boot of the machine that their status still shows as running (``model.pod.is_lingering``) are ended here. None
  of their processes is left, but after a shutdown of the node nothing may ever correct the status
  (kubernetes/kubernetes#98012), and the pod would keep its card. When the plugin starts in another boot than the one that the
  cards annotation names, it writes the boot on those that linger, which the extender and ``inspect`` read. It does so before it
  registers and before it publishes the boot, so a pod of this boot cannot be among them, and an interrupted start does it again.

Only an operator can decide when the pods of the first two may go, so the plugin reports the steps, on the node too, and waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.allocation.node_view import list_living, named
from gpushare.deviceplugin.core.bookings import advice, pods_of_other_units
from gpushare.deviceplugin.core.node_pods import NodePods
from gpushare.deviceplugin.kubelet_records import KubeletRecords
from gpushare.deviceplugin.node_status import NodeWriter
from gpushare.kube.api_errors import ApiError, ConflictError, ForbiddenError, InvalidError, NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import ObjectMeta, Pod
from gpushare.model.pod import is_lingering

_LOG = logging.getLogger(__name__)

# How often the reason is looked at, and how often the event is repeated, in seconds.
LOOK_SECONDS: Final = 1.0
REPEAT_SECONDS: Final = 300.0
# After the API server did not answer, in seconds.
RETRY_SECONDS: Final = 2.0
_ENDED: Final = (
    "the node has booted since this pod ended, so none of its containers is left, whatever its status shows: "
    "its GPU memory is free"
)


async def until_released(records: KubeletRecords, node: ObjectMeta, events: EventRecorder) -> None:
    """Return once the kubelet does not own ``gpu-mem`` by its checkpoint; until then report it."""

    async def look() -> str:
        if not records.owns(wire.RESOURCE_MEMORY):
            return ""
        path = records.path
        return (
            f"the kubelet still owns {wire.RESOURCE_MEMORY} (by {path}) and would overwrite the amount of slots mode: drain the "
            f"node, stop the kubelet, move {path} away, start the kubelet; the device plugin then goes on by itself"
        )

    await _wait_while(look, node, events, wire.EVENT_RESOURCE_OWNED)


async def until_units_agree(client: ApiClient, node: NodeWriter, pods: NodePods, events: EventRecorder) -> None:
    """Return once no pod of the node holds memory in another unit than the node will count in."""

    async def look() -> str:
        others = pods_of_other_units(pods.in_admission_order(), node.cards, node.unit_before)
        if others:
            try:
                await list_living(pods, client, node.name)
            except ApiError as error:
                _LOG.warning("cannot read pods node=%s error=%s", node.name, error)
        return advice(others, node.cards.unit, node.unit_before)

    await _wait_while(look, node.metadata, events, wire.EVENT_UNIT_IN_USE)


async def _wait_while(look: Callable[[], Awaitable[str]], node: ObjectMeta, events: EventRecorder, event: str) -> None:
    """Return once ``look`` finds no reason to wait (""); until then log the reason, and report it as an event of the node."""
    reported_at = -REPEAT_SECONDS
    loop = asyncio.get_running_loop()
    while text := await look():
        if loop.time() - reported_at >= REPEAT_SECONDS:
            reported_at = loop.time()
            _LOG.warning("waiting node=%s reason=%s", node.name, text)
            await events.record("Node", node, event, text)
        await asyncio.sleep(LOOK_SECONDS)


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
            await events.record("Pod", pod.metadata, wire.EVENT_ENDED_BY_BOOT, _ENDED)


async def _end(client: ApiClient, pod: Pod, boot: str) -> Pod | None:
    while True:
        try:
            ended = await client.annotate_pod(pod, {wire.ANNOTATION_ENDED: boot})
        except (NotFoundError, ConflictError, InvalidError, ForbiddenError) as error:
            _LOG.warning("not ended pod=%s/%s uid=%s error=%s", *named(pod), error)
            return None
        except ApiError as error:
            _LOG.warning("not ended yet pod=%s/%s uid=%s error=%s", *named(pod), error)
            await asyncio.sleep(RETRY_SECONDS)
        else:
            _LOG.info("ended by a boot pod=%s/%s uid=%s boot=%s", *named(pod), boot)
            return ended
