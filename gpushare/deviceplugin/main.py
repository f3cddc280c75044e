"""Wiring of the device plugin: settings → cards → Node, pods, kubelet; and its end."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpushare import __version__, logs, wire
from gpushare.bounds import PODS_OF_A_PAGE
from gpushare.deviceplugin.allocation.allocate import Allocator
from gpushare.deviceplugin.allocation.node_view import list_all, list_living
from gpushare.deviceplugin.allocation.owner import KubeletRecords
from gpushare.deviceplugin.cards.card_news import CardNews
from gpushare.deviceplugin.cards.card_watch import CardWatch
from gpushare.deviceplugin.cards.declared_sick import follow_declared
from gpushare.deviceplugin.cards.node_status import NodeWriter
from gpushare.deviceplugin.cards.takeover import until_released, wait_while
from gpushare.deviceplugin.core.devices import spare_slots
from gpushare.deviceplugin.core.former_unit import advice, pods_of_other_units
from gpushare.deviceplugin.core.health import CardHealth
from gpushare.deviceplugin.core.kept_pods import indices_in_use
from gpushare.deviceplugin.core.node_pods import NodePods
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.core.publication import changes_between
from gpushare.deviceplugin.core.roster import remembered
from gpushare.deviceplugin.core.spare_slots import SpareSlots
from gpushare.deviceplugin.core.xid_rules import XidRules, read_rules
from gpushare.deviceplugin.former_boot import end_pods_of_former_boot
from gpushare.deviceplugin.grpc_server import DevicePluginServer
from gpushare.deviceplugin.proto import deviceplugin_pb2 as pb
from gpushare.deviceplugin.registration import MEMORY, SLOTS, stay_registered
from gpushare.deviceplugin.stuck_pod_sweeper import StuckPodSweeper
from gpushare.deviceplugin.telemetry.processes import ProcessOwners
from gpushare.deviceplugin.telemetry.usage_watch import UsageWatch
from gpushare.errors import GpushareError, UsageError
from gpushare.kube import config
from gpushare.kube.api_errors import ApiError
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.kube.reflector import Reflector
from gpushare.manifests import Node, Pod
from gpushare.nvml.session import NvmlSession
from gpushare.nvml.thread import NvmlThread
from gpushare.plugin_flags import ENV_DISABLE, ENV_ENABLE
from gpushare.settings import DevicePluginSettings, device_plugin_settings

_LOG = logging.getLogger(__name__)

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
# How often an API server that is away is asked again, in seconds.
_NO_API_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of the plugin: the API server and its events, NVML and the thread that it is asked in, a clock in seconds.

    ``boot`` is the machine's boot as the kernel names it.
    """

    client: ApiClient
    events: EventRecorder
    session: NvmlSession
    thread: NvmlThread
    clock: Callable[[], float]
    boot: str


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that count the node's cards and publish them."""

    pods: NodePods
    health: CardHealth
    node: NodeWriter
    news: CardNews
    watch: CardWatch
    metrics: PluginMetrics


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
        raise _single(error)


