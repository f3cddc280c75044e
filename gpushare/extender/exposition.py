"""The extender's series, as Prometheus reads them.

Counts are kept as things happen (``extender_metrics``); the present state (the book, the cards, pods that wait) is read at the
scrape from values that do not change while they are read; so a node that is gone takes its series with it. None of this
delays an answer to the scheduler. The label ``card`` is our index, as in the pods' annotations; the number of values of each label
is bounded by the number of machines.

With a series or four for each card a scrape is long, so it comes in pieces: a family may be there several times, each time with
other samples, and the reader may do something else between any two (``scrape``). At the address of the metrics are ``/metrics``
and the kubelet's probes (``MetricsRoutes``), and nothing can be changed there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, islice, starmap
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gpushare import __version__
from gpushare.extender.core.book import Book
from gpushare.extender.core.filter_cache import NOT_REFUSED, UNREPORTED, FilterCache, reason_of_wait
from gpushare.extender.extender_metrics import BAD_WISH, BOUNDS, REASONS, ExtenderMetrics, reason_of
from gpushare.extender.routes import FAILED, NOT_ALLOWED, health
from gpushare.kube.reflector import Contact
from gpushare.logs import lines_dropped
from gpushare.manifests import Pod
from gpushare.model.node import Device
from gpushare.model.waiting import Wait
from gpushare.serving.http_connection import TEXT, Answer, HttpRequest

_LOG = logging.getLogger(__name__)

MIB: Final = 1024 * 1024
# How long a scheduler may take to look at a new pod, in seconds.
PATIENCE_SECONDS: Final = 60.0
_CARD: Final = ("node", "card", "uuid", "model")
_BUCKETS: Final = (*map(str, BOUNDS), "+Inf")

# The plain format, which every Prometheus takes.
_ENCODE, _CONTENT_TYPE = choose_encoder("")

_NOT_FOUND: Final = Answer(404, TEXT, b"404 page not found: /metrics, /healthz and /readyz are here\n")

Labels = str | tuple[str, ...]
Family = GaugeMetricFamily | CounterMetricFamily

# Each family by its name, with its help.
_HELP: Final = {
    "gpushare_build_info": "The version of this program; the value is always 1.",
    "gpushare_extender_open_to_everybody":
        "1 while it listens on all addresses without TLS: any program that reaches the port may bind pods.",
    "gpushare_log_lines_dropped": "Lines of the log that were dropped, as nothing read standard error.",
    "gpushare_extender_requests":
        "Answers to the scheduler, by verdict; if nodes gave several reasons, the one of the first node is counted.",
    "gpushare_extender_request_duration_seconds":
        "How long an answer took, without the network; bind includes its request to the API server.",
    "gpushare_extender_calls":
        "Waiting pods for which room appeared, by whether their scheduler could be made to ask again.",
    "gpushare_extender_watch_age_seconds":
        "How old the last answer of the API server is; in quiet times one comes about every minute.",
    "gpushare_extender_watch_relists": "How often everything was read again, after the first time.",
    "gpushare_extender_unreadable_objects":
        "Objects of the API server that could not be read, each time that it showed them; the log names each once.",
    "gpushare_book_audits": "Audits of the book, by whether the API server let them come to their end.",
    "gpushare_book_drift_units":
        "Units that were booked otherwise than the API server says, until the last audit corrected them.",
    "gpushare_book_drift_objects": "Pods and nodes with bookings that the last audit corrected.",
    "gpushare_extender_pods":
        "Pods with units in the book: booked as the API server says, assumed while their bind is under way.",
    "gpushare_extender_waiting_pods":
        "Pods that ask for a card and have no node, by the reason of the first node, of their scheduler or of the pod.",
    "gpushare_extender_nodes": "Nodes in the book, those without cards too.",
    "gpushare_extender_cards": "Cards in the book.",
    "gpushare_extender_card_units": "Units of aliyun.com/gpu-mem that the card has.",
    "gpushare_extender_card_booked_units": "Units of the card that pods have.",
    "gpushare_extender_card_bytes": "The card's units as memory, if its node reports what a unit is.",
    "gpushare_extender_card_booked_bytes": "The units of the card that pods have, as memory.",
    "gpushare_extender_largest_free_bytes": "The most that one pod can still get of one card, over all nodes.",
    "gpushare_extender_largest_free_units":
        "The most units that one pod can still get of one card, over the nodes that do not report what a unit is.",
}  # fmt: skip


@dataclass(eq=False)
class ExtenderExposition(Collector):
    """All series. ``monotonic`` is the clock of ``contacts``; a piece of these cards or pods that wait takes some milliseconds."""

    metrics: ExtenderMetrics
    book: Book
    filter_cache: FilterCache
    contacts: Callable[[], Mapping[str, Contact]]
    monotonic: Callable[[], float]
    cards_a_piece: int = 100
    pods_a_piece: int = 250
    wall: Callable[[], float] = time.time  # noqa: TID251  # compared with the API's times alone

    def collect(self) -> Iterator[Metric]:
        """All series as of now, piece by piece."""
        yield _gauge("gpushare_build_info", {__version__: 1}, "version")
        yield _gauge("gpushare_extender_open_to_everybody", {(): self.metrics.is_open})
        yield _counter("gpushare_log_lines_dropped", {(): lines_dropped()})
        yield from self._of_answers()
        yield from self._of_contacts()
        drift = self.metrics.drift.items()
        yield _counter("gpushare_book_audits", self.metrics.audits, "outcome")
        yield _gauge("gpushare_book_drift_units", {kind: units for kind, (units, _) in drift}, "kind")
        yield _gauge("gpushare_book_drift_objects", {kind: objects for kind, (_, objects) in drift}, "kind")
        contacts = self.contacts()
        if all(contacts[name].lists for name in ("nodes", "pods") if name in contacts):
            # Until then the book is not known, which is not an empty one.
            yield from self._of_pods()
            yield from self._of_nodes()

    def _of_answers(self) -> Iterator[Metric]:
        yield _counter("gpushare_extender_requests", self.metrics.requests, "verb", "verdict", "reason")
        name = "gpushare_extender_request_duration_seconds"
        durations = HistogramMetricFamily(name, _HELP[name], labels=("verb",))
        for verb, latency in self.metrics.latencies.items():
            buckets = list(zip(_BUCKETS, accumulate(latency.counts), strict=True))
            durations.add_metric((verb,), buckets, latency.sum_ns / 1e9)
        yield durations
        yield _counter("gpushare_extender_calls", self.metrics.calls, "outcome")

    def _of_contacts(self) -> Iterator[Metric]:
        now, contacts = self.monotonic(), self.contacts()
        ages = {name: now - one.last_answer_at for name, one in contacts.items() if one.last_answer_at is not None}
        again = {name: max(one.lists - 1, 0) for name, one in contacts.items()}
        unreadable = {name: one.unreadable for name, one in contacts.items()}
        yield _gauge("gpushare_extender_watch_age_seconds", ages, "resource")
        yield _counter("gpushare_extender_watch_relists", again, "resource")
        yield _counter("gpushare_extender_unreadable_objects", unreadable, "resource")

    def _of_pods(self) -> Iterator[Metric]:
        booked, assumed = self.book.booked_pods()
        yield _gauge("gpushare_extender_pods", {"booked": booked, "assumed": assumed}, "state")
        waiting = Counter(dict.fromkeys((*sorted(REASONS), BAD_WISH, *sorted(NOT_REFUSED)), 0))
        left = iter(self.book.waiting())
        while part := tuple(islice(left, self.pods_a_piece)):
            waiting.update(filter(None, starmap(self._why, part)))
            yield _gauge("gpushare_extender_waiting_pods", {}, "reason")
        yield _gauge("gpushare_extender_waiting_pods", waiting, "reason")

    def _why(self, pod: Pod, wait: Wait) -> str | None:
        """Why the pod waits, as a label; None if it does not any more, or if its scheduler may still be at work."""
        if not self.book.is_pending(pod.metadata):
            return None
        cached = self.filter_cache.by_uid(pod.metadata.uid)
        reason = reason_of_wait(wait, cached)
        if reason == UNREPORTED and wait.since is not None and self.wall() - wait.since < PATIENCE_SECONDS:
            return None
        if reason is None or reason in NOT_REFUSED:
            return reason
        return BAD_WISH if cached is None or cached.request is None else reason_of(reason)

    def _of_nodes(self) -> Iterator[Metric]:
        # Each node is a value: together they are the book of this moment, however long this takes.
        nodes = tuple(self.book.snapshot().nodes.values())
        yield _gauge("gpushare_extender_nodes", {(): len(nodes)})
        # By model, of all cards together.
        cards, free_bytes, free_units = Counter[Labels](), dict[Labels, float](), dict[Labels, float]()
        left = ((node.name, device) for node in nodes for device in node.devices)
        while part := tuple(islice(left, self.cards_a_piece)):
            for _, device in part:
                cards[device.model, "healthy"] += device.healthy
                cards[device.model, "unhealthy"] += not device.healthy
                free = device.free if device.holds(0, 1) else 0
                largest = free_bytes if device.unit_mib else free_units
                largest[device.model] = max(largest.get(device.model, 0), free * (device.unit_mib * MIB or 1))
            yield from _of_cards(part)
        yield _gauge("gpushare_extender_cards", cards, "model", "state")
        yield _gauge("gpushare_extender_largest_free_bytes", free_bytes, "model")
        yield _gauge("gpushare_extender_largest_free_units", free_units, "model")


def _of_cards(cards: Iterable[tuple[str, Device]]) -> Iterator[Metric]:
    labelled = [((node, str(card.index), card.uuid, card.model), card) for node, card in cards]
    sized = [(labels, card, card.unit_mib * MIB) for labels, card in labelled if card.unit_mib]
    for name, rows in {
        "units": {at: card.total for at, card in labelled},
        "booked_units": {at: card.used for at, card in labelled},
        "bytes": {at: card.total * size for at, card, size in sized},
        "booked_bytes": {at: card.used * size for at, card, size in sized},
    }.items():
        yield _gauge(f"gpushare_extender_card_{name}", rows, *_CARD)


def _gauge(name: str, rows: Mapping[Any, float], *labels: str, kind: type[Family] = GaugeMetricFamily) -> Metric:
    """One family; ``rows`` are by the value of the label, or by a tuple of the values of all labels."""
    family = kind(name, _HELP[name], labels=labels)
    for values, value in rows.items():
        family.add_metric(values if isinstance(values, tuple) else (values,), value)
    return family


_counter = partial(_gauge, kind=CounterMetricFamily)


class _Piece(Collector):
    """One piece, for an encoder that asks a registry."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


