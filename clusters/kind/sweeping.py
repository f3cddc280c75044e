"""Removes the clusters of runs that were killed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from clusters.api.waiting import eventually
from clusters.controlplane.binaries import cache_folder
from clusters.kind.engine.engine import engine_environment
from clusters.kind.node_container import docker
from clusters.kind.run_records import abandoned
from clusters.kind.thawing import thawing
from clusters.processes.running_clusters import CHECKOUT
from clusters.provider import ClusterError

_LOG = logging.getLogger(__name__)

# By which kind knows the containers of a cluster.
LABEL = "io.x-k8s.kind.cluster"


async def sweep(folder: Path, environment: Mapping[str, str], *, everywhere: bool = False) -> list[str]:
    """Remove the containers of this checkout's recorded clusters if their run is gone; returns the names of these clusters.

    ``everywhere`` means those of all checkouts. A cluster that cannot be removed now stays recorded for the next sweep. The cluster
    of a live run is never touched, nor one that has no record.
    """
    swept = []
    with abandoned(folder, lambda run: everywhere or run.is_swept_by(CHECKOUT)) as runs:
        for path, run in runs:
            where = {**environment, "DOCKER_HOST": run.docker_host} if run.docker_host else environment
            try:
                await remove_containers(run.cluster, where)
            except ClusterError as error:
                _LOG.warning("the cluster of a killed run stays cluster=%s error=%s", run.cluster, error)
                continue
            path.unlink(missing_ok=True)
            swept.append(run.cluster)
    return swept


def folder_of_runs(environment: Mapping[str, str]) -> Path:
    """Where this user's runs are recorded."""
    return cache_folder(environment).parent / "kind" / "runs"


async def sweep_all(environment: Mapping[str, str], *, everywhere: bool = False) -> list[str]:
    """As ``sweep``, if Docker may not be up: then nothing can be removed. Raises ClusterError if something should be."""
    folder = folder_of_runs(environment)
    with abandoned(folder, lambda run: everywhere or run.is_swept_by(CHECKOUT)) as runs:
        if not runs:
            return []
    try:
        return await sweep(folder, engine_environment(environment), everywhere=everywhere)
    except ClusterError as error:
        raise ClusterError(f"clusters of runs that were killed may be left, and {error}") from error


async def remove_containers(cluster: str, environment: Mapping[str, str]) -> None:
    """The containers of a cluster, with their volumes, whatever state they are in. Raises ClusterError.

    kind may have ended before the docker commands that it started: what these still make is waited for.
    """

    async def commands() -> list[int]:
        return docker_commands(cluster)

    await eventually(commands, lambda pids: not pids, f"no docker command works on {cluster} any more")
    if found := await containers_of(cluster, environment):
        async with thawing(found):
            await docker(environment, "rm", "--force", "--volumes", *found)


async def containers_of(cluster: str, environment: Mapping[str, str]) -> list[str]:
    """The whole ids of a cluster's containers, whatever state they are in. Raises ClusterError."""
    which = ("--all", "--quiet", "--no-trunc", "--filter", f"label={LABEL}={cluster}")
    return (await docker(environment, "ps", *which)).split()


def docker_commands(cluster: str) -> list[int]:
    """The docker commands on this machine that name something of the cluster."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text(errors="replace").split("\0")
        except OSError:
            continue
        if Path(words[0]).name == "docker" and any(cluster in word for word in words):
            found.append(int(path.parent.name))
    return found
