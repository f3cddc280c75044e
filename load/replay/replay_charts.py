"""The curves of a replay, drawn by matplotlib: what is allocated by what has arrived, beside the published policies."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from load.replay.replay_report import DEMANDS, Curve

_KINDS: Final = (".png", ".svg")
_WIDE: Final = 2.5


class CannotDrawError(Exception):
    """There will be no picture; the text says why."""


def check(path: Path) -> None:
    """Before anything is replayed. Raises CannotDrawError."""
    if path.suffix not in _KINDS:
        raise CannotDrawError(f"{path}: pictures are {' or '.join(_KINDS)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise CannotDrawError("no picture: matplotlib is missing (in a checkout: pip install '.[bench]')")


def draw(path: Path, workload: str, policy: str, ours: Curve, others: Mapping[str, Curve]) -> None:
    """Write the file. Raises OSError."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # it is an extra, and slow to import
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, curve in others.items():
        axes.plot(*_points(curve), marker=".", alpha=0.7, label=f"{name} (published)")
    axes.plot(*_points(ours), marker="o", linewidth=_WIDE, color="black", label=f"{policy} (ours)")
    axes.set(
        title=f"share of all cards that is allocated; workload {workload}",
        xlabel="arrived demand, % of all cards",
        ylabel="allocated, % of all cards",
        xticks=DEMANDS,
    )
    axes.grid(visible=True, alpha=0.3)
    figure.legend(fontsize="small", loc="outside right upper")
    figure.savefig(path)


def _points(curve: Curve) -> tuple[list[int], list[float]]:
    shown = sorted(demand for demand in curve if DEMANDS[0] <= demand <= DEMANDS[-1])
    return shown, [curve[demand][0] for demand in shown]
