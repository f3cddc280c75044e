"""The shape ``curves``: the same load on clusters of several sizes; figures of growth, and promises about it."""

from __future__ import annotations

import dataclasses
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.embedded.scheduling.configuration import feasible_nodes_to_find
from load.load_commands import CLUSTERS
from load.load_reports import Promise, number, table, write
from load.play.play_running import Order, measure

SIZES: Final = (100, 500, 1000, 5000, 15_000)
# In each question, in the runs where that does not grow with the cluster.
NAMES: Final = 100
# With the names of a question fixed, latency over the floor on the largest cluster, over that on the one of 1,000 nodes.
MOST_GROWTH: Final = 1.5
_BASE_NODES: Final = 1000
_FIGURES: Final = {"p50": 2, "p95": 2, "p99": 2, "p50_over_floor": 2, "p99_over_floor": 2, "bytes": 0}


async def run(order: Order, folder: Path) -> int:
    """Measure on each cluster, in a folder of its own, with the names of a question fixed and as many as kube-scheduler sends.

    Print and keep the growth; the exit code. Raises as ``measure``.
    """
    rows = []
    for nodes in SIZES:
        for names in dict.fromkeys((NAMES, feasible_nodes_to_find(nodes, 0))):
            name = f"{nodes}-nodes-{names}-names"
            print(f"load: {name}", file=sys.stderr)
            plan = msgspec.structs.replace(order.plan, cluster=str(CLUSTERS / f"nodes-{nodes}.yaml"), window=names)
            measured = await measure(dataclasses.replace(order, plan=plan, shows_table=False), folder / name)
            write(folder / name / "load.json", measured)
            rows.append(row(measured))
    found = promises(rows)
    path = folder / "curves.json"
    judged = [{**promise._asdict(), "is_kept": promise.is_kept} for promise in found]
    write(path, {"rows": rows, "promises": judged, "bytes_a_pod": bytes_a_pod(rows)})
    print(f"{text(rows)}\n\nwrote {path}")
    return 99 if any(promise.is_kept is False for promise in found) else 0


def row(run: Mapping[str, Any]) -> dict[str, Any]:
    """The point of one run on a curve; times are ms, memory is MiB."""
    ours = {one["verb"]: one for one in run["rows"] if one["extender"] == "gpushare"}
    counts, samples, filtered = run["outcome"]["counts"], run["outcome"]["samples"], ours.get("filter", {})
    return {
        "nodes": run["cluster"]["nodes"],
        "names": run["order"]["names"],
        "pods": counts["running"],
        "rss_mib": samples[0]["rss_mib"] if samples else None,
        "binds_per_second": round(counts["binds"] / run["order"]["seconds"], 1),
        "failures": sum(one["failures"] for one in ours.values()),
        **{figure: filtered.get(figure) for figure in _FIGURES},
    }


def promises(rows: Sequence[Mapping[str, Any]]) -> list[Promise]:
    """The promises of the project about growth, with the figures that were found."""
    by_nodes = {one["nodes"]: one["p50_over_floor"] for one in rows if one["names"] == NAMES}
    base, largest = by_nodes.get(_BASE_NODES), by_nodes.get(SIZES[-1])
    growth = round(largest / base, 3) if base and largest else None
    name = f"/filter p50, {NAMES} names: {SIZES[-1]} nodes over {_BASE_NODES}"
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
    digits = {**_FIGURES, "rss_mib": 0, "binds_per_second": 1}
    head = ("nodes", "pods", "names", "p50 ms", "p95", "p99", "p50/floor", "p99/floor", "bytes", "MiB", "binds/s")
    lines = [
        (one["nodes"], one["pods"], one["names"], *(number(one[key], places) for key, places in digits.items()))
        for one in rows
    ]
    slope = bytes_a_pod(rows)
    memory = "one size alone" if slope is None else f"it grows by {slope:.0f} bytes a pod with its share of nodes"
    about = "/filter as Locust sees it; floor: a server that does nothing, asked the same"
    judged = [promise.text("unknown") for promise in promises(rows)]
    return "\n".join([about, *table(head, lines), "", f"memory: {memory}", *judged])
