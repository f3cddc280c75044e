"""The results of replays: means over the seeds by arrived demand, beside the published policies. Pure except for a read."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from load.load_commands import LoadError
from load.load_reports import table

PUBLISHED_FILE: Final = "published_allocation_ratio.csv"
# The arrived demands of the table, in percent of all cards; the last is the one that is quoted.
DEMANDS: Final = (90, 95, 100, 110, 120, 130)

# Mean and standard deviation by arrived demand, in percent.
Curve = Mapping[int, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Run:
    """One seed: the share of all cards that was allocated at each of ``DEMANDS``, in percent, and how long the replay took."""

    seed: int
    ratios: Sequence[float]
    seconds: float
    pods: int
    placed: int


def curve(runs: Sequence[Run]) -> Curve:
    """Over the seeds."""
    columns = zip(*(run.ratios for run in runs), strict=True)
    return {
        demand: (statistics.mean(column), statistics.stdev(column) if len(runs) > 1 else 0.0)
        for demand, column in zip(DEMANDS, columns, strict=True)
    }


def published(folder: Path, workload: str) -> Mapping[str, Curve]:
    """The published figures of this workload, by policy; none if the folder has none. Raises LoadError."""
    path = folder / PUBLISHED_FILE
    if not path.exists():
        return {}
    found: dict[str, dict[int, tuple[float, float]]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["workload"].removeprefix("openb_pod_list_") == workload:
                    of = found.setdefault(row["policy"].partition("-")[2] or row["policy"], {})
                    of[int(row["arrived_pct"])] = float(row["mean_allocated_pct"]), float(row["stdev"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, csv.Error) as error:
        raise LoadError(f"{path}: not the figures of published policies: {error!r}") from error
    return found


def as_json(workload: str, policy: str, runs: Sequence[Run], others: Mapping[str, Curve]) -> dict[str, Any]:
    """One object; ``allocation_ratio_percent`` is the mean at the last of ``DEMANDS``."""
    found = curve(runs)
    mean, deviation = found[DEMANDS[-1]]
    return {
        "workload": workload,
        "policy": policy,
        "seeds": [run.seed for run in runs],
        "arrived_percent": DEMANDS[-1],
        "allocation_ratio_percent": round(mean, 4),
        "standard_deviation": round(deviation, 4),
        "seconds_per_replay": round(statistics.mean(run.seconds for run in runs), 3),
        "curve": _points(found),
        "runs": [
            {
                "seed": run.seed,
                "allocation_ratio_percent": round(run.ratios[-1], 4),
                "pods": run.pods,
                "placed": run.placed,
                "seconds": round(run.seconds, 3),
            }
            for run in runs
        ],
        "published": {name: _points(of) for name, of in others.items()},
    }


def text(workload: str, policy: str, runs: Sequence[Run], others: Mapping[str, Curve]) -> str:
    """A table: a row a policy, the best at the last demand first."""
    last = DEMANDS[-1]
    rows = {f"{policy} (ours)": curve(runs)} | dict(others)
    order = sorted(rows, key=lambda name: -rows[name].get(last, (0.0, 0.0))[0])
    seeds = f"{len(runs)} seed{'s' if len(runs) > 1 else ''}"
    return "\n".join(
        [
            "allocated share of all cards in percent, mean ± standard deviation, by arrived demand; "
            f"workload {workload}, {seeds}",
            *table(
                ("policy", *(f"{demand} %" for demand in DEMANDS)),
                [(name, *(_cell(rows[name].get(demand)) for demand in DEMANDS)) for name in order],
            ),
            f"one replay took {statistics.mean(run.seconds for run in runs):.1f} s",
        ]
    )


def _cell(figure: tuple[float, float] | None) -> str:
    return "-" if figure is None else f"{figure[0]:.2f} ±{figure[1]:5.2f}"


def _points(of: Curve) -> list[dict[str, float]]:
    return [
        {"arrived_percent": demand, "mean": round(mean, 4), "standard_deviation": round(deviation, 4)}
        for demand, (mean, deviation) in sorted(of.items())
    ]
