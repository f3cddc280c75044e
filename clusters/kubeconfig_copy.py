"""The copy of a kubeconfig that a user asks for."""

from __future__ import annotations

import contextlib
from pathlib import Path

from clusters.api import kubeconfig_file
from clusters.provider import ClusterError


class Copy:
    """The copy of a kubeconfig that a user asked for, while their cluster is up; a file of their own it never touches."""

    def __init__(self, path: Path) -> None:
        """Raises ClusterError if a copy is not possible, before a cluster is started for it."""
        self._path = path
        self._content = b""
        if not path.parent.is_dir():
            raise ClusterError(f"{path}: there is no folder {path.parent}")
        if path.exists() and not kubeconfig_file.is_ours(path):
            raise ClusterError(f"{path}: is there, and not the kubeconfig of a cluster of ours; name another file")

    def put(self, source: Path) -> None:
        """Write it: whole, and readable for its owner alone. Raises ClusterError."""
        self._content = source.read_bytes()
        try:
            kubeconfig_file.put(self._path, self._content)
        except OSError as error:
            raise ClusterError(f"{self._path}: cannot be written: {error.strerror}") from error

    def remove(self) -> None:
        """Remove it, if it was written and another cluster's has not taken its place."""
        with contextlib.suppress(OSError):
            if self._content and self._path.read_bytes() == self._content:
                self._path.unlink()
