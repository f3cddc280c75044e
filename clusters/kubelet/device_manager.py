"""The device manager: plugins on one side, the pods being admitted on the other, the book of devices between them.

Rules: Kubernetes pkg/kubelet/cm/devicemanager. One pod after the other, one container after the other, one Allocate
for each resource of a container.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection
from pathlib import Path

from clusters.amounts import amount_of
from clusters.api.api_client import uid_of
from clusters.kubelet import kubelet_devices
from clusters.kubelet.kubelet_devices import Allocation, AllocationError, AllocationKey, Choice, DeviceBook, complete
from clusters.kubelet.machine import Timings
from clusters.kubelet.plugin_client import PluginClient, PluginError
from clusters.kubelet.pods import Container, DeviceRequests, Kind, Object, containers_of, device_requests_of
from clusters.kubelet.proto import deviceplugin_pb2 as pb

_LOG = logging.getLogger(__name__)


class PreStartError(Exception):
    """A container may not start yet: its plugin does not agree, or its variables are not there. The kubelet tries again."""


class DeviceManager:
    """Everything between device plugins and containers; ``on_change`` is called when the node's resources changed."""

    def __init__(self, folder: Path, rng: random.Random, timings: Timings, on_change: Callable[[], None]) -> None:
        self.book = DeviceBook()
        self._folder = folder
        self._rng = rng
        self._timings = timings
        self._on_change = on_change
        # The plugin that is dropped when a stream ends: the one that called Register last, even before it is taken.
        self._registered: dict[str, PluginClient] = {}
        # The plugin of each resource; None if it belonged to a former life of this kubelet.
        self._endpoints: dict[str, PluginClient | None] = {}
        self._streams: set[asyncio.Task[None]] = set()
        # The resources of plugins that have been lost.
        self._graces: dict[str, asyncio.TimerHandle] = {}
        self._one_at_a_time = asyncio.Lock()
        self._admitted = ""
        # Its namespace and name.
        self._admitted_name = ""

    def start(self) -> None:
        """Read the checkpoint into a new book."""
        self.book = DeviceBook()
        try:
            kubelet_devices.restore(self._folder, self.book)
        except kubelet_devices.CheckpointError as error:
            _LOG.warning("starting without the checkpoint folder=%s error=%s", self._folder, error)
        for resource in self.book.resources():
            self._endpoints[resource] = None
            self._begin_grace(resource)

    async def stop(self) -> None:
        """Drop all plugins; allocations stay in the checkpoint."""
        for timer in self._graces.values():
            timer.cancel()
        self._graces.clear()
        streams = list(self._streams)
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
        for client in filter(None, self._endpoints.values()):
            await client.close()
        self._registered.clear()
        self._endpoints.clear()

    async def connect(self, resource: str, socket: Path) -> None:
        """Take a registration: dial, ask for options, follow its lists. Raises PluginError if it does not answer."""
        client = PluginClient(resource, socket)
        self._registered[resource] = client
        try:
            await client.connect(self._timings.dial)
        except BaseException:
            # Also if another plugin of the resource goes on: its end will not be noticed any more, as in a real kubelet.
            self._registered.pop(resource, None)
            await client.close()
            raise
        self._endpoints[resource] = client
        self._end_grace(resource)
        _LOG.info("plugin registered resource=%s socket=%s", resource, socket)
        stream = asyncio.create_task(self._follow(client), name=f"lists of {resource}")
        self._streams.add(stream)
        stream.add_done_callback(self._streams.discard)

    async def _follow(self, client: PluginClient) -> None:
        """Take each list until the stream ends; it is not asked for again, only a new registration helps."""
        try:
            async for devices in client.lists():
                self.book.replace_devices(client.resource, devices)
                self._changed()
            _LOG.warning("plugin ended its list resource=%s", client.resource)
        except PluginError as error:
            _LOG.warning("plugin lost resource=%s error=%s", client.resource, error)
        finally:
            if self._endpoints.get(client.resource) is not client:
                await client.close()
        await self._disconnected(client.resource)

    async def _disconnected(self, resource: str) -> None:
        """Part with the plugin that is registered for the resource *now*.

        As in a real kubelet the end of an old stream also drops a plugin that registered for the same resource
        in between: a plugin has to end its old streams before it registers again.
        """
        current = self._registered.pop(resource, None)
        if current is None:
            return
        await current.close()
        if resource not in self._endpoints:
            return
        self.book.mark_unhealthy(resource)
        self._changed()
        self._begin_grace(resource)

    def _begin_grace(self, resource: str) -> None:
        self._end_grace(resource)
        loop = asyncio.get_running_loop()
        self._graces[resource] = loop.call_later(self._timings.endpoint_grace, self._expire, resource)

    def _expire(self, resource: str) -> None:
        del self._graces[resource]
        self._endpoints.pop(resource, None)
        self.book.remove(resource)
        kubelet_devices.write(self._folder, self.book)
        self._changed()

    def _end_grace(self, resource: str) -> None:
        timer = self._graces.pop(resource, None)
        if timer is not None:
            timer.cancel()

    def _changed(self) -> None:
        kubelet_devices.write(self._folder, self.book)
        self._on_change()

    async def allocate(
        self, pod: Object, running: Collection[str], active: Callable[[], Collection[str] | None]
    ) -> None:
        """Give every container of the pod its devices. Raises AllocationError, which is final for the pod.

        ``running`` are its containers that run on from a former life of this kubelet: they keep what they have. ``active``
        are the pods (by uid) that still hold devices, None while that is not known; those of the others are taken back first.
        """
        reusable: dict[str, set[str]] = {}
        async with self._one_at_a_time:
            self._admitted = uid_of(pod)
            self._admitted_name = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
            try:
                for container in containers_of(pod):
                    await self._allocate_container(uid_of(pod), container, container.name in running, reusable, active)
                    self._pass_on(uid_of(pod), container, reusable)
            finally:
                self._admitted = ""

    def release_all_but(self, active: Collection[str]) -> None:
        """Take back the devices of pods that are not (by uid) active; the one that is being admitted keeps its own."""
        self.book.release_all_but({*active, self._admitted})

    async def _allocate_container(
        self,
        uid: str,
        container: Container,
        is_running: bool,
        reusable: dict[str, set[str]],
        active: Callable[[], Collection[str] | None],
    ) -> None:
        owned = [(resource, amount) for resource, amount in container.limits.items() if self.book.knows(resource)]
        alive = active() if owned else None
        if alive is not None:
            self.release_all_but(alive)
        for resource, amount in owned:
            key = (uid, container.name, resource)
            size = _whole(resource, amount)
            if is_running:
                self.book.check_size(key, size)
                continue
            choice = self.book.choose(key, size, reusable.get(resource, ()), self._rng)
            if choice is not None:
                await self._allocate_devices(key, size, choice)

    async def _allocate_devices(self, key: AllocationKey, size: int, choice: Choice) -> None:
        resource = key[2]
        client = self._endpoints.get(resource)
        if client is None:
            raise AllocationError(f"unknown Device Plugin {resource}")
        self.book.take(resource, choice.reused)
        preferred: list[str] = []
        if choice.missing:
            available = sorted(choice.available.union(choice.reused))
            try:
                preferred = await client.preferred(available, choice.reused, size, self._admitted_name)
            except PluginError as error:
                text = f"device plugin GetPreferredAllocation rpc failed with err: {error}"
                raise AllocationError(text) from error
        ids = complete(choice, preferred, self._rng)
        self.book.take(resource, ids)
        try:
            response = await client.allocate(ids, self._admitted_name)
        except PluginError as error:
            self.book.count_again()
            raise AllocationError(str(error)) from error
        self.book.keep(Allocation(*key, ids, response))
        kubelet_devices.write(self._folder, self.book)

    def _pass_on(self, uid: str, container: Container, reusable: dict[str, set[str]]) -> None:
        """An ordinary init container has ended when the next one starts, so its ids go round within the pod."""
        for allocation in self.book.allocations_of(uid, container.name):
            if container.kind is Kind.INIT:
                reusable.setdefault(allocation.resource, set()).update(allocation.ids)
            else:
                reusable.setdefault(allocation.resource, set()).difference_update(allocation.ids)

    async def pre_start(self, uid: str, container: str) -> None:
        """Ask the plugins of a container's devices before it starts, each time. Raises PreStartError."""
        for allocation in self.book.allocations_of(uid, container):
            if allocation.resource not in self._endpoints:
                raise PreStartError(f"endpoint not found in cache for a registered resource: {allocation.resource}")
            client = self._endpoints[allocation.resource]
            # Nothing is known of the options of a plugin of a former life: its containers start.
            if client is None or not client.options.pre_start_required:
                continue
            try:
                if allocation.resource in self._graces:
                    raise PluginError(f"endpoint of {allocation.resource} has been stopped")
                await client.pre_start(allocation.ids, self._timings.pre_start)
            except PluginError as error:
                text = f"device plugin PreStartContainer rpc failed with err: {error}"
                raise PreStartError(text) from error

    def given(self, uid: str, container: str) -> tuple[dict[str, str], DeviceRequests]:
        """The variables that the plugins' answers set, and their other requests to the runtime.

        Where two resources set one variable, the first wins.
        """
        held = self.book.allocations_of(uid, container)
        answers = [pb.ContainerAllocateResponse.FromString(one.response) for one in held]
        merged: dict[str, str] = {}
        for name, value in (pair for answer in answers for pair in answer.envs.items()):
            if merged.setdefault(name, value) != value:
                _LOG.error("two plugins set one variable pod=%s container=%s name=%s", uid, container, name)
        return merged, device_requests_of(answers, merged)


def _whole(resource: str, amount: str) -> int:
    """An extended resource is a whole number, possibly with a decimal suffix such as ``10k``."""
    try:
        count = amount_of(amount)
    except ValueError as error:
        raise AllocationError(f"{resource}: {error}") from error
    if count.denominator != 1 or count < 0:
        raise AllocationError(f"amount {amount!r} of {resource} is not a whole number")
    return int(count)
