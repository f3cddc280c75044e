"""The shape ``curves``: the same load on clusters of several sizes, with more names and with more events.

The results of the runs become figures of growth, promises about it, and a picture.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from clusters.embedded.scheduling.window import feasible_nodes_to_find
from load.load_commands import CLUSTERS
from load.load_reports import Promise, number, table, write
from load.play.play_running import Order, measure
from load.simulated.cluster_file import build, read

SIZES: Final = (100, 500, 1000, 5000, 15_000)
# In each question, where that is fixed.
_NAMES: Final = 100
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


async def run(order: Order, folder: Path) -> int:
    """Measure each cell, in a folder of its own, and print and keep the growth; the exit code. Raises as ``measure``."""
    rows = []
    planned = cells(SIZES, _NAMES)
    for at, cell in enumerate(planned, 1):
        fit = "" if cell.fit is None else f"-{100 * cell.fit:.0f}-percent-fit"
        name = f"{cell.nodes}-nodes-{cell.names or 'window'}-names-{cell.events}-events{fit}"
        print(f"load: {at} of {len(planned)}: {name}", file=sys.stderr)
        measured = await measure(_of_cell(order, cell), folder / name)
        write(folder / name / "load.json", measured)
        rows.append(row(measured, cell))
    found = promises(rows)
    path = folder / "curves.json"
    judged = [{**promise._asdict(), "is_kept": promise.is_kept} for promise in found]
    write(path, {"rows": rows, "promises": judged, "bytes_a_pod": bytes_a_pod(rows)})
    print(f"{text(rows)}\n\nwrote {path}")
    if importlib.util.find_spec("matplotlib") is not None:
        print(f"wrote {draw(rows, folder / 'curves.svg')}")
    return 99 if any(promise.is_kept is False for promise in found) else 0


def _of_cell(order: Order, cell: Cell) -> Order:
    path = CLUSTERS / f"nodes-{cell.nodes}.yaml"
    described = read(path)
    plan = msgspec.structs.replace(
        order.plan,
        cluster=str(path),
        window=min(cell.names or feasible_nodes_to_find(described.nodes, 0), described.nodes),
        units=0 if cell.fit is None else build(described).size_for(cell.fit),
    )
    return dataclasses.replace(order, plan=plan, events=cell.events, shows_table=False)


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


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Latency by nodes, names, fitting nodes and events; sizes of answers; memory by pods. (Locust draws a single run.)"""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # it is an extra, and slow to import
    from matplotlib.figure import Figure

    cuts = ("p50", "p95", "p99")
    names, one = fixed_names(rows), middle([row["nodes"] for row in rows])
    usual = [row for row in rows if row["fit"] is None and row["events"] == EVENTS]
    on_middle = [row for row in rows if row["fit"] is None and row["nodes"] == one]
    by_names = [row for row in on_middle if row["events"] == EVENTS]
    as_sent = [row for row in usual if row["is_window"]]
    with_fixed = [row for row in usual if not row["is_window"] and row["names"] == names]
    fits = [row for row in rows if row["fit"] is not None and row["fits"] is not None]
    panels = (
        ("/filter by nodes, names as kube-scheduler sends", "nodes", cuts, as_sent),
        (f"/filter by nodes, {names} names", "nodes", cuts, with_fixed),
        (f"/filter by names in a question, {one} nodes", "names", cuts, by_names),
        (f"/filter by the share of {one} nodes that hold the pod", "fits", cuts, fits),
        (
            f"/filter by watch events a second, {one} nodes",
            "events",
            cuts,
            [row for row in on_middle if row["is_window"]],
        ),
        ("answer of /filter by names", "names", ("bytes",), on_middle),
        ("memory of the extender after its first sync, by pods", "pods", ("rss_mib",), usual),
    )
    figure = Figure(figsize=(24, 9), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (title, key, figures, shown) in zip(figure.subplots(2, 4).flat, panels, strict=False):
        for name in figures:
            points = sorted({(row[key], row[name]) for row in shown if row[name] is not None})
            axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=name)
        axes.set(
            title=title, xlabel=key, ylabel="ms as Locust sees it" if figures is cuts else figures[0], ylim=(0, None)
        )
        axes.legend(fontsize="small")
        axes.grid(visible=True, alpha=0.3)
    figure.savefig(path)
    return path
