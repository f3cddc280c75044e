"""The findings of ``--check``: over-booked or unhealthy cards, pods that do not start, annotations that do not agree. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gpushare.kubectl_inspect.core.card_report import BoundPod, NodeReport
from gpushare.manifests import Node
from gpushare.model.node import described_cards, published_cards

_NS: Final = 10**9


def findings(
    nodes: Iterable[Node],
    pods: Iterable[BoundPod],
    reports: Iterable[NodeReport],
    problems: Sequence[str],
    now: float,
    assumed_for: float,
) -> list[str]:
    """A line for each; ``problems`` are those of the report. ``now`` is in seconds since 1970."""
    found = list(problems)
    found += (line for one in reports for line in _over_booked(one))
    found += (line for one in pods for line in _not_started(one, now, assumed_for))
    for node in nodes:
        cards, refusal = described_cards(node)
        if cards is not None and not refusal and published_cards(node) is None:
            found.append(f"node {node.metadata.name}: its cards annotation does not agree with its capacity")
    return found


def _over_booked(report: NodeReport) -> Iterator[str]:
    for device in report.info.devices:
        size = report.size_of(device)
        if device.used > size:
            yield f"node {report.name}: card {device.index} is over-booked: {device.used} of {size} units"
        if report.info.counts_slots and device.slots_used > device.slots:
            yield f"node {report.name}: card {device.index} is over-booked: {device.slots_used} of {device.slots} slots"
    if report.whole > report.total:
        yield (
            f"node {report.name}: its kubelet offers {report.total} of {report.whole} units, as if a card was unhealthy, "
            f"and all its pods count: the next one gets at most {max(report.total - report.used, 0)}"
        )
    if report.info.unplaced:
        yield f"node {report.name}: {report.info.unplaced} units of its pods are on none of its cards"


def _not_started(pod: BoundPod, now: float, assumed_for: float) -> Iterator[str]:
    since = now - pod.assumed_at / _NS
    if pod.assumed_at and since > assumed_for:
        booking = pod.booking
        yield f"pod {booking.namespace}/{booking.name}: it has a card of node {pod.node} for {since:.0f} s and has not started"
