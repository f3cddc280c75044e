"""Curves of how latency and memory grow with the cluster, drawn by matplotlib. (Locust draws a single run: ``locust.html``.)"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from load.play.growth import fixed_names

_Rows = Sequence[Mapping[str, Any]]


def can_draw() -> bool:
    """Is matplotlib there?"""
    return importlib.util.find_spec("matplotlib") is not None


def draw_growth(rows: _Rows, folder: Path) -> list[Path]:
    """``curves.svg`` and ``curves.png``: latency by nodes, names, fitting nodes and events; sizes; memory by pods."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # it is an extra, and slow to import
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    figure = Figure(figsize=(20, 9), layout="constrained")
    FigureCanvasAgg(figure)
    by_nodes, by_names, by_fit, by_events, sizes, memory = figure.subplots(2, 3).flat
    fits = [row for row in rows if row["fit"] is not None and row["fits"] is not None]
    rows = [row for row in rows if row["fit"] is None]
    names, middle = fixed_names(rows), max((row["nodes"] for row in rows if row["nodes"] <= 5000), default=0)
    usual, on_middle = (
        [row for row in rows if row[key] == value] for key, value in (("events", 100), ("nodes", middle))
    )
    _latency(
        by_nodes,
        "nodes",
        {
            "as kube-scheduler sends": [row for row in usual if row["is_window"]],
            f"{names} names": [row for row in usual if not row["is_window"] and row["names"] == names],
        },
        title="/filter by nodes",
        xlabel="nodes",
        xscale="log",
    )
    by_nodes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    title = f"/filter by names in a question, {middle} nodes"
    _latency(by_names, "names", {"": [row for row in on_middle if row["events"] == 100]}, title=title, xlabel="names")
    title, xlabel = f"/filter by fitting nodes, {middle} nodes", "share of the nodes that hold the pod"
    _latency(by_fit, "fits", {"": fits}, title=title, xlabel=xlabel)
    title, xlabel = f"/filter by watch events, {middle} nodes", "events a second"
    _latency(by_events, "events", {"": [row for row in on_middle if row["is_window"]]}, title=title, xlabel=xlabel)
    for axes, points, title, xlabel, ylabel in (
        (
            sizes,
            {(one["names"], one["bytes"]) for one in on_middle if one["bytes"]},
            "answer of /filter",
            "names",
            "bytes",
        ),
        (
            memory,
            {(one["pods"], one["rss_mib"]) for one in rows},
            "memory of the extender after its first sync",
            "pods",
            "MiB",
        ),
    ):
        axes.plot(*zip(*sorted(points), strict=True), marker="o")
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel, ylim=(0, None))
        axes.grid(visible=True, alpha=0.3)
    paths = [folder / f"curves.{kind}" for kind in ("svg", "png")]
    for path in paths:
        figure.savefig(path)
    return paths


def _latency(axes: Any, key: str, curves: Mapping[str, _Rows], **about: str) -> None:
    """Three percentiles of latency for each labelled curve; ``key`` is the x axis."""
    for style, (label, rows) in zip(("-", "--"), curves.items(), strict=False):
        for cut, colour in (("p50", "tab:blue"), ("p95", "tab:orange"), ("p99", "tab:red")):
            points = sorted((row[key], row[cut]) for row in rows)
            if points:
                name = ", ".join(filter(None, (cut, label)))
                axes.plot(*zip(*points, strict=True), style, marker="o", color=colour, label=name)
    axes.set(ylabel="ms as Locust sees it", ylim=(0, None), **about)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="small")
    axes.grid(visible=True, which="both", alpha=0.3)
