"""One run: the simulated cluster up, the extender up, Locust, and all down again; the extender's use during it, and all figures."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.processes.commands import Progress
from clusters.processes.scratch import free_port, scratch_folder
from clusters.processes.tied import tied
from load.bench.bench_servers import (
    Bed,
    Server,
    ask_simulated,
    set_events,
    start_extender,
    start_in_c,
    start_simulated,
)
from load.load_commands import CannotMeasureError
from load.load_reports import machine
from load.play import load_plan as plans
from load.play import results
from load.play.load_plan import Asked, Plan
from load.play.others import Foreign, start_others
from load.questions import PREFIX
from load.readings import samples as samples_of
from load.simulated.cluster_file import read

_ROOT: Final = Path(__file__).parents[2]
_LOCUSTFILE: Final = Path(__file__).with_name("locustfile.py")
_SAMPLE_SECONDS: Final = 1.0
_AUDIT_SERIES: Final = ("gpushare_book_drift_units", "gpushare_book_audits_total")
# How long Locust's users may take to end their last requests, in seconds.
_STOP_SECONDS: Final = 10
# How long Locust may take beyond the run itself, in seconds: against hangs only.
_SPARE_SECONDS: Final = 120.0
# How our extender is named in records.
OURS: Final = "gpushare"
# Flags that go as they are into the plan, the order and the file of results.
OF_PLAN: Final = ("shape", "rate", "seconds", "schedulers", "inspectors", "what_if", "viewers")
OF_ORDER: Final = ("events", "tls", "baseline", "workers")
_COUNTED: Final = ("created", "binds", "ended", "over_booked", "over_booked_knowingly", "binds_without_card")


@dataclass(frozen=True, slots=True)
class Order:
    """The user's order: ``plan`` without the parts that only a run knows."""

    plan: Plan
    events: float
    tls: bool = False
    foreign: Foreign = field(default_factory=Foreign)
    baseline: str = ""
    api_port: int = 0
    workers: int = 0
    web_port: int = 0
    shows_table: bool = True
    audit_seconds: int = 0
    """How often our extender compares its book with the API, which is sampled then; 0: as it does by itself."""


async def measure(order: Order, folder: Path) -> dict[str, Any]:
    """All that a run comes to, as it goes into the JSON file; other files are in the folder by then.

    Raises LoadError, ClusterError, OSError.
    """
    if importlib.util.find_spec("locust") is None:
        raise CannotMeasureError("Locust is missing: make load installs it, or pip install '.[load]' in a checkout")
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    for pattern in ("requests-*.tsv", "locust.log", "load.json"):
        for path in folder.glob(pattern):
            # Left by a run before this one.
            path.unlink()
    before, plan = os.getloadavg()[0], order.plan
    with scratch_folder() as scratch, Progress("load", "starting", sys.stderr) as progress:
        outcome, placed = await _run(order, scratch, folder, progress)
    records: list[results.Record] = []
    for path in sorted(folder.glob("requests-*.tsv")):
        with path.open(encoding="utf-8") as lines:
            records += results.parse(lines)
    if not any(record.extender == OURS for record in records):
        raise CannotMeasureError("Locust asked nothing: no pod came in time")
    return {
        "machine": machine(before),
        "cluster": {"file": Path(plan.cluster).name, "nodes": read(Path(plan.cluster)).nodes},
        "order": {
            "names": plan.window,
            **{name: getattr(plan, name) for name in OF_PLAN},
            **{name: getattr(order, name) for name in OF_ORDER},
            "against": order.foreign.against,
            "has_floor": any(record.verb == results.FLOOR for record in records),
        },
        "outcome": outcome,
        "broken_promises": results.broken_promises(records, placed),
        "rows": results.rows(records, plan.seconds),
        "failures": results.failures(records),
    }


