"""The embedded control plane: API server, controllers and scheduler in this process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api import exchanges, kubeconfig_file
from clusters.api.api_client import ApiClient
from clusters.api.certificates import Authority, KeyPair
from clusters.api.readiness import service_account_token
from clusters.api.resources import Resource
from clusters.clock import Clock
from clusters.embedded.apiserver.authorization import MASTERS, NODES_GROUP
from clusters.embedded.apiserver.server import EmbeddedApi
from clusters.embedded.controllers.controllers import Controllers
from clusters.embedded.scheduler import Scheduler
from clusters.embedded.scheduling.configuration import load as load_configuration
from clusters.file_names import file_name
from clusters.provider import ClusterError

_SEED: Final = 1
# The server is away for this long while etcd is restored: programs that watch find that out.
_RESTORING_SECONDS: Final = 0.4


class EmbeddedControlPlane:
    """See ``clusters.local_cluster.ControlPlane``; ``folder`` is there and stays."""

    def __init__(
        self,
        folder: Path,
        clock: Clock | None = None,
        *,
        watch_lag: float = 0.0,
        disturbance: float = 0.0,
    ) -> None:
        """``watch_lag``, ``disturbance``: as in Choices."""
        clock = clock or Clock()
        self._folder = folder
        self._stack = contextlib.AsyncExitStack()
        self._clock = clock
        self._authority = Authority(folder)
        self._server = EmbeddedApi(
            now=clock.now, authority=self._authority, watch_lag=watch_lag, disturbance=disturbance
        )
        self._scheduler: Scheduler | None = None
        self._controllers: Controllers | None = None
        self._has_lost_events = False
        self._api: ApiClient
        self.url = ""
        self.kubeconfig = folder / "kubeconfig"

    async def start(self, *, controllers: bool = True) -> None:
        """See the protocol."""
        try:
            self.url = await self._server.start()
        except OSError as error:
            raise ClusterError(str(error)) from error
        self._stack.push_async_callback(self._server.stop)
        self._write_kubeconfig(self.kubeconfig, self._authority.issue_client("admin", MASTERS))
        self._api = await self._stack.enter_async_context(ApiClient.from_kubeconfig(self.kubeconfig))
        if controllers:
            await self._start_controllers()
            self._stack.push_async_callback(self._stop_controllers)

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
            load_configuration(path),
            seed=_SEED,
            now=self._clock.now,
            clock=self._clock.monotonic,
            real=self._clock.real,
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

    async def restart_api_server(self) -> None:
        """See the protocol."""
        await self._server.stop()
        self._server.expire_history()
        await self._server.start(int(self.url.rpartition(":")[2]))
        if self._has_lost_events:
            self._has_lost_events = False
            self._note_old_states()

    def _note_old_states(self) -> None:
        exchanges.pass_on(exchanges.StoodStill(time.monotonic(), self._server.address))

    def saved(self, resource: Resource, namespace: str) -> Callable[[], Awaitable[None]]:
        """A function that restores etcd: the objects of this kind in a namespace, and the version, become what they are now.

        The server is away meanwhile, and the controllers start again after it, as Kubernetes advises.
        """
        restore = self._server.saved(resource, namespace)

        async def restored() -> None:
            await self._server.stop()
            await asyncio.sleep(_RESTORING_SECONDS)
            restore()
            await self._server.start(int(self.url.rpartition(":")[2]))
            self._note_old_states()
            if self._controllers is not None:
                await self._stop_controllers()
                await self._start_controllers()

        return restored

    async def _start_controllers(self) -> None:
        self._controllers = Controllers(self._api, now=self._clock.now, ca=self._authority.ca.read_text())
        await self._controllers.start()

    async def _stop_controllers(self) -> None:
        if self._controllers is not None:
            await self._controllers.stop()

    @contextlib.contextmanager
    def disturbed(self, chance: float) -> Iterator[None]:
        """The API server disturbs each request of a ServiceAccount by this chance while inside, and by its own again after that."""
        disturbances = self._server.disturbances
        before, disturbances.chance = disturbances.chance, chance
        try:
            yield
        finally:
            disturbances.chance = before

    @contextlib.contextmanager
    def holding_bindings(self) -> Iterator[None]:
        """Each Binding of a ServiceAccount loses its answer while inside, and takes effect in the end."""
        self._server.disturbances.bindings_land.clear()
        try:
            yield
        finally:
            self._server.disturbances.bindings_land.set()

    def refuse_next(self, ending: str) -> None:
        """Refuse the next POST of a ServiceAccount to a path with this ending."""
        self._server.disturbances.refused_next = ending

    @contextlib.contextmanager
    def losing_events(self) -> Iterator[None]:
        """No watch ever shows a change that is made inside; after the next restart of the API server all read everything again."""
        self._server.store.loses_events = self._has_lost_events = True
        try:
            yield
        finally:
            self._server.store.loses_events = False

    def overwrite(self, resource: Resource, item: Mapping[str, Any]) -> None:
        """Write an object past all checks, as a server of another release may have it."""
        self._server.overwrite(resource, dict(item))

    def kubelet_kubeconfig(self, node: str) -> Path:
        """See the protocol."""
        user = f"system:node:{node}"
        path = self._folder / f"{file_name(f'system-node-{node}')}.kubeconfig"
        return self._write_kubeconfig(path, self._authority.issue_client(user, NODES_GROUP))

    def kubelet_certificate(self, node: str, address: str) -> tuple[Path, Path] | None:
        """See the protocol."""
        return None

    async def token_kubeconfig(self, path: Path, namespace: str, account: str, pod: str = "") -> Path:
        """See the protocol."""
        token = await service_account_token(self._api, namespace, account, pod)
        return kubeconfig_file.write(path, self.url, ca=self._authority.ca, token=token)

    def client_certificate(self, user: str, group: str | None, expires: datetime | None = None) -> KeyPair:
        """A certificate that makes its holder that user of that group to the API server."""
        return self._authority.issue_client(user, group, expires=expires)

    def log(self, program: str) -> str:
        """See the protocol: everything runs in this process."""
        return ""

    def _write_kubeconfig(self, path: Path, client: KeyPair) -> Path:
        return kubeconfig_file.write(path, self.url, ca=self._authority.ca, client=client)
