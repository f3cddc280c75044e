"""``python -m load.bench``: the time that the extender takes, beside a server that does nothing. See ``--help``."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from clusters.processes.progress import Progress
from clusters.processes.scratch import scratch_folder
from clusters.provider import ClusterError
from load.bench import bench_report
from load.bench.bench_figures import targets
from load.bench.bench_plan import Plan, read
from load.bench.bench_servers import Bed, CannotMeasureError
from load.bench.measuring import Measuring
from load.exit_code import exit_code


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; ``--help`` lists them."""
    plan = read(argv)
    return exit_code("bench", lambda: _run(plan), CannotMeasureError, ClusterError, OSError)


def _run(plan: Plan) -> int:
    plan.output.mkdir(parents=True, exist_ok=True)
    run = asyncio.run(measure(plan))
    path = plan.output / "bench.json"
    path.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    print(f"{bench_report.text(run)}\n\nwrote {path}")
    missed = any(target.met is False for target in targets(run))
    return 99 if missed and plan.check_targets else 0


async def measure(plan: Plan) -> dict[str, Any]:
    """All measures of the plan, as they go into the JSON file. Raises CannotMeasureError, ClusterError, OSError."""
    before = os.getloadavg()[0]
    with scratch_folder() as folder, Progress("bench", "starting", sys.stderr) as progress:
        measuring = Measuring(plan, Bed.of(folder), progress)
        await measuring.all()
    # Above the processors that there are, figures are of the others' work too.
    about = {
        "load_before": before,
        "load_after": os.getloadavg()[0],
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }
    run = {"machine": about, "plan": {**asdict(plan), "output": str(plan.output)}, **measuring.run}
    return run | {"targets": [{**asdict(target), "met": target.met} for target in targets(run)]}


if __name__ == "__main__":
    sys.exit(main())
