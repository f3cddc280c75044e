"""Promises of gpushare.deviceplugin.core.plugin_metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from prometheus_client.samples import Sample

from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.core.usage import MIB, CardUse, NodeUse, PodOnCard
from gpushare.deviceplugin.metrics_exposition import PluginExposition
from gpushare.model.cards import CardFacts, NodeCards
from tests.gpushare.deviceplugin.core.bound_pod import bound_pod

T4 = CardFacts(0, "GPU-0", "Tesla T4", 15079, 14)
UNHEALTHY = CardFacts(2, "GPU-2", 'a "strange" \\ name', 11178, 10, slots=3, healthy=False)
ON = PodOnCard("team", "a", "uid-a", 0)


def counting(*cards: CardFacts, unit: str = "GiB", pods: Sequence[KeptPod] = ()) -> PluginMetrics:
    """Metrics over a node."""
    metrics = PluginMetrics()
    metrics.cards, metrics.pods = lambda: NodeCards(1, "ids", unit, "boot", cards), lambda: pods
    return metrics


def samples(metrics: PluginMetrics) -> list[Sample]:
    """All samples of a scrape."""
    return [sample for family in PluginExposition(metrics).collect() for sample in family.samples]


def values(metrics: PluginMetrics, name: str, *labels: str) -> dict[Any, float]:
    """The values of one series by these labels; a text for one label, a tuple for several."""
    rows = [(tuple(one.labels[label] for label in labels), one.value) for one in samples(metrics) if one.name == name]
    assert len(dict(rows)) == len(rows), f"{name} is there twice"
    return {key[0] if len(key) == 1 else key: value for key, value in rows}


def pod(name: str, index: int = 0, units: int = 2) -> KeptPod:
    """A running pod with a card."""
    return bound_pod(f"uid-{name}", units, index, "Running", namespace="team", name=name)


# By counter and label, what it begins with: a rate needs a beginning, so what did not happen yet is there as 0.
COUNTERS = {
    ("allocations", "outcome"): {"granted": 0, "refused": 0},
    ("repairs", "outcome"): {"exchanged": 0, "held": 0},
    ("unadmitted_pods", "action"): {"reported": 0, "deleted": 0},
    ("nvml_errors", "operation"): {"processes": 0, "survey": 0, "limits": 0},
    ("overuse_evictions", "outcome"): {"evicted": 0, "refused": 0},
    ("registrations", "resource"): {},
    ("unreadable_objects", "resource"): {"nodes": 0, "pods": 0},
}


def test_what_happened_is_counted() -> None:
    """From 0 on, if the outcomes are known."""
    assert not values(PluginMetrics(), "gpushare_cards") | values(counting(T4), "gpushare_pod_used_bytes")
    metrics = counting(T4)
    metrics.seen = NodeUse()
    for (name, label), begins in COUNTERS.items():
        assert values(metrics, f"gpushare_{name}_total", label) == begins
        one = min(begins, default="aliyun.com/gpu-mem")
        getattr(metrics, name)[one] += 2
        assert values(metrics, f"gpushare_{name}_total", label) == {**begins, one: 2}
    metrics.xids["GPU-0", "79"] += 2
    assert values(metrics, "gpushare_xid_events_total", "card", "xid") == {("0", "79"): 2}
    assert values(metrics, "gpushare_container_limits", "state") == {}
    metrics.limits = {"enforced": 3, "none": 0}
    assert values(metrics, "gpushare_container_limits", "state") == metrics.limits
    for name in ("overuse_episodes", "unbooked_episodes"):
        assert values(metrics, f"gpushare_{name}_total") == {(): 0}


def test_a_card_that_is_gone_takes_its_series_with_it() -> None:
    """Xids too; another card in its place begins at nothing."""
    metrics = counting(T4)
    metrics.xids["GPU-2", "48"] += 1
    metrics.seen = NodeUse((), {0: 1, 2: 5}, {2: 1})

    assert not [one for one in samples(metrics) if one.labels.get("card") == "2"]
    assert not metrics.xids


def test_a_pod_that_is_gone_takes_its_series_with_it() -> None:
    """Before the next look at the processes; an unknown use has no series, nor has a card that the node has not.

    One of two pods of a name is being stopped while its successor waits: a scrape with one series twice would be refused whole.
    """
    pods = [pod("a"), pod("b", index=7), pod("c", index=2)]
    metrics, hidden = counting(T4, UNHEALTHY, pods=pods), PodOnCard("team", "c", "uid-c", 2)
    metrics.seen = NodeUse((CardUse(ON, 1024 * MIB, 1253 * MIB), CardUse(hidden, 1, None)))
    assert values(metrics, "gpushare_pod_overuse_bytes", "pod") == {}
    metrics.over = frozenset({ON})
    booked = {("a", "0"): 2048 * MIB, ("c", "2"): 2048 * MIB}
    assert values(metrics, "gpushare_pod_booked_bytes", "pod", "card") == booked
    assert values(metrics, "gpushare_pod_used_bytes", "pod", "card") == {("a", "0"): 1253 * MIB}
    assert values(metrics, "gpushare_pod_overuse_bytes", "pod", "card") == {("a", "0"): 229 * MIB}

    pods[1:] = [pod("a")]
    pods[0].metadata.uid = "uid-old"
    assert values(metrics, "gpushare_pod_booked_bytes", "pod", "uid").keys() == {("a", "uid-old"), ("a", "uid-a")}
    pods.clear()
    assert not [one for one in samples(metrics) if one.labels.get("pod") == "a"]


def test_what_is_not_known_of_a_card_has_no_sample() -> None:
    """A unit that cannot be read, a card that did not answer, memory without a figure, a card that is only not shared any more."""
    mig = msgspec.structs.replace(UNHEALTHY, healthy=False, reason="in MIG mode")
    metrics = counting(T4, CardFacts(1, "GPU-1", "Tesla T4", 15079, 14), mig, unit="?")
    metrics.seen = NodeUse((), {0: 5, 1: None}, {1: 2}, frozenset({2}))

    assert values(metrics, "gpushare_unit_bytes", "unit") == {}
    assert values(metrics, "gpushare_card_unaccounted_bytes", "card") == {"0": 5}
    assert values(metrics, "gpushare_card_processes_without_figure", "card") == {"0": 0, "1": 2}
    assert values(metrics, "gpushare_card_healthy", "card") == {"0": 1, "1": 1}
