"""A second extender, and a second scheduler of the cluster's kind for pods that name it, beside the cluster's own."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api.readiness import says_ready
from clusters.controlplane import binaries
from clusters.embedded.scheduler import Scheduler
from clusters.embedded.scheduling.configuration import ConfigurationError, load
from clusters.processes.program import Program
from clusters.processes.scratch import free_port
from clusters.provider import Cluster, ClusterError
from clusters.providers import Choices
from clusters.simulated_node import environment_of_programs
from clusters.targets import Target
from e2e.target_capabilities import options_known

# The schedulerName of its pods.
NAME: Final = "beside"
_SEED: Final = 2
_HOST: Final = "127.0.0.1"


def configuration(target: Target, url: str, *, percentage: int | None = None, **extender: Any) -> dict[str, Any]:
    """The target's, with the extender at ``url``; fields of its entry are replaced, those of None left out."""
    shipped = target.scheduler_configuration(url)
    (entry,) = shipped["extenders"]
    changed = {**entry, **extender}
    profile = {"schedulerName": NAME} | ({} if percentage is None else {"percentageOfNodesToScore": percentage})
    return {
        **shipped,
        "leaderElection": {"leaderElect": False},
        "profiles": [profile],
        "extenders": [{name: value for name, value in changed.items() if value is not None}],
    }


async def extender_beside(
    name: str,
    target: Target,
    cluster: Cluster,
    choices: Choices,
    log: Path,
    options: Mapping[str, str],
    *,
    account: Path | None = None,
) -> tuple[Program, int]:
    """Another extender of the target with these options, not yet started, and its port; by default with its own account."""
    port = free_port()
    kubeconfig = account or await cluster.kubeconfig_of(target.extender.account)
    with options_known(target):
        asked = target.extender.with_options(options)
    argv, environment = asked.command(port=str(port), kubeconfig=str(kubeconfig))
    return Program(name, argv, {**environment_of_programs(choices.environment), **environment}, log), port


@contextlib.asynccontextmanager
async def scheduler(
    kind: str, cluster: Cluster, choices: Choices, folder: Path, asked: Mapping[str, Any], account: Path | None = None
) -> AsyncIterator[None]:
    """It is at work inside; ``kind`` is the cluster's. Raises ClusterError for a configuration that it refuses.

    ``account`` is the kubeconfig of a real one, by default an administrator's.
    """
    path = folder / "scheduler.yaml"
    path.write_text(yaml.safe_dump({**asked, "clientConnection": {"kubeconfig": str(account or cluster.kubeconfig)}}))
    async with _embedded(cluster, path) if kind == "embedded" else _real(choices, path):
        yield


@contextlib.asynccontextmanager
async def _embedded(cluster: Cluster, path: Path) -> AsyncIterator[None]:
    try:
        it = Scheduler(cluster.api, load(path), seed=_SEED, now=lambda: datetime.now(UTC))
    except ConfigurationError as error:
        raise ClusterError(str(error)) from error
    await it.start()
    try:
        await it.wait_synced()
        yield
    finally:
        await it.stop()


@contextlib.asynccontextmanager
async def _real(choices: Choices, path: Path) -> AsyncIterator[None]:
    program, is_ready = kube_scheduler(choices, path)
    try:
        await program.launch(is_ready)
        yield
    finally:
        await program.stop()


def kube_scheduler(choices: Choices, path: Path) -> tuple[Program, Callable[[], Awaitable[bool]]]:
    """The real one with the configuration at ``path``, not yet started, and whether it is ready."""
    found = binaries.locate(choices.kubernetes, choices.environment, choices.assets)
    port = free_port()
    # It makes a certificate of its own, and answers health to every client.
    flags = {"config": path, "bind-address": _HOST, "secure-port": port, "cert-dir": path.with_suffix(".certificates")}
    argv = [str(found["kube-scheduler"]), *(f"--{name}={value}" for name, value in flags.items())]
    environment = environment_of_programs(choices.environment)
    program = Program("the scheduler beside", argv, environment, path.with_suffix(".log"))
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    return program, lambda: says_ready(f"https://{_HOST}:{port}/healthz", anybody)
