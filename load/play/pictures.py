"""A run as a picture, drawn by matplotlib: latency over the run, as curves and as a heat map, and what the extender took."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from load.play.growth import fixed_names


def can_draw() -> bool:
    """Is matplotlib there?"""
    return importlib.util.find_spec("matplotlib") is not None


def draw(run: Mapping[str, Any], folder: Path) -> list[Path]:
    """``load.svg`` and ``load.png`` in the folder."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # it is an extra, and slow to import
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    figure = Figure(figsize=(15, 9), layout="constrained")
    FigureCanvasAgg(figure)
    order = run["order"]
    figure.suptitle(
        f"{run['cluster']['nodes']} simulated nodes, {order['names']} names in a question, "
        f"{order['shape']}, {order['rate']:g} pods/s{', TLS' if order['tls'] else ''}"
    )
    cuts, over_time, heat, taken = figure.subplots(2, 2).flat
    _cuts(cuts, run)
    _over_time(over_time, run)
    _heat(figure, heat, run)
    _taken(taken, run)
    for axes in (cuts, over_time, heat):
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    return _saved(figure, folder, "load")


def _cuts(axes: Any, run: Mapping[str, Any]) -> None:
    """Percentiles of each verb side by side."""
    names = ("p50", "p95", "p99", "p999")
    for row in run["rows"]:
        points = [(name, row[name]) for name in names if row[name] is not None]
        label = row["verb"] if row["extender"] == "gpushare" else f"{row['verb']}, {row['extender']}"
        if not points:
            continue
        axes.plot(*zip(*points, strict=True), marker="o", label=label)
    axes.set(title="latency as Locust sees it", xlabel="share of requests", ylabel="ms", yscale="log")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend(fontsize="small")


def _over_time(axes: Any, run: Mapping[str, Any]) -> None:
    """The times of filter, second by second."""
    seconds = [row["second"] for row in run["timeline"]]
    for name in ("p50", "p99"):
        axes.plot(seconds, [row[name] for row in run["timeline"]], label=name)
    for other, rows in run.get("other_timelines", {}).items():
        points = [(row["second"], row["p50"]) for row in rows if row["p50"] is not None]
        if points:
            axes.plot(*zip(*points, strict=True), linestyle="--", label=f"p50, {other}")
    axes.set(title="/filter over the run", xlabel="second", ylabel="ms", yscale="log")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend(fontsize="small")


def _heat(figure: Any, axes: Any, run: Mapping[str, Any]) -> None:
    """How many questions took how long in each second."""
    heat = run["heat"]
    bands = [band for band in range(len(heat["edges"]) - 1) if any(row[band] for row in heat["counts"])]
    if not bands:
        return
    low, high = min(bands), max(bands) + 1
    counts = [[row[band] or float("nan") for row in heat["counts"]] for band in range(low, high)]
    mesh = axes.pcolormesh(range(len(heat["counts"]) + 1), heat["edges"][low : high + 1], counts, cmap="viridis")
    axes.set(title="/filter: how many took how long", xlabel="second", ylabel="ms", yscale="log")
    figure.colorbar(mesh, ax=axes, label="questions")


def _taken(axes: Any, run: Mapping[str, Any]) -> None:
    """Processor and memory of the extender."""
    samples = run["outcome"]["samples"]
    begun = run["outcome"]["begun"]
    # A clock that is set back shows a second twice.
    pairs = [(a, b) for a, b in itertools.pairwise(samples) if b["at"] > a["at"]]
    cores = [(b["cpu_seconds"] - a["cpu_seconds"]) / (b["at"] - a["at"]) for a, b in pairs]
    axes.plot([b["at"] - begun for _, b in pairs], cores, label="cores")
    axes.set(title="what the extender takes", xlabel="second", ylabel="cores", ylim=(0, None))
    memory = axes.twinx()
    memory.plot(
        [one["at"] - begun for one in samples], [one["rss_mib"] for one in samples], color="tab:red", label="MiB"
    )
    most = max((one["rss_mib"] for one in samples), default=1)
    memory.set(ylabel="MiB (red)", ylim=(0, 1.2 * most))
    axes.grid(visible=True, alpha=0.3)


def draw_taken(run: Mapping[str, Any], folder: Path) -> list[Path]:
    """The extender's use over a run without single questions: ``load.svg`` and ``load.png`` in the folder."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(run["setting"])
    _taken(figure.subplots(), run)
    return _saved(figure, folder, "load")


def draw_growth(rows: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """``curves.svg`` and ``curves.png``: latency by nodes, by names and by events, and memory by pods."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
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
    return _saved(figure, folder, "curves")


def _saved(figure: Any, folder: Path, name: str) -> list[Path]:
    paths = [folder / f"{name}.{kind}" for kind in ("svg", "png")]
    for path in paths:
        figure.savefig(path)
    return paths


def _curves(axes: Any, rows: Sequence[Mapping[str, Any]], key: str, style: str, label: str) -> None:
    for cut, colour in (("p50", "tab:blue"), ("p95", "tab:orange"), ("p99", "tab:red")):
        points = [(row[key], row[cut]) for row in rows]
        if points:
            name = ", ".join(filter(None, (cut, label)))
            axes.plot(*zip(*points, strict=True), style, marker="o", color=colour, label=name)
