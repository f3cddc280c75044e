"""Two extenders behind one address and a scheduler of their own, each on its own proxy to the API server, and what befalls them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import yaml

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.readiness import is_up
from clusters.deploy.render import FOLDER
from clusters.processes.program import Program
from clusters.processes.scratch import free_port
from clusters.provider import Cluster
from clusters.providers import Choices
from clusters.targets import Target
from e2e.extender import schedulers
from e2e.tcp_proxy import TcpProxy, proxy_to_api

_HOST: Final = "127.0.0.1"
_GUARDS: Final = FOLDER / "components" / "several-extenders" / "guards.yaml"
# The least that an extender takes, in seconds.
AUDIT_SECONDS: Final = 10
# A call that an extender does not answer is given up after this; the scheduler tries the pod again.
_CALL_TIMEOUT: Final = "5s"
# How long it is left alone between two blows, in seconds, and how long one lasts.
_RESTS: Final = (0.5, 5.0)
LAG_SECONDS: Final = 0.3
_LASTS: Final = (0.5, 2.0, 6.0, 20.0)


@dataclass(slots=True)
class Actor:
    """A program and its proxy to the API server."""

    name: str
    program: Program
    is_ready: Callable[[], Awaitable[bool]]
    proxy: TcpProxy
    url: str = ""
    """The URL of an extender's verbs."""
    metrics: str = ""
    """The URL of an extender's metrics."""

    async def kill(self, seconds: float) -> None:
        """SIGKILL; started again after this time."""
        await self.program.kill()
        await asyncio.sleep(seconds)
        await self.program.launch(self.is_ready)

    async def pause(self, seconds: float) -> None:
        """SIGSTOP for this time: then it goes on as if no time had passed."""
        pid = self.program.pid
        assert pid is not None, f"{self.name} has ended by itself:\n{self.program.tail()}"
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)

    async def cut(self, seconds: float, *, silent: bool) -> None:
        """No API server for this time."""
        self.proxy.cut(silent=silent)
        await self._restored_after(seconds)

    async def lag(self, seconds: float) -> None:
        """All traffic comes late for this time: the program knows a state of a moment ago."""
        self.proxy.slow_down(LAG_SECONDS)
        await self._restored_after(seconds)

    async def _restored_after(self, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
        finally:
            self.proxy.restore()


async def torment(actor: Actor, rng: random.Random, seconds: float, log: list[str]) -> None:
    """Blow after blow until this time is over; each is whole, and the actor is well when this returns."""
    blows: dict[str, Callable[[float], Awaitable[None]]] = {
        "killed": actor.kill,
        "paused": actor.pause,
        "cut off": partial(actor.cut, silent=False),
        "in silence": partial(actor.cut, silent=True),
        "lagging": actor.lag,
    }
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while (rest := rng.uniform(*_RESTS)) < end - loop.time():
        await asyncio.sleep(rest)
        blow, lasts = rng.choice(list(blows)), rng.choice(_LASTS)
        log.append(f"{seconds - end + loop.time():5.1f} s: {actor.name} {blow} for {lasts} s")
        await blows[blow](lasts)


class Troupe:
    """Starts the actors of one case in a folder of its own."""

    def __init__(
        self, cluster: Cluster, target: Target, choices: Choices, folder: Path, *, guarded: bool = True
    ) -> None:
        """``guarded``: the extenders know that there are others."""
        self._guards = {"guarded": ""} if guarded else {}
        self._cluster = cluster
        self._target = target
        self._choices = choices
        self._folder = folder
        self._stack = contextlib.AsyncExitStack()

    @contextlib.asynccontextmanager
    async def playing(self) -> AsyncIterator[tuple[list[Actor], Actor]]:
        """The extenders, and the scheduler (for pods of ``schedulers.NAME``) that reaches one or the other of them."""
        async with self._stack:
            if self._guards:
                await grant_guards(self._cluster.api)
            extenders = [await self._extender(name) for name in ("first", "second")]
            service = await self._stack.enter_async_context(TcpProxy(*(_port(actor.url) for actor in extenders)))
            yield extenders, await self._scheduler(f"http://{_HOST}:{service.port}{self._target.extender.path}")

    async def _extender(self, name: str) -> Actor:
        metrics = free_port()
        proxy, account = await self._account(name, self._target.extender.account)
        options = {"audit-interval": f"{AUDIT_SECONDS}s", "metrics-address": f"{_HOST}:{metrics}", **self._guards}
        log = self._folder / f"{name}.log"
        program, port = await schedulers.extender_beside(
            name, self._target, self._cluster, self._choices, log, options, account=account
        )
        origin = f"http://{_HOST}:{port}"
        return await self._launch(
            Actor(
                f"the {name} extender",
                program,
                lambda: is_up(origin, self._target.extender.ready),
                proxy,
                url=origin + self._target.extender.path,
                metrics=f"http://{_HOST}:{metrics}/metrics",
            )
        )

    async def _scheduler(self, extenders: str) -> Actor:
        proxy, account = await self._account("scheduler", "")
        configuration = schedulers.configuration(self._target, extenders, httpTimeout=_CALL_TIMEOUT)
        configuration["clientConnection"] = {"kubeconfig": str(account)}
        # A pod comes again soon after a failed attempt: an actor that is struck down must have work.
        configuration |= {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 2}
        path = self._folder / "scheduler.yaml"
        path.write_text(yaml.safe_dump(configuration))
        program, is_ready = schedulers.kube_scheduler(self._choices, path)
        return await self._launch(Actor("the scheduler", program, is_ready, proxy))

    async def _launch(self, actor: Actor) -> Actor:
        self._stack.push_async_callback(actor.program.stop)
        await actor.program.launch(actor.is_ready)
        return actor

    async def _account(self, name: str, account: str) -> tuple[TcpProxy, Path]:
        """A proxy to the API server, and a kubeconfig that goes by it."""
        path = self._folder / f"{name}.kubeconfig"
        kubeconfig = await self._cluster.kubeconfig_of(account)
        return await self._stack.enter_async_context(proxy_to_api(kubeconfig, path)), path


def _port(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


async def grant_guards(api: ApiClient) -> None:
    """Create the namespace of the guards, and the right to write them, unless they are there."""
    for manifest in yaml.safe_load_all(_GUARDS.read_text()):
        try:
            await api.create(manifest)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