async def _run(order: Order, scratch: Path, folder: Path, progress: Progress) -> tuple[dict[str, Any], dict[str, str]]:
    """All of it: the result, beside the files in the folder, and the node that each pod was bound to.

    Raises CannotMeasureError, ClusterError.
    """
    async with AsyncExitStack() as stack:
        bed = Bed.of(scratch, stack)
        for wanted in filter(None, (order.api_port, order.web_port)):
            _check_free(wanted)
        port, cluster = order.api_port or free_port(), order.plan.cluster
        progress.line("simulated API server")
        await start_simulated(bed, port, Path(cluster))
        floor = await start_in_c(bed)
        progress.line("extender: first sync")
        audits = ["--audit-interval", f"{order.audit_seconds}s"] if order.audit_seconds else []
        server, _ = await start_extender(bed, with_tls=order.tls, with_metrics=order.audit_seconds > 0, flags=audits)
        others = await start_others(bed, order.foreign, order.baseline, Path(cluster), progress)
        plan = msgspec.structs.replace(
            order.plan,
            records=str(folder),
            api=f"http://127.0.0.1:{port}",
            extenders=(Asked(OURS, server.url + PREFIX, server.tls), *others),
            floor=floor.url if floor is not None else "",
        )
        (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
        await set_events(port, order.events)
        progress.text = f"load for {plan.seconds:.0f} s"
        progress.line(progress.text)
        before, begun = await ask_simulated(port), time.time()
        samples = await _load(order, bed, server, folder)
        after, spent = await ask_simulated(port), time.time() - begun
        return {
            "begun": begun,
            "seconds": spent,
            "counts": {name: after[name] - before[name] for name in _COUNTED} | {"running": after["running"]},
            "samples": samples,
            "events_per_second": (after["events"] - before["events"]) / spent,
            "over_booked_cards": after["over_booked_cards"],
        }, await ask_simulated(port, "/placed")


def _check_free(port: int) -> None:
    """Raises CannotMeasureError if a port of 127.0.0.1 is in use already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise CannotMeasureError(f"port {port} of 127.0.0.1 is in use: {error.strerror}") from error


async def _load(order: Order, bed: Bed, server: Server, folder: Path) -> list[dict[str, float]]:
    """Locust from its start to its end; what the extender had meanwhile."""
    environment = {**bed.environment, plans.VARIABLE: str(folder / "plan.json"), "PYTHONPATH": str(_ROOT)}
    samples: list[dict[str, float]] = []
    sampling = asyncio.create_task(sample(server, samples, order.audit_seconds))
    try:
        async with asyncio.timeout(order.plan.seconds + _SPARE_SECONDS), asyncio.TaskGroup() as group:
            for argv in _commands(order, folder):
                shows_table = order.shows_table and "--worker" not in argv
                group.create_task(_locust(argv, environment, folder, shows_table=shows_table))
        if order.audit_seconds and samples:
            samples[-1] |= await audited(server)
    except TimeoutError as error:
        raise CannotMeasureError("Locust did not end") from error
    except ExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
    finally:
        sampling.cancel()
        (ended,) = await asyncio.gather(sampling, return_exceptions=True)
    if isinstance(ended, Exception):
        raise CannotMeasureError(f"the extender could not be looked at: {ended}") from ended
    return samples


def _commands(order: Order, folder: Path) -> list[list[str]]:
    """Locust alone, or a master and its workers."""
    base = [sys.executable, "-m", "locust", "-f", str(_LOCUSTFILE), "--stop-timeout", str(_STOP_SECONDS)]
    base += ["--exit-code-on-error", "0", "--loglevel", "WARNING"]
    shown = ["--headless"]
    if order.web_port:
        shown = ["--autostart", "--autoquit", "1", "--web-host", "127.0.0.1", "--web-port", str(order.web_port)]
    reports = ["--csv", str(folder / "locust"), "--csv-full-history", "--html", str(folder / "locust.html")]
    first = [*base, *shown, *reports]
    if not order.workers:
        return [first]
    port = str(free_port())
    master = [*first, "--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", port]
    master += ["--expect-workers", str(order.workers)]
    worker = [*base, "--worker", "--master-host", "127.0.0.1", "--master-port", port]
    return [master, *([worker] * order.workers)]


async def _locust(argv: Sequence[str], environment: dict[str, str], folder: Path, *, shows_table: bool) -> None:
    """Until it ends; its table goes to stderr, or to ``locust.log``, as a worker's words do. Raises CannotMeasureError."""
    with (folder / "locust.log").open("ab") as log:
        out = sys.stderr if shows_table else log
        process = await asyncio.create_subprocess_exec(
            *tied(argv), env=environment, cwd=_ROOT, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=out
        )
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
    if code != 0:
        raise CannotMeasureError(f"Locust ended with {code}; it says why above, or in {folder / 'locust.log'}")


async def sample(server: Server, samples: list[dict[str, float]], audit_seconds: int) -> None:
    """Each second what the extender has: processor time in seconds so far, memory in MiB; now and then the drift, too.

    Raises CannotMeasureError when it has ended.
    """
    while True:
        sample = {"at": time.time(), "cpu_seconds": server.cpu_seconds(), "rss_mib": round(server.mib("VmRSS"), 1)}
        samples.append(sample)
        # An audit comes after 0.8 to 1.2 times that, and its page stands until the next: none is missed.
        if audit_seconds and len(samples) % (audit_seconds // 3) == 0:
            sample |= await audited(server)
        await asyncio.sleep(_SAMPLE_SECONDS)


async def audited(server: Server) -> dict[str, float]:
    """The findings of the last audit of the book, and how many audits came to their end."""
    found = {"drift_units": 0.0, "audits": 0.0, "failed_audits": 0.0}
    for one in samples_of(await server.metrics(), _AUDIT_SERIES):
        if one.name.startswith("gpushare_book_drift_units"):
            found["drift_units"] += one.value
        elif one.labels.get("outcome") == "done":
            found["audits"] += one.value
        else:
            found["failed_audits"] += one.value
    return found
