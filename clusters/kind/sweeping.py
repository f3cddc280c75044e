"""Which runs have a kind cluster, and the removal of the clusters of runs that were killed.

The records lie in the user's cache and not in /tmp: a restart of the machine empties that, and the stopped containers would stay.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from clusters.api.waiting import eventually
from clusters.controlplane.binaries import cache_folder
from clusters.kind.engine.engine import engine_environment
from clusters.kind.workers import docker, thawing
from clusters.processes import running_clusters
from clusters.provider import ClusterError

_LOG = logging.getLogger(__name__)

# By which kind knows the containers of a cluster.
LABEL: Final = "io.x-k8s.kind.cluster"
_SUFFIX: Final = ".run"


class RunRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One cluster of one run: its name, the Docker that has it (``DOCKER_HOST``; "" for the usual one), and the run's process."""

    cluster: str
    docker_host: str = ""
    pid: int = 0
    """For people: the lock decides whether the run lives."""
    checkout: str = ""
    """The root of the checkout that made it; "" in records of versions that did not write it."""

    def is_swept_by(self, checkout: str) -> bool:
        """May this checkout remove what a killed run left? Its own, and what no checkout is left for."""
        return self.checkout in ("", checkout) or not Path(self.checkout).is_dir()


@contextlib.contextmanager
def record(folder: Path, run: RunRecord) -> Iterator[None]:
    """While inside, the cluster is known to be in use. Left with an error, the record stays for the next sweep."""
    folder.mkdir(parents=True, exist_ok=True)
    with running_clusters.locked_record(folder / f"{run.cluster}{_SUFFIX}", run):
        yield


@contextlib.contextmanager
def abandoned(folder: Path, wanted: Callable[[RunRecord], bool]) -> Iterator[list[tuple[Path, RunRecord]]]:
    """The wanted runs that are gone, with their files; no other process gets these while inside."""
    found = []
    with contextlib.ExitStack() as stack:
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            # Else no run of ours wrote it.
            with contextlib.suppress(msgspec.MsgspecError):
                if running_clusters.take_over(path, stack):
                    found.append((path, msgspec.json.decode(path.read_bytes(), type=RunRecord)))
        yield [(path, run) for path, run in found if wanted(run)]


async def sweep(folder: Path, environment: Mapping[str, str], *, everywhere: bool = False) -> list[str]:
    """Remove the containers of this checkout's recorded clusters if their run is gone; returns the names of these clusters.

    ``everywhere`` means those of all checkouts. A cluster that cannot be removed now stays recorded for the next sweep. The cluster
    of a live run is never touched, nor one that has no record.
    """
    swept = []
    with abandoned(folder, lambda run: everywhere or run.is_swept_by(running_clusters.CHECKOUT)) as runs:
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
    with abandoned(folder, lambda run: everywhere or run.is_swept_by(running_clusters.CHECKOUT)) as runs:
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
