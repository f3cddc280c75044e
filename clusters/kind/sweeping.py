"""Removes the clusters of runs that were killed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from clusters.kind.node_container import docker
from clusters.kind.run_records import abandoned
from clusters.provider import ClusterError

_LOG = logging.getLogger(__name__)

# By which kind knows the containers of a cluster.
LABEL = "io.x-k8s.kind.cluster"


async def sweep(folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Remove the containers of every recorded cluster whose run is gone; the names of these clusters.

    What cannot be removed now stays recorded for the next sweep. A live run's cluster is never touched, nor one that has no record.
    """
    swept = []
    with abandoned(folder) as runs:
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


async def remove_containers(cluster: str, environment: Mapping[str, str]) -> None:
    """The containers of a cluster, with their volumes, whatever state they are in. Raises ClusterError."""
    found = await docker(environment, "ps", "--all", "--quiet", "--filter", f"label={LABEL}={cluster}")
    if found.split():
        await docker(environment, "rm", "--force", "--volumes", *found.split())
