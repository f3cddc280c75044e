"""Which cluster a command is about: ``--kubeconfig`` and ``--context``, with kubectl's defaults; and whether it answers."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import Connection, TransportError
from e2e.site import SiteError

# Against an API server that does not answer, in seconds.
PATIENCE: Final = 30.0
OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "--kubeconfig": {"type": Path, "metavar": "FILE", "help": "(default: $KUBECONFIG, or ~/.kube/config)"},
    "--context": {"default": "", "metavar": "NAME", "help": "context of the kubeconfig (default: the current one)"},
}


def kubeconfigs(named: Path | None) -> Sequence[Path]:
    """The file that is named, else those of $KUBECONFIG, else that of this user."""
    if named is not None:
        return [named]
    paths = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    return paths or [Path.home() / ".kube" / "config"]


def connection(arguments: argparse.Namespace) -> Connection:
    """To the cluster of these arguments. Raises OSError and ValueError."""
    return Connection.from_kubeconfig(kubeconfigs(arguments.kubeconfig), arguments.context)


async def version_of(api: ApiClient) -> str:
    """Its version, as ``v1.36.3``. Raises SiteError if it does not answer."""
    try:
        async with asyncio.timeout(PATIENCE):
            return str((await api.request("GET", "/version"))["gitVersion"])
    except (ApiError, TransportError, TimeoutError) as error:
        raise SiteError(f"the API server at {api.http.url} does not answer: {str(error) or 'timeout'}") from error
