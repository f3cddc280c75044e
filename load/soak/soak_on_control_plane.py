"""The soak on a real etcd, kube-apiserver and kube-scheduler: kwok reports pods as running, and only the soak knows of cards."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from clusters.api.waiting import eventually
from clusters.controlplane.real_control_plane import RealControlPlane
from clusters.processes.progress import Progress
from clusters.processes.scratch import scratch_folder
from load.bench.bench_servers import Bed, Server, start_extender
from load.play.play_running import OURS, audited, sample
from load.readings import samples as samples_of
from load.real_scheduler.real_scheduler_stage import scheduler_configuration
from load.real_scheduler.scheduler_figures import Spent, spent
from load.simulated.cluster_file import build, read
from load.simulated.on_control_plane import bring_up
from load.simulated.simulated_world import World
from load.soak.soak_churn import Churn

# Until all pods of the cluster run at first, in seconds: against hangs only.
_SETTLE_SECONDS: Final = 600.0
_ATTEMPT: Final = "scheduler: attempt "


async def measure(flags: argparse.Namespace) -> dict[str, Any]:
    """All that the soak comes to, for the JSON file; what the programs log is left in the folder ``logs`` of the output.

    Raises ApiError, CannotMeasureError, ClusterError, LoadError, NotReachedError.
    """
    flags.output.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        # When all have ended, and whatever ended them.
        stack.callback(_keep_logs, folder, flags.output / "logs")
        progress = stack.enter_context(Progress("load", f"{flags.cluster.name}: laying it out", sys.stderr))
        world = build(read(flags.cluster))
        site = await bring_up(world, folder, stack, progress)
        audits = ("--audit-interval", f"{flags.audit_seconds}s")
        extender, _ = await start_extender(Bed.of(folder, stack), with_metrics=True, flags=audits)
        await site.plane.start_scheduler(scheduler_configuration(extender))
        churn = Churn(site.api, world, flags.rate, flags.seconds)
        return await _soak(flags, world, churn, extender, site.plane, progress)


def _keep_logs(folder: Path, kept: Path) -> None:
    kept.mkdir(parents=True, exist_ok=True)
    for log in folder.glob("*.log"):
        shutil.copy(log, kept)


async def _soak(
    flags: argparse.Namespace,
    world: World,
    churn: Churn,
    extender: Server,
    plane: RealControlPlane,
    progress: Progress,
) -> dict[str, Any]:
    samples: list[dict[str, float]] = []
    try:
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(work) for work in (churn.follow(), *churn.endings())]
            progress.text = "waiting until all pods run"
            await eventually(
                churn.look, lambda seen: seen[0] == len(world.running), "all pods run", seconds=_SETTLE_SECONDS
            )
            begun, progress.text = time.time(), f"load for {flags.seconds} s"
            beside.append(group.create_task(sample(extender, samples, flags.audit_seconds)))
            await churn.come(progress)
            spent = time.time() - begun
            samples[-1] |= await audited(extender)
            for task in beside:
                task.cancel()
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return {
        "setting": f"{flags.rate} pods/s for {flags.seconds} s, kube-scheduler on {len(world.nodes)} nodes of kwok",
        "order": {"rate": flags.rate, "seconds": flags.seconds, "cluster": flags.cluster.name},
        "outcome": {"begun": begun, "seconds": spent, "counts": churn.counted(), "samples": samples},
        "rows": rows(await extender.metrics(), await plane.scheduler_metrics()),
    }


def rows(of_ours: str, of_theirs: str) -> list[dict[str, Any]]:
    """The verbs of our extender and the attempts of kube-scheduler, from their pages: times in ms, and how many failed. Pure."""
    failed = Counter[str]()
    for one in samples_of(of_ours, ("gpushare_extender_requests_total",)):
        if one.labels["verdict"] == "failed":
            failed[one.labels["verb"]] += int(one.value)
    found = []
    for name, of in spent(of_ours).items():
        verb = name.removeprefix(f"{OURS} ")
        found.append(_row(OURS, verb, of, failed[verb]))
    for name, of in spent(of_theirs).items():
        if name.startswith(_ATTEMPT):
            result = name.removeprefix(_ATTEMPT)
            found.append(_row("kube-scheduler", f"attempt {result}", of, of.count if result == "error" else 0))
    return found


def _row(extender: str, verb: str, of: Spent, failures: int) -> dict[str, Any]:
    times = {"p50": 1000 * of.p50, "p99": 1000 * of.p99}
    return {"extender": extender, "verb": verb, "count": of.count, **times, "failures": failures}
