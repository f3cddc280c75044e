"""``--keep-cluster``: the run stops at its first failure, and the cluster stays as the case left it until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable

import pytest

from clusters.provider import Cluster


def add_option(group: pytest.OptionGroup) -> None:
    """``--keep-cluster``."""
    group.addoption(
        "--keep-cluster",
        action="store_true",
        help="stop at the first failure, and keep the cluster with the case's pods until Ctrl-C (needs -n 0)",
    )


def check(config: pytest.Config) -> None:
    """Raises UsageError if workers run the cases."""
    if config.getoption("--keep-cluster") and config.getoption("numprocesses", default=None):
        raise pytest.UsageError(
            "--keep-cluster needs -n 0 (make: WORKERS=0): the cluster lives in the process of its case"
        )


def prepare(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Stop at the first failure, and lift time limits, which would end the wait."""
    if config.getoption("--keep-cluster", default=False):
        config.option.maxfail = 1
        for item in items:
            item.add_marker(pytest.mark.timeout(0))


async def keep(request: pytest.FixtureRequest, cluster: Cluster, namespace: str = "") -> None:
    """If a case has failed and ``--keep-cluster`` was given, print where the cluster is, and wait for Ctrl-C."""
    if not request.config.getoption("--keep-cluster") or not request.session.testsfailed:
        return
    where = f"; the case's pods are in {namespace}" if namespace else ""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, ended.set)
        try:
            print(f"\nthe cluster is kept until Ctrl-C{where}: export KUBECONFIG={cluster.kubeconfig}", flush=True)  # noqa: T201
            await ended.wait()
        finally:
            loop.remove_signal_handler(signal.SIGINT)
    # The fixtures that end after this one need not wait again.
    request.config.option.keep_cluster = False
