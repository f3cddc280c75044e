"""How figures grow with the cluster: from the results of several runs to curves and promises. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from load.load_reports import Promise, number, table

# With the names of a question fixed, latency over the floor on the largest cluster, over that on the one of 1,000 nodes.
MOST_GROWTH: Final = 1.5
_BASE_NODES: Final = 1000
# Watch events a second beside, unless they are what varies.
EVENTS: Final = 100


class Cell(NamedTuple):
    """One run of the curves: ``names`` 0 are as many as kube-scheduler sends for these nodes.

    ``fit``: all pods are of one size, which fits on about this share of the nodes; None: sizes are the cluster's.
    """

    nodes: int
    names: int
    events: int
    fit: float | None = None


def cells(nodes: Sequence[int], fixed: int) -> list[Cell]:
    """By nodes, with the names fixed and as kube-scheduler sends them; on one cluster, by names, events and fitting share."""
    found = [Cell(count, names, EVENTS) for count in nodes for names in (fixed, 0)]
    one = middle(nodes)
    found += [Cell(one, names, EVENTS) for names in (fixed // 2, 2 * fixed, 4 * fixed) if 0 < names <= one]
    found += [Cell(one, 0, events) for events in (0, 500)]
    found += [Cell(one, 0, EVENTS, fit) for fit in (1.0, 0.5, 0.0)]
    return list(dict.fromkeys(found))


def middle(nodes: Sequence[int]) -> int:
    """The cluster on which all else varies: the largest of at most 5,000 nodes."""
    return max((count for count in nodes if count <= 5000), default=nodes[0])


def row(run: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
    """The point of one run on a curve; times are ms, memory is MiB."""
    ours = {one["verb"]: one for one in run["rows"] if one["extender"] == "gpushare"}
    samples = run["outcome"]["samples"]
    filtered = ours.get("filter", {})
    return {
        **cell._asdict(),
        "names": run["order"]["names"],
        "is_window": not cell.names,
        "pods": run["outcome"]["counts"]["running"],
        "rss_mib": samples[0]["rss_mib"] if samples else None,
        "binds_per_second": round(run["outcome"]["counts"]["binds"] / run["order"]["seconds"], 1),
        "failures": sum(one["failures"] for one in ours.values()),
        "bytes": filtered.get("bytes"),
        "fits": filtered.get("fit"),
        **{cut: filtered.get(cut) for cut in ("p50", "p95", "p99", "p999", "p50_over_floor", "p99_over_floor")},
    }


def fixed_names(rows: Sequence[Mapping[str, Any]]) -> int:
    """The number of names that was asked about on each cluster; 0 if there was none."""
    counts = Counter(one["names"] for one in rows if not one["is_window"])
    return max(counts, key=lambda names: counts[names], default=0)


def promises(rows: Sequence[Mapping[str, Any]]) -> list[Promise]:
    """The promises of the project about growth, with the figures that were found."""
    names = fixed_names(rows)
    by_nodes = {one["nodes"]: one for one in rows if not one["is_window"] and one["names"] == names}
    base, largest = by_nodes.get(_BASE_NODES), by_nodes[max(by_nodes)] if by_nodes else None
    growth = None
    if base and largest and largest["nodes"] > _BASE_NODES and base["p50_over_floor"] and largest["p50_over_floor"]:
        growth = round(largest["p50_over_floor"] / base["p50_over_floor"], 3)
    name = f"/filter p50, {names} names: {max(by_nodes, default=0)} nodes over {_BASE_NODES}"
    return [Promise(name, MOST_GROWTH, growth), Promise("failures", 0, float(sum(one["failures"] for one in rows)))]


def bytes_a_pod(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """The slope of the extender's memory over pods (with their nodes), by least squares; None with fewer than two sizes."""
    points = sorted({(one["pods"], one["rss_mib"]) for one in rows if one["rss_mib"] is not None})
    if len({pods for pods, _ in points}) < 2:
        return None
    slope = statistics.linear_regression(*zip(*points, strict=True)).slope
    return float(round(slope * 1024 * 1024, 1))


def text(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table, and the promises."""
    digits = {"p50": 2, "p95": 2, "p99": 2, "p50_over_floor": 2, "p99_over_floor": 2, "bytes": 0, "rss_mib": 0}
    head = (
        "nodes",
        "pods",
        "names",
        "fit",
        "events/s",
        "p50 ms",
        "p95",
        "p99",
        "p50/floor",
        "p99/floor",
        "bytes",
        "MiB",
        "binds/s",
    )
    lines = [
        (
            *(one[key] for key in ("nodes", "pods", "names")),
            "-" if one["fits"] is None else f"{one['fits']:.0%}",
            one["events"],
            *(number(one[key], places) for key, places in digits.items()),
            number(one["binds_per_second"], 1),
        )
        for one in rows
    ]
    slope = bytes_a_pod(rows)
    memory = "one size alone" if slope is None else f"it grows by {slope:.0f} bytes a pod with its share of nodes"
    about = "/filter as Locust sees it; floor: a server that does nothing, asked the same"
    judged = [promise.text("unknown") for promise in promises(rows)]
    return "\n".join([about, *table(head, lines), "", f"memory: {memory}", *judged])