def _single(error: BaseException) -> BaseException:
    """The member of a group of one, which tells as much as the group."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def _run(settings: DevicePluginSettings) -> None:
    _LOG.info("starting version=%s node=%s unit=%s", __version__, settings.node_name, settings.memory_unit)
    client = config.connect(settings.kubeconfig, settings.context)
    thread, rules = NvmlThread(), _xid_rules(settings)
    session = NvmlSession(settings.nvml_library, listen=not rules.hears_nothing, sysfs=Path(settings.sys_root))
    # Names of events only: nothing depends on them being hard to guess.
    events = EventRecorder(client, "gpushare-device-plugin", time.time, random.Random())  # noqa: S311, TID251
    ports = Ports(client, events, session, thread, time.monotonic, _boot_id())
    try:
        async with asyncio.TaskGroup() as group:
            await _start(settings, ports, assemble(settings, ports, rules, _metrics(settings, group)), group)
    finally:
        thread.close(session.close)
        await client.close()


def assemble(settings: DevicePluginSettings, ports: Ports, rules: XidRules, metrics: PluginMetrics) -> Parts:
    """The parts, each with those that it needs; nothing runs yet."""
    pods = NodePods()
    health = CardHealth(rules, settings.health.cool_down)
    node = NodeWriter(
        ports.client, settings.node_name, (), settings.memory_unit, ports.boot,
        health=health,
        in_use=lambda: indices_in_use(pods.in_admission_order()),
        max_ids=settings.max_ids,
        slots=settings.slots,
    )  # fmt: skip
    news = CardNews(ports.client, node, pods, ports.events)
    watch = CardWatch(
        ports.session, ports.thread, node, health, news, ports.clock,
        survey_seconds=settings.health.survey_interval,
        metrics=metrics,
    )  # fmt: skip
    metrics.follow(lambda: node.cards, pods.in_admission_order)
    return Parts(pods, health, node, news, watch, metrics)


async def begin(settings: DevicePluginSettings, ports: Ports, parts: Parts) -> None:
    """Wait for the cards, give them their indices, and report what has changed while no plugin ran. Raises TooManyIdsError."""
    node, news, watch = parts.node, parts.news, parts.watch
    await watch.wait_for_cards(fail=settings.health.fail_on_init_error)
    await _prepare(ports.client, node, parts.pods)
    await end_pods_of_former_boot(ports.client, node, parts.pods, ports.events)
    watch.begin(remembered(node.cards_before))
    news.report_changes(changes_between(node.cards_before, node.cards, {}))
    node.check()
    node.listeners.append(news.report_changes)


async def _start(settings: DevicePluginSettings, ports: Ports, parts: Parts, group: asyncio.TaskGroup) -> None:
    """Start everything in its order; what goes on for ever goes on in ``group``."""
    group.create_task(parts.news.run())
    await begin(settings, ports, parts)
    server, allocator = await _serve(settings, ports, parts, group)
    _observe(settings, ports, parts, server, allocator, group)
    group.create_task(parts.watch.run())
    group.create_task(follow_declared(ports.client, parts.node, parts.health))
    group.create_task(_node_watch(ports.client, parts.node).run())


def _observe(
    settings: DevicePluginSettings,
    ports: Ports,
    parts: Parts,
    server: DevicePluginServer,
    allocator: Allocator,
    group: asyncio.TaskGroup,
) -> None:
    """Start the watchers beside the kubelet's calls: of stuck pods, and of real use if it is asked for."""
    pods, node = parts.pods, parts.node
    sweeper = StuckPodSweeper(
        ports.client, lambda: node.cards, lambda: (*pods.in_admission_order(), *pods.turned_away()),
        lambda: server.is_watched, allocator.held_for_good, parts.metrics, ports.events, ports.clock,
        delete=settings.delete_unadmitted,
    )  # fmt: skip
    group.create_task(sweeper.run())
    if settings.usage is not None:
        usage = UsageWatch(
            lambda uuid: ports.thread.run(functools.partial(ports.session.processes, uuid)), lambda: node.cards,
            pods.in_admission_order, pods.identities, ProcessOwners(Path(settings.usage.proc_root)), parts.metrics,
            ports.events, settings.usage, ports.clock,
        )  # fmt: skip
        group.create_task(usage.run())


