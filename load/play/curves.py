"""The shape ``curves``: the same load on clusters of several sizes, and with more names and more events; growth in numbers and drawn."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.embedded.scheduling.window import feasible_nodes_to_find
from load.load_commands import CLUSTERS
from load.load_reports import write
from load.play import growth
from load.play.growth import Cell
from load.play.play_running import Order, measure
from load.simulated.cluster_file import build, read

SIZES: Final = (100, 500, 1000, 5000, 15_000)
# In each question, where that is fixed.
_NAMES: Final = 100


async def run(order: Order, folder: Path, sizes: Sequence[int] = SIZES) -> int:
    """Measure each cell, in a folder of its own, and print and keep the growth; the exit code. Raises as ``measure``."""
    rows = []
    cells = growth.cells(sizes, _NAMES)
    for number, cell in enumerate(cells, 1):
        fit = "" if cell.fit is None else f"-{100 * cell.fit:.0f}-percent-fit"
        name = f"{cell.nodes}-nodes-{cell.names or 'window'}-names-{cell.events}-events{fit}"
        print(f"load: {number} of {len(cells)}: {name}", file=sys.stderr)
        found = await measure(_of_cell(order, cell), folder / name)
        write(folder / name / "load.json", found)
        rows.append(growth.row(found, cell))
    promises = growth.promises(rows)
    path = folder / "curves.json"
    judged = [{**promise._asdict(), "is_kept": promise.is_kept} for promise in promises]
    write(path, {"rows": rows, "promises": judged, "bytes_a_pod": growth.bytes_a_pod(rows)})
    print(f"{growth.text(rows)}\n\nwrote {path}")
    if importlib.util.find_spec("matplotlib") is not None:
        print(f"wrote {draw(rows, folder / 'curves.svg')}")
    return 99 if any(promise.is_kept is False for promise in promises) else 0


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


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Latency by nodes, names, fitting nodes and events; sizes of answers; memory by pods. (Locust draws a single run.)"""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # it is an extra, and slow to import
    from matplotlib.figure import Figure

    cuts = ("p50", "p95", "p99")
    names, middle = growth.fixed_names(rows), growth.middle([row["nodes"] for row in rows])
    usual = [row for row in rows if row["fit"] is None and row["events"] == growth.EVENTS]
    on_middle = [row for row in rows if row["fit"] is None and row["nodes"] == middle]
    by_names = [row for row in on_middle if row["events"] == growth.EVENTS]
    as_sent = [row for row in usual if row["is_window"]]
    with_fixed = [row for row in usual if not row["is_window"] and row["names"] == names]
    fits = [row for row in rows if row["fit"] is not None and row["fits"] is not None]
    panels = (
        ("/filter by nodes, names as kube-scheduler sends", "nodes", cuts, as_sent),
        (f"/filter by nodes, {names} names", "nodes", cuts, with_fixed),
        (f"/filter by names in a question, {middle} nodes", "names", cuts, by_names),
        (f"/filter by the share of {middle} nodes that hold the pod", "fits", cuts, fits),
        (
            f"/filter by watch events a second, {middle} nodes",
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
