"""One run: the simulated cluster up, the extender up, Locust, and all down again; the extender's use during it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from clusters.processes.ports import free_port
from clusters.processes.progress import Progress
from load import metrics_page
from load.bench.bench_questions import PREFIX
from load.bench.bench_servers import (
    Bed,
    CannotMeasureError,
    Server,
    set_events,
    start_do_nothing,
    start_extender,
    start_simulated,
)
from load.play import load_plan as plans
from load.play.load_plan import Asked, Plan, TlsFiles
from load.play.others import Foreign, start_others

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


@dataclass(slots=True)
class Outcome:
    """The result of a run: files in its folder, and this."""

    begun: float
    seconds: float
    counts: dict[str, int]
    samples: list[dict[str, float]]
    events_per_second: float
    over_booked_cards: tuple[str, ...] = ()
    placed: dict[str, str] = field(default_factory=dict)
    """By pod, the node that each was bound to."""


async def run(order: Order, bed: Bed, folder: Path, progress: Progress) -> Outcome:
    """All of it. Raises CannotMeasureError, ClusterError."""
    async with AsyncExitStack() as stack:
        for wanted in filter(None, (order.api_port, order.web_port)):
            check_free(wanted)
        port = order.api_port or free_port()
        progress.line("simulated API server")
        api = await start_simulated(
            bed, port, ["--cluster", str(order.plan.cluster), "--steady", "--seed", str(order.plan.seed)]
        )
        stack.push_async_callback(api.stop)
        floor = await start_do_nothing(bed)
        if floor is not None and floor.program is not None:
            stack.push_async_callback(floor.program.stop)
        progress.line("extender: first sync")
        metrics_port = free_port() if order.audit_seconds else 0
        server, _ = await start_extender(bed, with_tls=order.tls, flags=_flags(order, metrics_port))
        assert server.program is not None
        stack.push_async_callback(server.program.stop)
        others = await start_others(stack, bed, order.foreign, order.baseline, Path(order.plan.cluster), progress)
        plan = _complete(order, server, floor, f"http://127.0.0.1:{port}", others)
        path = folder / "plan.json"
        plans.save(plan, path)
        await set_events(port, order.events)
        return await _load(order, plan, path, bed, server, folder, progress, port, metrics_port)


def _flags(order: Order, metrics_port: int) -> list[str]:
    """The flags of our extender, except its address."""
    if not order.audit_seconds:
        return []
    return ["--audit-interval", f"{order.audit_seconds}s", "--metrics-address", f"127.0.0.1:{metrics_port}"]


def _complete(order: Order, server: Server, floor: Server | None, api: str, others: Sequence[Asked]) -> Plan:
    tls = TlsFiles(server.tls.authority, server.tls.certificate, server.tls.key) if server.tls else None
    ours = Asked(OURS, server.url + PREFIX, tls)
    return msgspec.structs.replace(
        order.plan, api=api, extenders=(ours, *others), floor=floor.url if floor is not None else ""
    )


def check_free(port: int) -> None:
    """Raises CannotMeasureError if a port of 127.0.0.1 is in use already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise CannotMeasureError(f"port {port} of 127.0.0.1 is in use: {error.strerror}") from error


async def _load(
    order: Order,
    plan: Plan,
    path: Path,
    bed: Bed,
    server: Server,
    folder: Path,
    progress: Progress,
    port: int,
    metrics_port: int,
) -> Outcome:
    environment = {**bed.environment, plans.VARIABLE: str(path), "PYTHONPATH": str(_ROOT)}
    progress.text = f"load for {plan.seconds:.0f} s"
    progress.line(progress.text)
    before, begun, samples = await _ask_api(port), time.time(), list[dict[str, float]]()
    sampling = asyncio.create_task(sample(server, samples, metrics_port, order.audit_seconds))
    try:
        async with asyncio.timeout(plan.seconds + _SPARE_SECONDS), asyncio.TaskGroup() as group:
            for argv in _commands(order, folder):
                shows_table = order.shows_table and "--worker" not in argv
                group.create_task(_locust(argv, environment, folder, shows_table=shows_table))
        if metrics_port and samples:
            samples[-1] |= await audited(metrics_port)
    except TimeoutError as error:
        raise CannotMeasureError("Locust did not end") from error
    except ExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
    finally:
        sampling.cancel()
        (ended,) = await asyncio.gather(sampling, return_exceptions=True)
    if isinstance(ended, Exception):
        raise CannotMeasureError(f"the extender could not be looked at: {ended!r}")
    after = await _ask_api(port)
    counts = {name: after[name] - before[name] for name in _COUNTED} | {"running": after["running"]}
    spent = time.time() - begun
    cards = tuple(after["over_booked_cards"])
    placed = await _ask_api(port, "/placed")
    return Outcome(begun, spent, counts, samples, (after["events"] - before["events"]) / spent, cards, placed)


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
            *(sys.executable, "-m", "clusters.processes.tied", str(os.getpid())),
            *argv,
            env=environment,
            cwd=_ROOT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
    if code != 0:
        raise CannotMeasureError(f"Locust ended with {code}; it says why above, or in {folder / 'locust.log'}")


async def sample(server: Server, samples: list[dict[str, float]], metrics_port: int, audit_seconds: int) -> None:
    """Each second what the extender has: processor time in seconds so far, memory in MiB; now and then the drift, too."""
    while True:
        cpu = server.cpu_seconds()
        if cpu is None:
            return
        sample = {"at": time.time(), "cpu_seconds": cpu, "rss_mib": round(server.mib("VmRSS"), 1)}
        samples.append(sample)
        # An audit comes after 0.8 to 1.2 times that, and its page stands until the next: none is missed.
        if audit_seconds and len(samples) % (audit_seconds // 3) == 0:
            sample |= await audited(metrics_port)
        await asyncio.sleep(_SAMPLE_SECONDS)


async def audited(port: int) -> dict[str, float]:
    """The findings of the last audit of the book, and how many audits came to their end."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        page = await answer.text()
    found = {"drift_units": 0.0, "audits": 0.0, "failed_audits": 0.0}
    for one in metrics_page.samples(page, _AUDIT_SERIES):
        if one.name.startswith("gpushare_book_drift_units"):
            found["drift_units"] += one.value
        elif one.labels.get("outcome") == "done":
            found["audits"] += one.value
        else:
            found["failed_audits"] += one.value
    return found


async def _ask_api(port: int, path: str = "") -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}/simulated{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return dict[str, Any](await answer.json())
