"""Wiring of the device plugin: settings → cards → Node, pods, kubelet; and its end."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpushare import __version__, logs, wire
from gpushare.bounds import PODS_OF_A_PAGE
from gpushare.cli.plugin_flags import ENV_DISABLE, ENV_ENABLE, UsageFlags
from gpushare.cli.settings import DevicePluginSettings, device_plugin_settings
from gpushare.deviceplugin.allocation.admission import no_limit
from gpushare.deviceplugin.allocation.allocate import Allocator
from gpushare.deviceplugin.allocation.hand_bound import as_a_node
from gpushare.deviceplugin.allocation.node_view import list_all
from gpushare.deviceplugin.card_watch import CardNews, CardWatch, follow_declared
from gpushare.deviceplugin.core.announced_cards import remembered
from gpushare.deviceplugin.core.health import CardHealth, XidRules, read_rules
from gpushare.deviceplugin.core.kept_pods import indices_in_use
from gpushare.deviceplugin.core.node_pods import NodePods
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.grpc_server import DevicePluginServer, stay_registered
from gpushare.deviceplugin.kubelet_records import KubeletRecords
from gpushare.deviceplugin.limit_watch import LimitWatch
from gpushare.deviceplugin.node_status import NodeWriter
from gpushare.deviceplugin.stuck_pod_sweeper import LOOK_SECONDS, StuckPodSweeper
from gpushare.deviceplugin.takeover import end_pods_of_former_boot, until_released, until_units_agree
from gpushare.deviceplugin.usage_watch import OveruserEvictor, ProcessOwners, UsageWatch
from gpushare.errors import GpushareError, UsageError
from gpushare.kube import config
from gpushare.kube.api_errors import ApiError
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.kube.reflector import Handler, Reflector
from gpushare.manifests import Node, Pod, PodOutline
from gpushare.nvml.session import NvmlSession, NvmlThread

_LOG = logging.getLogger(__name__)

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
# How often an API server that is away is asked again, in seconds.
_NO_API_SECONDS: Final = 2.0
# How long the end of the plugin waits for the API server, in seconds: a kubelet waits longer before it kills.
_END_SECONDS: Final = 2.0


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
    error = None if running.cancelled() else running.exception()
    # The member of a group of one tells as much as the group.
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if error is not None:
        raise error


async def _run(settings: DevicePluginSettings) -> None:
    _LOG.info("starting version=%s node=%s unit=%s", __version__, settings.node_name, settings.memory_unit)
    client = config.connect(settings.kubeconfig, settings.context)
    rules, odd = read_rules(settings.health.disabled, settings.health.enabled)
    if odd:
        _LOG.warning("no Xids variables=%s,%s entries=%s", ENV_DISABLE, ENV_ENABLE, ",".join(odd))
    if not settings.health.check:
        rules = XidRules(ignores_all=True)
    session = NvmlSession(settings.nvml_library, listen=not rules.hears_nothing, sysfs=Path(settings.sys_root))
    nvml = NvmlThread(session)
    # Names of events only: nothing depends on them being hard to guess.
    rng = random.Random()  # noqa: S311
    events = EventRecorder(client, "gpushare-device-plugin", time.time, rng, settings.node_name)  # noqa: TID251
    plugin: DevicePlugin | None = None
    try:
        async with asyncio.TaskGroup() as group:
            # Kept in any case, served if an address is given: from the start, because a driver that is away is waited for.
            metrics = PluginMetrics()
            if settings.metrics_address is not None:
                # Here, as an HTTP server and Prometheus are 5 MiB that a plugin without /metrics need not hold.
                from gpushare.deviceplugin.metrics_exposition import listen, serve

                group.create_task(serve(metrics, listen(settings.metrics_address)))
            plugin = DevicePlugin(settings, client, events, nvml, time.monotonic, _boot_id(), rules, metrics)
            await plugin.start(group)
    finally:
        nvml.close()
        if plugin is not None:
            await plugin.end()
        await client.close()


@dataclass(eq=False)
class DevicePlugin:
    """The parts of the plugin, each with those that it needs; nothing runs before ``begin``.

    ``clock`` gives seconds, ``boot`` is the machine's boot as the kernel names it.
    """

    settings: DevicePluginSettings
    client: ApiClient
    events: EventRecorder
    nvml: NvmlThread
    clock: Callable[[], float]
    boot: str
    rules: XidRules
    metrics: PluginMetrics

    def __post_init__(self) -> None:
        settings = self.settings
        self.pods = NodePods()
        self.health = CardHealth(self.rules, settings.health.cool_down)
        self.node = NodeWriter(
            self.client, settings.node_name, settings.memory_unit, self.boot,
            now=time.time,  # noqa: TID251  # of the condition alone
            health=self.health,
            in_use=lambda: indices_in_use(self.pods.in_admission_order()),
            max_ids=settings.max_ids,
            slots=settings.slots,
        )  # fmt: skip
        self.news = CardNews(self.client, self.node, self.pods, self.events)
        self.node.listeners.append(self.news.report_changes)
        self.watch = CardWatch(
            self.nvml, self.node, self.health, self.news, self.clock, self.metrics,
            settings.health.survey_interval, os.environ.get(wire.ENV_VISIBLE_DEVICES, ""),  # noqa: TID251  # the container's
        )  # fmt: skip
        self.metrics.pods = self.pods.in_admission_order
        self.limits: LimitWatch | None = None
        if settings.limits.is_on:
            self.limits = LimitWatch(
                self.nvml, self.node, self.health, self.pods, self.client, self.events, self.metrics,
                settings.limits, settings.container, Path(settings.usage.proc_root), self.clock,
            )  # fmt: skip
            self.watch.on_count = self.limits.check

    async def start(self, group: asyncio.TaskGroup) -> None:
        """Start everything in its order; what goes on for ever goes on in ``group``."""
        group.create_task(self.news.run())
        await self.begin()
        await self._serve(group)
        if self.settings.usage.is_needed:
            group.create_task(_repeat(self._usage_watch(self.settings.usage).look, self.settings.usage.interval))
        if self.limits is not None:
            group.create_task(_repeat(self.limits.look, self.settings.usage.interval))
        group.create_task(self.watch.run())
        group.create_task(follow_declared(self.client, self.node, self.health))
        # Changes of our Node by others: by a kubelet that starts again, by an operator.
        selector = f"metadata.name={self.node.name}"
        group.create_task(self._reflector("nodes", Node, self.node, selector).run())

    async def end(self) -> None:
        """Write on the Node that the plugin has ended, if the API server answers soon."""
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self.node.end()
        except TimeoutError:
            _LOG.warning("the API server is silent: the condition stays node=%s", self.node.name)

    async def begin(self) -> None:
        """Wait for the cards, give them their indices, and report what has changed while no plugin ran. Raises TooManyIdsError."""
        client, node, pods = self.client, self.node, self.pods
        await self.watch.wait_for_cards(fail=self.settings.health.fail_on_init_error)
        while True:
            try:
                await list_all(pods, client, node.name)
                await node.prepare()
                break
            except ApiError as error:
                _LOG.warning("cannot read node=%s error=%s", node.name, error)
            await asyncio.sleep(_NO_API_SECONDS)
        await end_pods_of_former_boot(client, node, pods, self.events)
        self.watch.begin(remembered(node.cards_before))
        self.metrics.cards = lambda: node.cards

    def _reflector(self, things: str, kind: type[Any], handler: Handler[Any], selector: str) -> Reflector[Any]:
        def count(outline: PodOutline) -> None:
            self.metrics.unreadable_objects[things] += 1
            if handler is self.pods:
                self.pods.set(outline)

        return Reflector(
            self.client, f"/api/v1/{things}", kind, handler,
            field_selector=selector, page=PODS_OF_A_PAGE.most, on_unreadable=count,
        )  # fmt: skip

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        """Serve the kubelet, and watch for stuck pods beside its calls."""
        settings, client, events, pods, node = self.settings, self.client, self.events, self.pods, self.node
        folder = Path(settings.device_plugin_path)
        records = KubeletRecords(Path(settings.pod_resources_socket), folder)
        allocator = Allocator(
            client, pods, node, records, events,
            rules=settings.container, metrics=self.metrics, repairs=settings.repair == "exchange",
            limit=self.limits.limit if self.limits is not None else no_limit,
        )  # fmt: skip
        await until_units_agree(client, node, pods, events)
        if settings.slots:
            await until_released(records, node.metadata, events)
        await allocator.recover()
        selector = f"spec.nodeName={settings.node_name}"
        group.create_task(self._reflector("pods", Pod, pods, selector).run())
        group.create_task(allocator.keep_reconciling())
        group.create_task(allocator.keep_restoring())
        # First what the cards are, then how many a kubelet sees: a reader must not divide new sums by old counts.
        await node.publish_patiently()
        group.create_task(node.keep_published())
        server = DevicePluginServer(allocator, node)
        for one in (server,) if settings.slots else (server, DevicePluginServer(None, node)):
            group.create_task(stay_registered(one, folder, self.metrics.registrations))
        sweeper = StuckPodSweeper(
            client, lambda uid: as_a_node(allocator.view.now(), uid),
            lambda: (*pods.in_admission_order(), *pods.turned_away()),
            lambda: server.is_watched, allocator.held_for_good, self.metrics, events, self.clock,
            delete=settings.delete_unadmitted,
        )  # fmt: skip
        group.create_task(_repeat(sweeper.look, LOOK_SECONDS))

    def _usage_watch(self, flags: UsageFlags) -> UsageWatch:
        evictor = OveruserEvictor(self.client, self.metrics, self.events, flags.eviction_grace) if flags.evict else None
        return UsageWatch(
            lambda uuid: self.nvml.ask(functools.partial(NvmlSession.processes, uuid=uuid)), lambda: self.node.cards,
            self.pods.in_admission_order, lambda: self.pods.by_kubelet_uid(self.node.metadata),
            ProcessOwners(Path(flags.proc_root)), self.metrics, self.events, flags, self.clock, self.node.show_overuse, evictor,
        )  # fmt: skip


async def _repeat(look: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Look for ever."""
    while True:
        await look()
        await asyncio.sleep(seconds)


def _boot_id() -> str:
    """The id of the machine's boot; empty if the kernel has none."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