async def _serve(
    settings: DevicePluginSettings, ports: Ports, parts: Parts, group: asyncio.TaskGroup
) -> tuple[DevicePluginServer, Allocator]:
    """Serve the kubelet; the server of the resource that pods' memory comes with, and its allocator."""
    client, events, pods, node, metrics = ports.client, ports.events, parts.pods, parts.node, parts.metrics
    folder = Path(settings.device_plugin_path)
    records = KubeletRecords(Path(settings.pod_resources_socket), folder)
    allocator = Allocator(
        client, pods, node, records, events,
        rules=settings.container, metrics=metrics, repairs=settings.repair == "exchange",
    )  # fmt: skip
    await _until_units_agree(client, node, pods, events)
    if settings.slots:
        await until_released(folder, node.metadata, events)
    await allocator.recover()
    selector = f"spec.nodeName={settings.node_name}"
    watch: Reflector[Pod] = Reflector(
        client, "/api/v1/pods", Pod, pods, field_selector=selector, page=PODS_OF_A_PAGE.most
    )
    group.create_task(watch.run())
    group.create_task(allocator.keep_right())
    group.create_task(allocator.restoration.keep())
    # First what the cards are, then how many a kubelet sees: a reader must not divide new sums by old counts.
    await node.publish_first()
    group.create_task(node.keep_published())
    server = DevicePluginServer(allocator, node)

    def registered(resource: str) -> None:
        metrics.count_registration(resource)
        allocator.begin_anew()

    def kubelet_changed() -> None:
        allocator.begin_anew(kubelet_is_another=True)

    resource = SLOTS if settings.slots else MEMORY
    group.create_task(stay_registered(server, folder, resource, registered, kubelet_changed))
    if not settings.slots:
        group.create_task(stay_registered(_spare(node), folder, SLOTS, metrics.count_registration))
    return server, allocator


async def _until_units_agree(client: ApiClient, node: NodeWriter, pods: NodePods, events: EventRecorder) -> None:
    """Return once no pod of the node holds memory in another unit than the node will count in."""

    async def look() -> str:
        others = pods_of_other_units(pods.in_admission_order(), node.cards, node.unit_before)
        if others:
            try:
                await list_living(pods, client, node.name)
            except ApiError as error:
                _LOG.warning("cannot read pods node=%s error=%s", node.name, error)
        return advice(others, node.cards.unit, node.unit_before)

    await wait_while(look, node.metadata, events, wire.EVENT_UNIT_IN_USE)


def _metrics(settings: DevicePluginSettings, group: asyncio.TaskGroup) -> PluginMetrics:
    """Kept in any case, served if an address is given: from the start, because a driver that is away is waited for."""
    metrics = PluginMetrics()
    if settings.metrics_address is not None:
        # Here, as an HTTP server and Prometheus are 5 MiB that a plugin without /metrics need not hold.
        from gpushare.deviceplugin.telemetry import metrics_exposition, metrics_server

        listener = metrics_server.listen(settings.metrics_address)
        group.create_task(metrics_server.serve(metrics_exposition.registry_of(metrics), listener))
    return metrics


def _node_watch(client: ApiClient, node: NodeWriter) -> Reflector[Node]:
    """Changes of our Node by others: by a kubelet that starts again, by an operator."""
    return Reflector(client, "/api/v1/nodes", Node, node, field_selector=f"metadata.name={node.name}")


def _xid_rules(settings: DevicePluginSettings) -> XidRules:
    """Which Xids are critical: none if the health check is off."""
    rules, odd = read_rules(settings.health.disabled, settings.health.enabled)
    if odd:
        _LOG.warning("no Xids variables=%s,%s entries=%s", ENV_DISABLE, ENV_ENABLE, ",".join(odd))
    return rules if settings.health.check else XidRules(ignores_all=True)


def _spare(node: NodeWriter) -> DevicePluginServer:
    """Slots that mean nothing: pods that name one may come to a node in ids mode too."""
    return DevicePluginServer(SpareSlots(), node, devices=spare_slots, options=pb.DevicePluginOptions())


async def _prepare(client: ApiClient, node: NodeWriter, pods: NodePods) -> None:
    """Give the cards their indices; an API server that is away is waited for."""
    while True:
        try:
            await list_all(pods, client, node.name)
            await node.prepare(indices_in_use(pods.in_admission_order()))
        except ApiError as error:
            _LOG.warning("cannot read node=%s error=%s", node.name, error)
            await asyncio.sleep(_NO_API_SECONDS)
        else:
            return


def _boot_id() -> str:
    """The id of the machine's boot; empty if the kernel has none."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
