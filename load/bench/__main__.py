"""``python -m load.bench``: the time that the extender takes, beside a server that does nothing. See ``--help``."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any

from clusters.processes.progress import Progress
from clusters.processes.scratch import scratch_folder
from load.bench.bench_figures import targets, text
from load.bench.bench_plan import Plan, read
from load.bench.bench_servers import Bed
from load.bench.measuring import Measuring
from load.load_commands import exit_code
from load.load_reports import machine, write


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; ``--help`` lists them."""
    plan = read(argv)
    return exit_code("bench", lambda: run(plan))


def run(plan: Plan) -> int:
    """The code; prints what was measured and keeps it in a file. Raises CannotMeasureError, ClusterError, OSError."""
    plan.output.mkdir(parents=True, exist_ok=True)
    found = asyncio.run(_measure(plan))
    path = plan.output / "bench.json"
    write(path, found)
    print(f"{text(found)}\n\nwrote {path}")
    missed = any(target.is_kept is False for target in targets(found))
    return 99 if missed and plan.check_targets else 0


async def _measure(plan: Plan) -> dict[str, Any]:
    before = os.getloadavg()[0]
    with scratch_folder() as folder, Progress("bench", "starting", sys.stderr) as progress:
        async with AsyncExitStack() as stack:
            measuring = Measuring(plan, Bed.of(folder, stack), progress)
            await measuring.all()
    found = {
        "machine": machine(before),
        "plan": {**asdict(plan), "output": str(plan.output)},
        **measuring.run,
    }
    return found | {"targets": [{**one._asdict(), "met": one.is_kept} for one in targets(found)]}


if __name__ == "__main__":
    sys.exit(main())
