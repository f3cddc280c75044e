"""The plugin's series, as Prometheus reads them, and the HTTP edge that serves them beside ``/healthz`` if an address is given.

Two kinds of series: what is true now (cards, bookings, use) is read from the plugin's own state at the moment of the scrape, so
that a card or a pod that is gone takes its series with it; what happened was counted (``plugin_metrics``). Amounts are in bytes.
What is not known has no sample, and is never 0: the cards before they are counted, the use of a card that does not answer.
The label ``card`` is our index, as in the pods' annotations.

Everything runs in the plugin's one event loop, scrapes too, so that a scrape never sees half a change.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gpushare import __version__
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.core.usage import MIB, PodOnCard, bookings
from gpushare.logs import lines_dropped
from gpushare.model.cards import NOT_SHARED, CardFacts, NodeCards
from gpushare.model.node import unit_mib
from gpushare.serving import http_edge
from gpushare.serving.http_connection import TEXT, Answer, HttpRequest

_LOG = logging.getLogger(__name__)

_CARD: Final = ("card", "uuid", "model")
_POD: Final = ("namespace", "pod", "uid", "card")


def _healthy(card: CardFacts) -> bool | None:
    """A card that is not shared, and that a pod still names, is neither healthy nor unhealthy."""
    return None if card.reason in NOT_SHARED else card.healthy


# Name, help and value of the series with one sample for each card; None: there is no sample.
_OF_CARDS: Final[tuple[tuple[str, str, Callable[[CardFacts], float | None]], ...]] = (
    ("memory_bytes", "Memory of the card, as the driver reports it.", lambda card: card.mib * MIB),
    ("units", "Units of aliyun.com/gpu-mem that the card has.", lambda card: card.units),
    ("slots", "Containers that the card takes at once; 0 if they are not counted.", lambda card: card.slots),
    ("healthy", "1 while the card may be given to pods, 0 while it is unhealthy.", _healthy),
)
# Name, label and help of the counters of ``PluginMetrics``.
_COUNTERS: Final = (
    ("allocations", "outcome", "Calls of Allocate by outcome; a refused one ends its pod."),
    (
        "repairs",
        "outcome",
        "Annotations of pods that were moved to the card of their ids, and refusals to start a container of a pod.",
    ),
    ("unadmitted_pods", "action", "Pods that failed admission for a reason that has passed, by what was done."),
    ("overuse_evictions", "outcome", "Evictions of pods that went on to use more than they booked, by outcome."),
    ("nvml_errors", "operation", "Answers of NVML that were errors, by what was asked."),
    ("registrations", "resource", "Registrations that the kubelet took."),
    (
        "unreadable_objects",
        "resource",
        "Objects of the API server that could not be read, each time that it showed them.",
    ),
)

# The plain format, which every Prometheus takes.
_ENCODE, _CONTENT_TYPE = choose_encoder("")
_OK: Final = Answer(200, TEXT, b"ok")
_NOT_FOUND: Final = Answer(404, TEXT, b"404 page not found: /metrics and /healthz are here\n")
_NOT_ALLOWED: Final = Answer(405, TEXT, b"Method Not Allowed\n")
_FAILED: Final = Answer(500, TEXT, b"internal error; the plugin's log has the details\n")

_Family = GaugeMetricFamily | CounterMetricFamily


@dataclass(eq=False)
class PluginExposition(Collector):
    """All series of the plugin."""

    metrics: PluginMetrics

    def collect(self) -> Iterable[Metric]:
        """All series as of now."""
        metrics, cards = self.metrics, self.metrics.cards()
        yield _gauge("build_info", "The version of this program; the value is always 1.", {__version__: 1}, "version")
        text = "Lines of the log that were dropped, as nothing read standard error."
        yield _counter("log_lines_dropped", text, {(): lines_dropped()})
        if cards is not None:
            yield from self._of_cards(cards)
        for name, label, text in _COUNTERS:
            yield _counter(name, text, getattr(metrics, name), label)
        text = "Containers that may not start yet; their pods' events say why."
        yield _gauge("held_containers", text, {(): len(held := metrics.held())})
        text = "1 for a pod with a container that may not start yet, with why."
        known = {pod.metadata.uid: pod.metadata for pod in metrics.pods()}
        why = {(pod.namespace, pod.name, uid, held[uid]): 1 for uid, pod in known.items() if uid in held}
        yield _gauge("held_pod", text, why, "namespace", "pod", "uid", "reason")
        if cards is not None:
            yield from self._of_pods(cards)

    def _of_cards(self, cards: NodeCards) -> Iterable[Metric]:
        metrics = self.metrics
        yield _gauge("cards", "Cards that this node shares, unhealthy ones too.", {(): len(cards.cards)})
        text = "How much memory one unit of aliyun.com/gpu-mem is."
        unit = {(cards.mode, cards.unit): size * MIB} if (size := unit_mib(cards)) else {}
        yield _gauge("unit_bytes", text, unit, "mode", "unit")
        for name, text, value in _OF_CARDS:
            rows = {_of_card(card): found for card in cards.cards if (found := value(card)) is not None}
            yield _gauge(f"card_{name}", text, rows, *_CARD)
        by_uuid = {card.uuid: card for card in cards.cards}
        metrics.xids = Counter({key: count for key, count in metrics.xids.items() if key[0] in by_uuid})
        rows = {(*_of_card(by_uuid[uuid]), xid): count for (uuid, xid), count in metrics.xids.items()}
        yield _counter("xid_events", "Xid events that the driver reported of the card.", rows, *_CARD, "xid")

    def _of_pods(self, cards: NodeCards) -> Iterable[Metric]:
        metrics, pods, present = self.metrics, tuple(self.metrics.pods()), {card.index for card in cards.cards}
        if metrics.limits is not None:
            text = "Running containers with a booking, by the state of the limit that the driver enforces."
            yield _gauge("container_limits", text, metrics.limits, "state")
        rows = {_of_pod(use.on): use.booked for use in bookings(pods, cards) if use.on.index in present}
        yield _gauge("pod_booked_bytes", "Card memory that the pod booked.", rows, *_POD)
        if metrics.seen is None:
            return
        alive = {pod.metadata.uid for pod in pods}
        unbooked = {on for on in metrics.unbooked if on.index in present}
        uses = [use for use in metrics.seen.uses if use.on.index in present]
        uses = [use for use in uses if use.on.uid in alive or use.on in unbooked]
        text = "Card memory that the pod's processes hold, as far as the driver reports it."
        yield _gauge("pod_used_bytes", text, {_of_pod(use.on): use.used for use in uses if use.used is not None}, *_POD)
        text = "Card memory above the booking, of pods that were above their limit for long enough to be reported."
        rows = {_of_pod(use.on): use.over for use in uses if use.on in metrics.over and use.used is not None}
        yield _gauge("pod_overuse_bytes", text, rows, *_POD)
        text = "1 while a process of the pod runs on a card that the pod did not book."
        yield _gauge("pod_unbooked_card", text, {_of_pod(on): 1 for on in sorted(unbooked)}, *_POD)
        text = "How often a pod was reported for a process on a card that it did not book."
        yield _counter("unbooked_episodes", text, {(): metrics.unbooked_episodes})
        text = "How often a pod was reported for using more than it booked."
        yield _counter("overuse_episodes", text, {(): metrics.overuse_episodes})
        known = [card for card in cards.cards if card.index not in metrics.seen.silent]
        text, values = "Card memory held by processes of no pod of this node.", metrics.seen.unaccounted
        rows = {_of_card(card): held for card in known if (held := values.get(card.index, 0)) is not None}
        yield _gauge("card_unaccounted_bytes", text, rows, *_CARD)
        text, counts = "Processes whose memory the driver does not report.", metrics.seen.without_figure
        rows = {_of_card(card): counts.get(card.index, 0) for card in known}
        yield _gauge("card_processes_without_figure", text, rows, *_CARD)


def _of_card(card: CardFacts) -> tuple[str, ...]:
    return str(card.index), card.uuid, card.model


def _of_pod(on: PodOnCard) -> tuple[str, ...]:
    return on.namespace, on.pod, on.uid, str(on.index)


def _gauge(
    name: str, text: str, rows: Mapping[Any, float], *labels: str, kind: type[_Family] = GaugeMetricFamily
) -> Metric:
    """One family; ``rows`` are by the value of the label, or by a tuple of the values of all labels."""
    family = kind(f"gpushare_{name}", text, labels=labels)
    for values, value in rows.items():
        family.add_metric(values if isinstance(values, tuple) else (values,), value)
    return family


_counter = partial(_gauge, kind=CounterMetricFamily)


def answer(exposition: Collector, request: HttpRequest) -> Answer:
    """Two paths to read, nothing to change. An unexpected failure is logged and answered, and the plugin lives on."""
    if request.path not in ("/metrics", "/healthz"):
        return _NOT_FOUND
    if request.method not in ("GET", "HEAD"):
        return _NOT_ALLOWED
    if request.path == "/healthz":
        return _OK
    try:
        return Answer(200, _CONTENT_TYPE.encode(), _ENCODE(exposition))
    except Exception:
        _LOG.exception("failed method=GET path=/metrics")
        return _FAILED


def listen(address: tuple[str, int]) -> socket.socket:
    """A listening socket on ``(host, port)``; port 0 takes a free one, which is logged. Raises UsageError.

    Open it before anything is announced: a port that is taken is a mistake of the manifest, and must show immediately.
    """
    host, port = address
    listener = http_edge.listen(host, port, flags="--metrics-address (port 0 takes a free one)")
    _LOG.info("metrics at address=%s port=%d path=/metrics", host, listener.getsockname()[1])
    return listener


async def serve(metrics: PluginMetrics, listener: socket.socket) -> None:
    """Answer scrapes until cancelled; one under way is finished first. Closes the listener."""
    edge = http_edge.HttpEdge(partial(answer, PluginExposition(metrics)), listener, http_edge.OF_METRICS)
    await edge.start()
    try:
        await asyncio.Event().wait()
    finally:
        await edge.stop()
