"""The soak on a real etcd, kube-apiserver and kube-scheduler: kwok reports pods as running, and only the soak knows of cards."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clusters.api.waiting import eventually
from clusters.controlplane.real_control_plane import RealControlPlane
from clusters.processes.progress import Progress
from clusters.processes.scratch import scratch_folder
from clusters.simulated_node import environment_of_programs
from load import metrics_page
from load.bench.bench_servers import CannotMeasureError, Server
from load.play.play_running import OURS, audited, sample
from load.real_scheduler.histograms import Spent, of_extender, of_scheduler
from load.real_scheduler.scheduler_programs import Extender, scheduler_configuration, start_extender
from load.simulated.cluster_file import build, read
from load.simulated.on_control_plane import bring_up
from load.soak.soak_churn import Churn

# Until all pods of the cluster run at first, in seconds: against hangs only.
_SETTLE_SECONDS: Final = 600.0
_ATTEMPT: Final = "scheduler: attempt "


@dataclass(frozen=True, slots=True)
class Order:
    """``rate``: pods a second, for this many ``seconds``; our extender compares its book with the API each ``audit_seconds``."""

    cluster: Path
    rate: int
    seconds: int
    audit_seconds: int
    logs: Path
    """What the programs log is left in this folder."""
    seed: int = 1


async def measure(order: Order) -> dict[str, Any]:
    """All that the soak comes to, for the JSON file.

    Raises ApiError, ClusterError, ClusterFileError, NotReachedError.
    """
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        # When all have ended, and whatever ended them.
        stack.callback(_keep_logs, folder, order.logs)
        progress = stack.enter_context(Progress("load", f"{order.cluster.name}: laying it out", sys.stderr))
        world = build(read(order.cluster))
        plane, api = await bring_up(world, folder, stack, progress)
        audits = ("--audit-interval", f"{order.audit_seconds}s")
        extender = await start_extender(plane.kubeconfig, environment_of_programs(os.environ), folder, stack, audits)
        await plane.start_scheduler(scheduler_configuration(extender))
        churn = Churn(api, world, order.rate, order.seconds, order.seed)
        return await _soak(order, churn, extender, plane, progress)


def _keep_logs(folder: Path, kept: Path) -> None:
    kept.mkdir(parents=True, exist_ok=True)
    for log in folder.glob("*.log"):
        shutil.copy(log, kept)


async def _soak(
    order: Order, churn: Churn, extender: Extender, plane: RealControlPlane, progress: Progress
) -> dict[str, Any]:
    samples: list[dict[str, float]] = []
    try:
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(work) for work in (churn.follow(), *churn.endings())]
            progress.text = "waiting until all pods run"
            await eventually(churn.look, lambda seen: seen.is_up, "all pods run", seconds=_SETTLE_SECONDS)
            begun, progress.text = time.time(), f"load for {order.seconds} s"
            beside.append(group.create_task(_sample(order, extender, samples)))
            await churn.come(progress)
            spent = time.time() - begun
            samples[-1] |= await audited(extender.metrics_port)
            for task in beside:
                task.cancel()
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return {
        "setting": f"{order.rate} pods/s for {order.seconds} s, kube-scheduler on {churn.nodes} nodes of kwok",
        "order": {"rate": order.rate, "seconds": order.seconds, "seed": order.seed, "cluster": order.cluster.name},
        "outcome": {"begun": begun, "seconds": spent, "counts": churn.counted(), "samples": samples},
        "rows": rows(await extender.metrics(), await plane.scheduler_metrics()),
    }


async def _sample(order: Order, extender: Extender, samples: list[dict[str, float]]) -> None:
    """Raises CannotMeasureError when it has ended."""
    try:
        server = Server(OURS, extender.url, program=extender.program)
        await sample(server, samples, extender.metrics_port, order.audit_seconds)
    except (AssertionError, OSError) as error:
        raise CannotMeasureError(f"the extender has ended:\n{extender.program.tail()}") from error


def rows(of_ours: str, of_theirs: str) -> list[dict[str, Any]]:
    """The verbs of our extender and the attempts of kube-scheduler, from their pages: times in ms, and how many failed. Pure."""
    failed = Counter[str]()
    for one in metrics_page.samples(of_ours, ("gpushare_extender_requests_total",)):
        if one.labels["verdict"] == "failed":
            failed[one.labels["verb"]] += int(one.value)
    found = []
    for name, of in of_extender(of_ours).items():
        verb = name.removeprefix(f"{OURS} ")
        found.append(_row(OURS, verb, of, failed[verb]))
    for name, of in of_scheduler(of_theirs).items():
        if name.startswith(_ATTEMPT):
            result = name.removeprefix(_ATTEMPT)
            found.append(_row("kube-scheduler", f"attempt {result}", of, of.count if result == "error" else 0))
    return found


def _row(extender: str, verb: str, of: Spent, failures: int) -> dict[str, Any]:
    times = {"p50": 1000 * of.p50, "p99": 1000 * of.p99}
    return {"extender": extender, "verb": verb, "count": of.count, **times, "failures": failures}
