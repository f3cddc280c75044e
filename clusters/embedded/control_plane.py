"""The embedded control plane: API server, controllers and scheduler in this process."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api_client import ApiClient
from clusters.embedded.apiserver.server import EmbeddedApi
from clusters.embedded.controllers.controllers import Controllers
from clusters.embedded.scheduler import Scheduler
from clusters.embedded.scheduling import configuration_file

_SEED: Final = 1


class EmbeddedControlPlane:
    """See ``clusters.control_plane.ControlPlane``; ``folder`` is there and stays."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = contextlib.AsyncExitStack()
        self._server = EmbeddedApi()
        self._scheduler: Scheduler | None = None
        self._api: ApiClient
        self.url = ""
        self.kubeconfig = folder / "kubeconfig"

    async def start(self, *, controllers: bool = True) -> None:
        """See the protocol."""
        self.url = await self._server.start()
        self._stack.push_async_callback(self._server.stop)
        partial = self._folder / "kubeconfig.part"
        partial.write_text(self._server.kubeconfig(self.url))
        partial.rename(self.kubeconfig)
        self._api = await self._stack.enter_async_context(ApiClient.from_kubeconfig(self.kubeconfig))
        if controllers:
            started = Controllers(self._api)
            await started.start()
            self._stack.push_async_callback(started.stop)

    async def stop(self) -> None:
        """See the protocol."""
        await self.stop_scheduler()
        await self._stack.aclose()

    async def start_scheduler(self, configuration: Mapping[str, Any]) -> None:
        """See the protocol."""
        path = self._folder / "scheduler.yaml"
        path.write_text(yaml.safe_dump(dict(configuration), sort_keys=False))
        self._scheduler = Scheduler(
            self._api,
            configuration_file.load(path),
            seed=_SEED,
            now=lambda: datetime.now(UTC),  # noqa: TID251  # the cluster's clock is the machine's
            clock=time.monotonic,
        )
        await self._scheduler.start()
        await self._scheduler.wait_synced()

    async def stop_scheduler(self) -> None:
        """See the protocol."""
        scheduler, self._scheduler = self._scheduler, None
        if scheduler is not None:
            await scheduler.stop()

    async def compact(self) -> None:
        """See the protocol."""
        self._server.expire_history()

    def kubelet_kubeconfig(self, node: str) -> Path:
        """See the protocol."""
        return self.kubeconfig

    def kubelet_certificate(self, node: str, address: str) -> tuple[Path, Path] | None:
        """See the protocol."""
        return None

    async def token_kubeconfig(self, path: Path, namespace: str, account: str) -> Path:
        """See the protocol."""
        return self.kubeconfig

    def log(self, program: str) -> str:
        """See the protocol: everything runs in this process."""
        return ""
