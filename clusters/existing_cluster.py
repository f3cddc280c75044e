"""A cluster that was there before, behind the seam of the others. Nothing of it is started, stopped or replaced.

A case that needs more than the API server (a kubelet that is killed, simulated cards that become unhealthy) gets a ClusterError.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import Connection, TransportError
from clusters.provider import ClusterError

NAME: Final = "existing"
# An API server of others may restart, or be overloaded, for this long, in seconds.
_PATIENCE_SECONDS: Final = 60.0


class ExistingCluster:
    """The cluster of one context of a kubeconfig (the seam is ``clusters.provider.Cluster``)."""

    def __init__(self, kubeconfigs: Sequence[Path], context: str = "") -> None:
        """Several files are merged as kubectl merges them."""
        self.kubeconfig = kubeconfigs[0]
        try:
            self.api = ApiClient(Connection.from_kubeconfig(kubeconfigs, context), patience=_PATIENCE_SECONDS)
        except (OSError, ValueError) as error:
            raise ClusterError(f"provider {NAME}: {error}") from error

    async def start(self) -> None:
        """Ask it for its version. Raises ClusterError if it does not answer immediately."""
        try:
            await ApiClient(self.api.http).request("GET", "/version")
        except (ApiError, TransportError) as error:
            raise ClusterError(f"provider {NAME}: the API server at {self.api.http.url}: {error}") from error

    async def stop(self) -> None:
        """Close the connection."""
        await self.api.close()

    def extender_url(self) -> str:
        """Raises ClusterError: only its scheduler has a way to it."""
        _refuse("its extender is reached by its scheduler alone")

    async def kubeconfig_of(self, account: str, node: str = "") -> Path:
        """The one file that there is; see the seam."""
        if account:
            _refuse(f"no token of {account}{node and ' on ' + node} is made")
        return self.kubeconfig

    async def kill(self, program: str, node: str | None = None) -> None:
        """Raises ClusterError."""
        _refuse(f"{program}{node and ' of ' + node} is not killed")

    async def launch(self, program: str, node: str | None = None) -> None:
        """Raises ClusterError."""
        _refuse(f"{program}{node and ' of ' + node} is not started")

    async def restart_kubelet(self, node: str, *, reboot: bool = False, lose_checkpoint: bool = False) -> None:
        """Raises ClusterError."""
        _refuse(f"the kubelet of {node} is not restarted (reboot={reboot}, lose_checkpoint={lose_checkpoint})")

    def cards(self, node: str) -> list[dict[str, Any]]:
        """Raises ClusterError: only a program on the node can ask them."""
        _refuse(f"the cards of {node} are seen from pods alone")

    async def fake_nvml(self, node: str, *arguments: str) -> str:
        """Raises ClusterError."""
        _refuse(f"{node} has no simulated cards of ours for fake-nvml {' '.join(arguments)}")

    def kubelet_folder(self, node: str) -> Path:
        """Raises ClusterError."""
        _refuse(f"the folders of {node} are on another machine")

    def nvml_state(self, node: str) -> Path:
        """Raises ClusterError."""
        _refuse(f"{node} has no simulated cards of ours")

    def log(self, program: str, node: str | None = None) -> str:
        """Empty: its administrator keeps the logs of its programs."""
        return ""


def _refuse(why: str) -> NoReturn:
    raise ClusterError(f"provider {NAME}: the cluster belongs to others: {why}")