async def scrape(exposition: Collector) -> bytes:
    """The text, in order; pieces of a family stand together, under one head."""
    families: dict[str, list[bytes]] = {}
    for piece in exposition.collect():
        text = _ENCODE(_Piece(piece))
        known = families.get(piece.name)
        if known is None:
            families[piece.name] = [text]
        else:
            # Without the lines of HELP and TYPE.
            known.append(text.split(b"\n", 2)[2])
        await asyncio.sleep(0)
    return b"".join(text for texts in families.values() for text in texts)


class MetricsRoutes:
    """The application. ``is_ready``: is the book complete?"""

    def __init__(self, exposition: Collector, is_ready: Callable[[], bool]) -> None:
        self._exposition = exposition
        self._probes = health(is_ready)
        # One scrape at a time: a large one is some MiB, and only its slices may delay the scheduler's questions.
        self._turn = asyncio.Lock()

    def __call__(self, request: HttpRequest) -> Answer | Awaitable[Answer]:
        """Answer one request."""
        probe = self._probes.get(request.path)
        if probe is None and request.path != "/metrics":
            return _NOT_FOUND
        if request.method not in ("GET", "HEAD"):
            return NOT_ALLOWED
        return probe(request) if probe is not None else self._scrape()

    async def _scrape(self) -> Answer:
        try:
            async with self._turn:
                return Answer(200, _CONTENT_TYPE.encode(), await scrape(self._exposition))
        except Exception:
            _LOG.exception("failed method=GET path=/metrics")
            return FAILED
