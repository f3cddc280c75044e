"""Which cluster a command is about: ``--kubeconfig`` and ``--context``, with kubectl's defaults."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clusters.api.connection import Connection

OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "--kubeconfig": {"type": Path, "metavar": "FILE", "help": "(default: $KUBECONFIG, or ~/.kube/config)"},
    "--context": {"default": "", "metavar": "NAME", "help": "context of the kubeconfig (default: the current one)"},
}


def add_cluster(verb: argparse.ArgumentParser) -> None:
    """The two options."""
    for name, settings in OPTIONS.items():
        verb.add_argument(name, **settings)


def kubeconfigs(named: Path | None) -> Sequence[Path]:
    """The file that is named, else those of $KUBECONFIG, else that of this user."""
    if named is not None:
        return [named]
    paths = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    return paths or [Path.home() / ".kube" / "config"]


def connection(arguments: argparse.Namespace) -> Connection:
    """To the cluster of these arguments. Raises OSError and ValueError."""
    return Connection.from_kubeconfig(kubeconfigs(arguments.kubeconfig), arguments.context)
