"""Wiring of the extender: settings → client, book, controller, binder, HTTP edge; and its end."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import signal
import socket
import sys
import time
import uuid
from collections.abc import Coroutine, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Any

from gpushare import __version__, logs, wire
from gpushare.cli.settings import ExtenderSettings, extender_settings
from gpushare.errors import UsageError
from gpushare.extender.bind import Binder
from gpushare.extender.core.book import Book
from gpushare.extender.core.filter_cache import FilterCache
from gpushare.extender.core.workload import Workload
from gpushare.extender.extender_metrics import ExtenderMetrics
from gpushare.extender.follow.audit import Audit
from gpushare.extender.follow.controller import Controller
from gpushare.extender.follow.expected_pods import read_expected
from gpushare.extender.follow.wake import Waker
from gpushare.extender.live_page import LivePage
from gpushare.extender.node_guard import NodeGuards
from gpushare.extender.routes import Routes
from gpushare.extender.verbs import Verbs
from gpushare.kube import config
from gpushare.kube.event_recorder import EventRecorder
from gpushare.serving.http_edge import OF_METRICS, HttpEdge, give_back_memory, listen, load_tls

_LOG = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """The console script; exit code 0 after a signal, 1 after a failure, 2 for flags that make no sense."""
    try:
        settings = extender_settings(sys.argv[1:] if argv is None else argv)
        logs.configure(settings.log_level)
        asyncio.run(_run(settings))
    except UsageError as error:
        print(f"gpushare-extender: {error}", file=sys.stderr)  # noqa: T201  # a usage error is for the person who typed it
        return 2
    except Exception:
        _LOG.exception("ended")
        return 1
    return 0


async def _run(settings: ExtenderSettings) -> None:
    expected = None if settings.expected_pods is None else read_expected(settings.expected_pods)
    client = config.connect(settings.kubeconfig, settings.context)
    book = Book(Workload(counts_cpu=settings.policy == wire.POLICY_FRAGMENTATION, expected=expected))
    events = EventRecorder(client, "gpushare-extender", time.time, random.Random())  # noqa: S311, TID251  # names of events, no secrets
    controller = Controller(client, book, events, on_ready=_settle)
    guards = None
    if settings.guarded:
        # Another one with each start: what a former process sent may still be on its way.
        identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        guards = NodeGuards(client, identity, book.fate_of, partial(controller.come_to, 0))
    binder = Binder(
        client, book, clock_ns=time.time_ns, monotonic=time.monotonic, policy=settings.policy, guards=guards
    )
    filter_cache = FilterCache()
    metrics = ExtenderMetrics(time.perf_counter_ns)
    waker = Waker(
        client, book, filter_cache, policy=settings.policy, clock_ns=time.time_ns, monotonic=time.monotonic,
        on_call=metrics.count_call,
    )  # fmt: skip
    verbs = Verbs(
        book, binder, filter_cache, is_ready=controller.is_ready, policy=settings.policy, monotonic=time.monotonic,
        metrics=metrics, afterwards=asyncio.get_running_loop().call_soon, is_alone=not settings.guarded,
    )  # fmt: skip
    audit = Audit(
        client,
        book,
        metrics,
        is_ready=controller.is_ready,
        come_to=controller.come_to,
        is_under_way=binder.is_under_way,
        monotonic=time.monotonic,
        interval=settings.audit_interval,
    )
    tls = load_tls(settings.tls) if settings.tls.certificate else None
    address = settings.address or "0.0.0.0"  # noqa: S104  # what the original's manifests need; the warning says so
    if not settings.address and tls is None:
        _LOG.warning("listening on all addresses, without TLS or authentication; --address 127.0.0.1 closes that")
    listener = listen(address, settings.port)
    metrics.is_open = tls is None and ip_address(listener.getsockname()[0]).is_unspecified
    _LOG.info("starting version=%s address=%s port=%d", __version__, address, listener.getsockname()[1])
    page = None
    if settings.page:
        page = LivePage(
            book, filter_cache, verbs.decisions, policy=settings.policy, is_ready=controller.is_ready,
            contacts=lambda: controller.contacts, monotonic=time.monotonic,
            ahead=time.time() - time.monotonic(),  # noqa: TID251  # of the API's times alone
        )  # fmt: skip
    routes = Routes(book, verbs, controller.is_ready, page, settings.allowed_hosts, is_tls=tls is not None)
    edges = [(HttpEdge(routes, listener), tls)]
    if settings.metrics_address is not None:
        # Here, as what shows metrics to Prometheus is some MiB that an extender without them need not hold.
        from gpushare.extender.exposition import ExtenderExposition, MetricsRoutes

        exposition = ExtenderExposition(metrics, book, filter_cache, lambda: controller.contacts, time.monotonic)
        observed = listen(*settings.metrics_address, flags="--metrics-address")
        _LOG.info("metrics at address=%s port=%d path=/metrics", settings.metrics_address[0], observed.getsockname()[1])
        edges.append((HttpEdge(MetricsRoutes(exposition, controller.is_ready), observed, OF_METRICS), None))
    try:
        for edge, certificates in edges:
            await edge.start(certificates)
        audits = [audit.run()] if settings.audit_interval else []
        pages = [] if page is None else [page.run()]
        await _until_signal(controller.run(), waker.run(), *audits, *pages)
    finally:
        for edge, _ in edges:
            await edge.stop()
        await binder.close()
        await client.close()


def _settle() -> None:
    """The first full read makes most of the objects that ever live: the collector need not walk them again."""
    gc.freeze()
    # Pages of lists took it.
    give_back_memory(0)


async def _until_signal(*endless: Coroutine[Any, Any, None]) -> None:
    """Run all of it until a signal. A failure ends the program, so that no scheduler uses a dead book."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(one) for one in (*endless, stop.wait())]
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in done:
        task.result()


if __name__ == "__main__":
    sys.exit(main())
