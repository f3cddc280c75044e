"""Wiring of the device plugin: settings → cards → Node, pods, kubelet; and its end."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpushare import __version__, logs
from gpushare.deviceplugin.allocate import Allocator
from gpushare.deviceplugin.devices import PhysicalCard, spare_slots
from gpushare.deviceplugin.grpc_server import DevicePluginServer
from gpushare.deviceplugin.id_limits import check_ids
from gpushare.deviceplugin.node_pods import NodePods
from gpushare.deviceplugin.node_status import NodeStatus
from gpushare.deviceplugin.owner import KubeletBook
from gpushare.deviceplugin.proto import deviceplugin_pb2 as pb
from gpushare.deviceplugin.registration import MEMORY, SLOTS, stay_registered
from gpushare.deviceplugin.spare_slots import SpareSlots
from gpushare.deviceplugin.takeover import until_released
from gpushare.errors import GpushareError, InvalidAllocationError, UsageError
from gpushare.kube import config
from gpushare.kube.client import ApiClient
from gpushare.kube.errors import ApiError
from gpushare.kube.events import EventRecorder
from gpushare.kube.reflector import Reflector
from gpushare.manifests import Pod
from gpushare.model.allocation import decode
from gpushare.model.pod import is_finished
from gpushare.nvml.errors import NvmlError
from gpushare.nvml.library import open_library
from gpushare.settings import DevicePluginSettings, device_plugin_settings

_LOG = logging.getLogger(__name__)

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
# How often a node without a driver or without cards is looked at again, and an API server that is away, in seconds.
_NO_CARDS_SECONDS: Final = 30.0
_NO_API_SECONDS: Final = 2.0


def main(argv: Sequence[str] | None = None) -> int:
    """The console script; exit code 0 after a signal, 1 after a failure, 2 for flags that make no sense."""
    try:
        settings = device_plugin_settings(sys.argv[1:] if argv is None else argv)
        logs.configure(settings.log_level)
        asyncio.run(_until_signal(settings))
    except UsageError as error:
        print(f"gpushare-device-plugin: {error}", file=sys.stderr)  # noqa: T201  # for the person who typed it
        return 2
    except GpushareError as error:
        _LOG.error("ended reason=%s", error)
        return 1
    except Exception:
        _LOG.exception("ended")
        return 1
    return 0


async def _until_signal(settings: DevicePluginSettings) -> None:
    """Run until SIGTERM or SIGINT; the socket is closed in good order."""
    running = asyncio.create_task(_run(settings))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    await asyncio.wait([running])
    if not running.cancelled() and (error := running.exception()) is not None:
        raise error


async def _run(settings: DevicePluginSettings) -> None:
    _LOG.info("starting version=%s node=%s unit=%s", __version__, settings.node_name, settings.memory_unit)
    client = config.connect(settings.kubeconfig, settings.context)
    try:
        cards = await _wait_for_cards(settings.nvml_library)
        node = NodeStatus(client, settings.node_name, cards, settings.memory_unit, _boot_id(), slots=settings.slots)
        pods = NodePods()
        await _prepare(client, node, pods)
        check_ids(node.cards, node.kubelet_version, settings.max_ids)
        await _serve(settings, client, node, pods)
    finally:
        await client.close()


async def _serve(settings: DevicePluginSettings, client: ApiClient, node: NodeStatus, pods: NodePods) -> None:
    folder = Path(settings.device_plugin_path)
    book = KubeletBook(Path(settings.pod_resources_socket), folder)
    # Names of events only: nothing depends on them being hard to guess.
    events = EventRecorder(client, "gpushare-device-plugin", time.time, random.Random())  # noqa: S311, TID251
    allocator = Allocator(client, pods, node, book, events, visible_by=settings.visible_devices)
    if settings.slots:
        await until_released(folder, node.metadata, events)
    await allocator.recover()
    selector = f"spec.nodeName={settings.node_name}"
    watch: Reflector[Pod] = Reflector(client, "/api/v1/pods", Pod, pods, field_selector=selector)
    async with asyncio.TaskGroup() as group:
        group.create_task(watch.run())
        group.create_task(node.keep_published())
        if settings.slots:
            group.create_task(stay_registered(DevicePluginServer(allocator, node), folder, SLOTS))
        else:
            group.create_task(stay_registered(DevicePluginServer(allocator, node), folder, MEMORY))
            group.create_task(stay_registered(_spare(node), folder, SLOTS))


def _spare(node: NodeStatus) -> DevicePluginServer:
    """Slots that mean nothing: pods that name one may come to a node in ids mode too."""
    return DevicePluginServer(SpareSlots(), node, devices=spare_slots, options=pb.DevicePluginOptions())


async def _wait_for_cards(library: str | None) -> list[PhysicalCard]:
    """The cards of this node; a driver that is not there (yet), or no card, is waited for: the node may get one."""
    said = ""
    while True:
        try:
            cards = _read_cards(library)
            problem = "" if cards else "the driver shows no card"
        except NvmlError as error:
            cards, problem = [], str(error)
        if cards:
            return cards
        if problem != said:
            _LOG.warning("no cards to share reason=%s look_again_seconds=%.0f", problem, _NO_CARDS_SECONDS)
            said = problem
        await asyncio.sleep(_NO_CARDS_SECONDS)


def _read_cards(library: str | None) -> list[PhysicalCard]:
    nvml = open_library(library)
    try:
        found = nvml.cards()
    finally:
        nvml.close()
    for card in found:
        _LOG.info("card nvml_index=%d uuid=%s model=%s mib=%d", card.index, card.uuid, card.model, card.memory_mib)
        if card.mig:
            _LOG.warning("not shared uuid=%s reason=in MIG mode its memory belongs to its slices", card.uuid)
    shared = [card for card in found if not card.mig]
    return [PhysicalCard(card.index, card.uuid, card.model, card.memory_mib, card.numa or 0) for card in shared]


async def _prepare(client: ApiClient, node: NodeStatus, pods: NodePods) -> None:
    """Give the cards their indices; an API server that is away is waited for."""
    while True:
        try:
            pods.replace(await client.list_pods(field_selector=f"spec.nodeName={node.name}"))
            await node.prepare(frozenset(index for pod in pods.in_bind_order() for index in _indices(pod)))
        except ApiError as error:
            _LOG.warning("cannot read node=%s error=%s", node.name, error)
            await asyncio.sleep(_NO_API_SECONDS)
        else:
            return


def _indices(pod: Pod) -> list[int]:
    """Card indices that a pod which has not ended names."""
    try:
        allocation = None if is_finished(pod) else decode(pod.metadata.annotations, 1)
    except InvalidAllocationError:
        return []
    return [index for index, _ in allocation.shares] if allocation is not None else []


def _boot_id() -> str:
    """Which boot of the machine this is; empty where the kernel does not say."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
