"""The interface between a local cluster and its control plane, embedded or real."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from clusters.api.certificates import KeyPair


class ControlPlane(Protocol):
    """API server, controllers and scheduler on loopback."""

    url: str
    """Where the API server is, after ``start``."""
    kubeconfig: Path
    """An administrator's; the file is whole once it is there."""

    async def start(self, *, controllers: bool = True) -> None:
        """Start the API server, and the controllers unless they are turned off. Raises ClusterError."""

    async def stop(self) -> None:
        """End all of it."""

    async def start_scheduler(self, configuration: Mapping[str, Any]) -> None:
        """Start the scheduler with this KubeSchedulerConfiguration; its cache is filled. Raises ClusterError."""

    async def stop_scheduler(self) -> None:
        """End the scheduler."""

    async def compact(self) -> None:
        """Forget the history of all objects, as a real cluster does every five minutes."""

    async def restart_api_server(self) -> None:
        """End the API server and start it again at its address, over the same objects; its memory of changes is gone."""

    def kubelet_kubeconfig(self, node: str) -> Path:
        """A kubeconfig with which a kubelet is that node to the API server."""

    def kubelet_certificate(self, node: str, address: str) -> tuple[Path, Path] | None:
        """Certificate and key with which a kubelet serves logs to the API server; None if it is asked in plain HTTP."""

    def client_certificate(self, user: str, group: str | None, expires: datetime | None = None) -> KeyPair:
        """A certificate that makes its holder that user of that group to the API server."""

    async def token_kubeconfig(self, path: Path, namespace: str, account: str, pod: str = "") -> Path:
        """Write a kubeconfig with a token of that ServiceAccount, bound to ``pod`` if one is named, and nothing more."""

    def log(self, program: str) -> str:
        """The log of one of its programs; "" if it has none of that name."""
