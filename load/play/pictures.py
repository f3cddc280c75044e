"""The growth of figures as curves, drawn by matplotlib. (Locust draws a single run: ``locust.html``.)"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from load.play.growth import fixed_names


def can_draw() -> bool:
    """Is matplotlib there?"""
    return importlib.util.find_spec("matplotlib") is not None


def draw_growth(rows: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """``curves.svg`` and ``curves.png``: latency by nodes, by names and by events, and memory by pods."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # it is an extra, and slow to import
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    figure = Figure(figsize=(20, 9), layout="constrained")
    FigureCanvasAgg(figure)
    by_nodes, by_names, by_fit, by_events, sizes, memory = figure.subplots(2, 3).flat
    fits = [row for row in rows if row["fit"] is not None and row["fits"] is not None]
    rows = [row for row in rows if row["fit"] is None]
    middle = max((row["nodes"] for row in rows if row["nodes"] <= 5000), default=0)
    usual, names = [row for row in rows if row["events"] == 100], fixed_names(rows)
    for is_window, style in ((False, "--"), (True, "-")):
        found = [row for row in usual if row["is_window"] == is_window and (is_window or row["names"] == names)]
        label = "as kube-scheduler sends" if is_window else f"{names} names"
        _curves(by_nodes, sorted(found, key=lambda row: row["nodes"]), "nodes", style, label)
    _curves(
        by_names,
        sorted((row for row in usual if row["nodes"] == middle), key=lambda row: row["names"]),
        "names",
        "-",
        "",
    )
    quiet = [row for row in rows if row["nodes"] == middle and row["is_window"]]
    _curves(by_events, sorted(quiet, key=lambda row: row["events"]), "events", "-", "")
    _curves(by_fit, sorted(fits, key=lambda row: row["fits"]), "fits", "-", "")
    named = sorted((row["names"], row["bytes"]) for row in rows if row["nodes"] == middle and row["bytes"])
    sizes.plot(*zip(*named, strict=True), marker="o")
    sizes.set(title=f"answer of /filter, {middle} nodes", xlabel="names", ylabel="bytes", ylim=(0, None))
    sizes.grid(visible=True, alpha=0.3)
    points = sorted({(row["pods"], row["rss_mib"]) for row in rows})
    memory.plot(*zip(*points, strict=True), marker="o")
    by_nodes.set(title="/filter by nodes", xlabel="nodes", xscale="log")
    by_names.set(title=f"/filter by names in a question, {middle} nodes", xlabel="names")
    by_fit.set(title=f"/filter by who fits, {middle} nodes", xlabel="share of the nodes that hold the pod")
    by_events.set(title=f"/filter by watch events, {middle} nodes", xlabel="events a second")
    memory.set(title="memory of the extender after its first sync", xlabel="pods", ylabel="MiB", ylim=(0, None))
    for axes in (by_nodes, by_names, by_fit, by_events):
        axes.set(ylabel="ms as Locust sees it", ylim=(0, None))
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
        axes.grid(visible=True, which="both", alpha=0.3)
    by_nodes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    memory.grid(visible=True, alpha=0.3)
    paths = [folder / f"curves.{kind}" for kind in ("svg", "png")]
    for path in paths:
        figure.savefig(path)
    return paths


def _curves(axes: Any, rows: Sequence[Mapping[str, Any]], key: str, style: str, label: str) -> None:
    for cut, colour in (("p50", "tab:blue"), ("p95", "tab:orange"), ("p99", "tab:red")):
        points = [(row[key], row[cut]) for row in rows]
        if points:
            name = ", ".join(filter(None, (cut, label)))
            axes.plot(*zip(*points, strict=True), style, marker="o", color=colour, label=name)
