"""The plugin's series, as Prometheus reads them.

Two kinds: what is true now (cards, bookings, use) is read from the plugin's own state at the moment of the scrape, so that
a card or a pod that is gone takes its series with it; what happened was counted (``plugin_metrics``). Amounts are in bytes. The
label ``card`` is our index, as in the pods' annotations.

Everything runs in the plugin's one event loop, scrapes too, so that a scrape never sees half a change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from gpushare import __version__
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.core.usage import MIB, CardUse, PodOnCard, bookings
from gpushare.errors import InvalidQuantityError
from gpushare.logs import lines_dropped
from gpushare.manifests import Pod
from gpushare.model.cards import CardFacts, NodeCards
from gpushare.model.quantity import MemoryUnit

_Rows = Iterable[tuple[Sequence[str], float]]
_CARD: Final = ("card", "uuid", "model")
_POD: Final = ("namespace", "pod", "uid", "card")


def registry_of(metrics: PluginMetrics) -> CollectorRegistry:
    """A registry with the plugin's series and nothing else."""
    registry = CollectorRegistry()
    registry.register(PluginExposition(metrics))
    return registry


class PluginExposition(Collector):
    """All series of the plugin."""

    def __init__(self, metrics: PluginMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """All series as of now."""
        cards, pods = self._metrics.cards(), tuple(self._metrics.pods())
        yield _gauge(
            "gpushare_build_info",
            "The version of this program; the value is always 1.",
            ("version",),
            [((__version__,), 1)],
        )
        yield _counter(
            "gpushare_log_lines_dropped",
            "Lines of the log that were dropped, as nothing read standard error.",
            (),
            [((), lines_dropped())],
        )
        yield from self._of_cards(cards)
        yield from self._of_events(cards, pods)
        yield from self._of_pods(cards, pods)

    def _of_cards(self, cards: NodeCards) -> Iterable[Metric]:
        each = cards.cards
        yield _gauge("gpushare_cards", "Cards that this node shares, sick ones too.", (), [((), len(each))])
        yield _gauge(
            "gpushare_unit_bytes",
            "How much memory one unit of aliyun.com/gpu-mem is.",
            ("mode", "unit"),
            [((cards.mode, cards.unit), _unit_bytes(cards))],
        )
        yield _card_gauge(
            "memory_bytes", "Memory of the card, as the driver reports it.", each, lambda card: card.mib * MIB
        )
        yield _card_gauge("units", "Units of aliyun.com/gpu-mem that the card has.", each, lambda card: card.units)
        yield _card_gauge(
            "slots",
            "Containers that the card takes at once; 0 if they are not counted.",
            each,
            lambda card: card.slots,
        )
        yield _card_gauge(
            "healthy", "1 while the card may be given to pods, 0 while it is sick.", each, lambda card: card.healthy
        )

    def _of_events(self, cards: NodeCards, pods: Sequence[Pod]) -> Iterable[Metric]:
        by_uuid = {card.uuid: card for card in cards.cards}
        self._metrics.xids = Counter({key: count for key, count in self._metrics.xids.items() if key[0] in by_uuid})
        yield _counter(
            "gpushare_xid_events",
            "Xid events that the driver reported of the card.",
            (*_CARD, "xid"),
            [((*_of_card(by_uuid[uuid]), xid), count) for (uuid, xid), count in self._metrics.xids.items()],
        )
        for name, text, label, counts in (
            (
                "allocations",
                "Calls of Allocate by outcome; a refused one ends its pod.",
                "outcome",
                self._metrics.allocations,
            ),
            (
                "repairs",
                "Containers found with another card than annotated, by what was done.",
                "outcome",
                self._metrics.repairs,
            ),
            (
                "unadmitted_pods",
                "Pods that failed admission for a reason that has passed, by what was done.",
                "action",
                self._metrics.unadmitted,
            ),
            (
                "nvml_errors",
                "Answers of NVML that were errors, by what was asked.",
                "operation",
                self._metrics.nvml_errors,
            ),
            ("registrations", "Registrations that the kubelet took.", "resource", self._metrics.registrations),
        ):
            yield _counter(f"gpushare_{name}", text, (label,), [((value,), count) for value, count in counts.items()])
        alive = {pod.metadata.uid for pod in pods}
        self._metrics.held &= alive
        yield _gauge(
            "gpushare_held_containers",
            "Containers that may not start yet; their pods' events say why.",
            (),
            [((), len(self._metrics.held))],
        )

    def _of_pods(self, cards: NodeCards, pods: Sequence[Pod]) -> Iterable[Metric]:
        present = {card.index for card in cards.cards}
        booked = [use for use in bookings(pods, cards) if use.on.index in present]
        yield _pod_gauge("booked_bytes", "Card memory that the pod booked.", [(use, use.booked) for use in booked])
        seen = self._metrics.seen
        if seen is None:
            return
        alive = {pod.metadata.uid for pod in pods}
        unbooked = self._metrics.unbooked
        uses = [use for use in seen.uses if use.on.index in present and (use.on.uid in alive or use.on in unbooked)]
        known = [(use, use.used) for use in uses if use.used is not None]
        yield _pod_gauge(
            "used_bytes", "Card memory that the pod's processes hold, as far as the driver reports it.", known
        )
        yield _pod_gauge(
            "overuse_bytes",
            "Card memory above the booking, of pods that were above their limit for long enough to be reported.",
            [(use, use.over) for use in uses if use.on in self._metrics.over],
        )
        yield _gauge(
            "gpushare_pod_unbooked_card",
            "1 while a process of the pod runs on a card that the pod did not book.",
            _POD,
            [(_of_pod(on), 1) for on in sorted(unbooked) if on.index in present],
        )
        yield _counter(
            "gpushare_unbooked_episodes",
            "How often a pod was reported for a process on a card that it did not book.",
            (),
            [((), self._metrics.unbooked_episodes)],
        )
        yield _counter(
            "gpushare_overuse_episodes",
            "How often a pod was reported for using more than it booked.",
            (),
            [((), self._metrics.overuse)],
        )
        for name, text, values in (
            ("unaccounted_bytes", "Card memory held by processes of no pod of this node.", seen.unaccounted),
            ("processes_without_figure", "Processes whose memory the driver does not report.", seen.without_figure),
        ):
            rows = [(_of_card(card), values.get(card.index, 0)) for card in cards.cards]
            yield _gauge(f"gpushare_card_{name}", text, _CARD, rows)


def _unit_bytes(cards: NodeCards) -> int:
    try:
        return MemoryUnit.parse(cards.unit).mib * MIB
    except InvalidQuantityError:
        return 0


def _of_card(card: CardFacts) -> tuple[str, str, str]:
    return str(card.index), card.uuid, card.model


def _of_pod(on: PodOnCard) -> tuple[str, str, str, str]:
    return on.namespace, on.pod, on.uid, str(on.index)


def _card_gauge(name: str, text: str, cards: Iterable[CardFacts], value: Callable[[CardFacts], float]) -> Metric:
    return _gauge(f"gpushare_card_{name}", text, _CARD, [(_of_card(card), value(card)) for card in cards])


def _pod_gauge(name: str, text: str, values: Iterable[tuple[CardUse, int]]) -> Metric:
    rows = [(_of_pod(use.on), value) for use, value in values]
    return _gauge(f"gpushare_pod_{name}", text, _POD, rows)


def _gauge(name: str, text: str, labels: Sequence[str], rows: _Rows) -> Metric:
    return _filled(GaugeMetricFamily(name, text, labels=labels), rows)


def _counter(name: str, text: str, labels: Sequence[str], rows: _Rows) -> Metric:
    return _filled(CounterMetricFamily(name, text, labels=labels), rows)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, rows: _Rows) -> Metric:
    for values, value in rows:
        family.add_metric(values, value)
    return family
