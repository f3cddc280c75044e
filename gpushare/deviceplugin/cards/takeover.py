"""Before slots mode: wait until the kubelet has let go of ``gpu-mem``.

A kubelet owns every resource for which a device plugin ever registered, until it forgets it: it writes its own count over
any amount in the node's status, and refuses pods that ask for the resource while no plugin serves it. Its
checkpoint shows which it owns: on a node that ran in ids mode (or the original's plugin) ``gpu-mem`` is among them. Only
an operator can decide when the pods may go, so the plugin reports the steps, on the node too, and waits. (A kubelet that goes
on running forgets a resource some minutes after its plugin has gone, once no pod has any of it.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from gpushare import wire
from gpushare.deviceplugin.checkpoint import CHECKPOINT, Checkpoint
from gpushare.kube.event_recorder import EventRecorder
from gpushare.manifests import ObjectMeta

_LOG = logging.getLogger(__name__)

# How often the checkpoint is looked at, and how often the event is repeated, in seconds.
LOOK_SECONDS: Final = 1.0
REPEAT_SECONDS: Final = 300.0


async def until_released(folder: Path, node: ObjectMeta, events: EventRecorder) -> None:
    """Return once the kubelet with the checkpoint in ``folder`` does not own ``gpu-mem``; until then report it."""

    async def look() -> str:
        return advice(folder) if owns(folder, wire.RESOURCE_MEMORY) else ""

    await wait_while(look, node, events, wire.EVENT_RESOURCE_OWNED)


async def wait_while(look: Callable[[], Awaitable[str]], node: ObjectMeta, events: EventRecorder, event: str) -> None:
    """Return once ``look`` finds no reason to wait (""); until then log the reason, and report it as an event of the node."""
    reported_at = -REPEAT_SECONDS
    loop = asyncio.get_running_loop()
    while text := await look():
        if loop.time() - reported_at >= REPEAT_SECONDS:
            reported_at = loop.time()
            _LOG.warning("waiting node=%s reason=%s", node.name, text)
            await events.record("Node", node, event, text)
        await asyncio.sleep(LOOK_SECONDS)


def advice(folder: Path) -> str:
    """The steps of an operator."""
    path = folder / CHECKPOINT
    return (
        f"the kubelet still owns {wire.RESOURCE_MEMORY} (by {path}) and would overwrite the amount of slots mode: drain the "
        f"node, stop the kubelet, move {path} away, start the kubelet; the device plugin then goes on by itself"
    )


def owns(folder: Path, resource: str) -> bool:
    """Does the kubelet of this folder count the resource's devices by its checkpoint, or has it given some to a pod?

    A checkpoint that cannot be read counts for nothing: a kubelet that cannot read it either begins without it.
    """
    try:
        return Checkpoint.decode((folder / CHECKPOINT).read_bytes()).owns(resource)
    except FileNotFoundError:
        return False
    except msgspec.DecodeError as error:
        _LOG.warning("cannot read the kubelet's checkpoint error=%s", error)
        return False
