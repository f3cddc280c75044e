"""Growth as curves, drawn by matplotlib: how /filter grows with the names asked, a start with the pods."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from load.bench.bench_figures import EXTENDER, NOTHING, Row, as_scheduler_asks


def can_draw() -> bool:
    """Is matplotlib there?"""
    return importlib.util.find_spec("matplotlib") is not None


def draw(run: Mapping[str, Any], folder: Path) -> list[Path]:
    """``curves.svg`` and ``curves.png`` in the folder."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # it is an extra, and slow to import
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 9), layout="constrained")
    FigureCanvasAgg(figure)
    latency, tail, binds, memory = figure.subplots(2, 2).flat
    _plot(latency, growth(run["filter"], "p50"), "/filter, quiet: p50", "names asked", "µs")
    _plot(tail, growth(run["filter"], "p99"), "/filter, quiet: p99", "names asked", "µs")
    _plot(binds, bind_growth(run["bind"]), "binds", "at once", "binds/s")
    _plot(memory, sync_growth(run["sync"]), "first sync", "pods", "")
    paths = [folder / f"curves.{kind}" for kind in ("svg", "png")]
    for path in paths:
        figure.savefig(path)
    return paths


Curves = Mapping[str, Sequence[tuple[float, float]]]


def growth(rows: Sequence[Row], key: str) -> Curves:
    """A figure of filter by the names asked, for each server and fit, while it is quiet and plain."""
    curves: dict[str, list[tuple[float, float]]] = {}
    largest = max((row["nodes"] for row in rows), default=0)
    for row in as_scheduler_asks(rows):
        # Short questions are the same in each world except for its size: those of the largest are drawn.
        if row["events"] or row["with_tls"] or (row["names"] < row["nodes"] < largest):
            continue
        curves.setdefault(f"{row['server']}, {row['fit']} fit", []).append((row["names"], row[key]))
    return {name: sorted(points) for name, points in curves.items()}


def bind_growth(rows: Sequence[Row]) -> Curves:
    """Binds a second by how many are under way together."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["server"] != NOTHING:
            curves.setdefault(row["server"], []).append((row["concurrency"], row["per_second"]))
    return curves


def sync_growth(rows: Sequence[Row]) -> Curves:
    """Seconds and memory of a first sync by pods."""
    ours = sorted((row for row in rows if row["server"] == EXTENDER), key=lambda row: row["pods"])
    return {
        "seconds": [(row["pods"], row["seconds"]) for row in ours],
        "MiB after it": [(row["pods"], row["rss_mib"]) for row in ours],
        "MiB at most": [(row["pods"], row["peak_mib"]) for row in ours],
    }


def _plot(axes: Any, curves: Curves, title: str, x: str, y: str) -> None:
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set(title=title, xlabel=x, ylabel=y, xscale="log", yscale="log")
    axes.grid(visible=True, which="both", alpha=0.3)
    if curves:
        axes.legend(fontsize="small")
