"""Optional watchers of the node, beside the answers to the kubelet: real use, stuck pods."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpushare.deviceplugin.core.node_pods import NodePods
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.stuck_pod_sweeper import StuckPodSweeper
from gpushare.deviceplugin.telemetry.processes import ProcessOwners
from gpushare.deviceplugin.telemetry.usage_watch import UsageWatch
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.model.cards import NodeCards
from gpushare.nvml.api import Process
from gpushare.nvml.session import NvmlSession
from gpushare.nvml.thread import NvmlThread
from gpushare.settings import DevicePluginSettings


@dataclass(frozen=True, slots=True)
class Observed:
    """The inputs and outputs of an observer. The callables answer for this moment.

    ``is_served``: does the kubelet hold our list? ``held``: pods held for good, by uid, and why.
    """

    client: ApiClient
    events: EventRecorder
    metrics: PluginMetrics
    cards: Callable[[], NodeCards]
    pods: NodePods
    is_served: Callable[[], bool]
    held: Callable[[], Mapping[str, str]]
    clock: Callable[[], float]


def observers(
    settings: DevicePluginSettings, observed: Observed, session: NvmlSession, thread: NvmlThread
) -> list[Coroutine[Any, Any, None]]:
    """The observers that the settings ask for, each to run until cancelled."""
    pods = observed.pods
    sweeper = StuckPodSweeper(
        observed.client, observed.cards, lambda: (*pods.in_admission_order(), *pods.turned_away()), observed.is_served,
        observed.held, observed.metrics, observed.events, observed.clock,
        delete=settings.delete_unadmitted,
    )  # fmt: skip
    found = [sweeper.run()]
    if settings.usage is not None:
        owners = ProcessOwners(Path(settings.usage.proc_root))
        usage = UsageWatch(
            _asking(session, thread), observed.cards, pods.in_admission_order, pods.identities, owners, observed.metrics,
            observed.events, settings.usage, observed.clock,
        )  # fmt: skip
        found.append(usage.run())
    return found


def _asking(session: NvmlSession, thread: NvmlThread) -> Callable[[str], Awaitable[Iterable[Process]]]:
    """NVML is asked in its one thread."""
    return lambda uuid: thread.run(functools.partial(session.processes, uuid))
