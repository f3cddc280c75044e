"""The extender's address on this machine: a loopback port that leads, through the API server, to the one that kube-scheduler calls.

The extender listens on the loopback of the control plane's node. All pods of that node's own network share it, so the way leads
through the pod of kube-scheduler, which stays while the extender comes and goes. ``kubectl port-forward`` ends at the first
connection that fails; then it is started again, on the same port.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from clusters.api.waiting import meanwhile
from clusters.processes.ports import free_port
from clusters.processes.program import Program
from clusters.provider import ClusterError

# As in the manifests.
_EXTENDER_PORT: Final = 12345
_SAYS_READY: Final = "Forwarding from"
_NAMESPACE: Final = "kube-system"
# Between two attempts while the API server is away, in seconds.
_RETRY_SECONDS: Final = 0.2


class ExtenderDoor:
    """``control_plane`` is the Node's name."""

    def __init__(
        self, kubectl: Path, kubeconfig: Path, control_plane: str, environment: Mapping[str, str], log: Path
    ) -> None:
        self.port = free_port()
        argv = [
            str(kubectl),
            f"--kubeconfig={kubeconfig}",
            "port-forward",
            "--address=127.0.0.1",
            f"--namespace={_NAMESPACE}",
            f"pod/kube-scheduler-{control_plane}",
            f"{self.port}:{_EXTENDER_PORT}",
        ]
        self._program = Program("kubectl port-forward", argv, environment, log)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """While inside it is open as soon as there is a way, and kept open."""
        try:
            async with meanwhile(self._keep_open()):
                yield
        finally:
            await self._program.stop()

    def log(self) -> str:
        """The last output of kubectl."""
        return self._program.tail(3)

    async def _keep_open(self) -> None:
        while True:
            before = self._program.log().count(_SAYS_READY)
            try:
                await self._program.launch(partial(self._has_said, before))
                await self._program.ended()
            except ClusterError:
                await asyncio.sleep(_RETRY_SECONDS)

    async def _has_said(self, before: int) -> bool:
        """Does this one forward, and not only the one before?"""
        return self._program.log().count(_SAYS_READY) > before
