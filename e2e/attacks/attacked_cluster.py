"""A cluster of one node, with an extender and a device plugin under observation: their API calls, memory and stderr."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from msgspec import structs

from clusters.api.connection import Connection, TransportError
from clusters.api.resources import PODS
from clusters.processes.scratch import free_port
from clusters.provider import Cluster, NodeSpec
from clusters.providers import Choices
from clusters.targets import Program, Target
from e2e.attacks.api_proxy import ApiProxy
from e2e.metrics import total_in
from e2e.observer import Observer, observing, own_cluster
from e2e.target_capabilities import options_known

NODE: Final = "shared"
# Against hangs only, in seconds.
GUARD_SECONDS: Final = 30.0
# Eight cards: a wish is compared with each of them.
_BOX: Final = "a100x8"
# The least that Linux takes, instead of 64 KiB: a few lines fill it.
_PIPE_BYTES: Final = 4096
_READ_BYTES: Final = 1 << 16
# The program as installed, except that it reaches the API server through its proxy, and that its pid and stderr are known.
_AS_OBSERVED: Final = """
sed "s|server: .*|server: $PROXY|" "$KUBECONFIG" >"$OBSERVED.kubeconfig"
echo $$ >"$OBSERVED.pid"
KUBECONFIG="$OBSERVED.kubeconfig" exec "$@" 2>"$OBSERVED.stderr"
"""
_NUMBERS = itertools.count(1)


class Observed:
    """One program; the names of its files begin with ``path``. ``limit_mib`` is the memory that its manifest in base gives it."""

    def __init__(self, path: Path, limit_mib: int) -> None:
        self.name = path.name
        self.limit_mib = limit_mib
        self.proxy = ApiProxy()
        self._path = path
        self._metrics = f"127.0.0.1:{free_port()}"
        self._log = path.with_suffix(".log").open("ab", buffering=0)
        os.mkfifo(path.with_suffix(".stderr"))
        # Open for reading and writing: so opening it waits for nothing, and the program never finds it closed.
        self._pipe = os.open(path.with_suffix(".stderr"), os.O_RDWR | os.O_NONBLOCK)
        fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def as_observed(self, program: Program) -> Program:
        """How it is started here."""
        options = {"metrics-address": self._metrics}
        if "audit-interval" in program.flags:
            # An audit reads all pods every few minutes, whatever tenants do: a slow machine would have one amid a start.
            options["audit-interval"] = "0"
        argv = ("sh", "-euc", _AS_OBSERVED, "sh", *program.with_options(options).argv)
        surroundings = {**program.environment, "PROXY": self.proxy.url, "OBSERVED": str(self._path)}
        return structs.replace(program, argv=argv, environment=surroundings)

    @contextlib.asynccontextmanager
    async def observing(self) -> AsyncIterator[None]:
        """Inside, its proxy is open and its stderr is read."""
        async with self.proxy:
            self.read_stderr()
            try:
                yield
            finally:
                self.leave_stderr()
                os.close(self._pipe)
                self._log.close()

    def read_stderr(self) -> None:
        """Read its stderr from now on."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._pipe, lambda: self._log.write(os.read(self._pipe, _READ_BYTES)))

    def leave_stderr(self) -> None:
        """Read its stderr no more."""
        asyncio.get_running_loop().remove_reader(self._pipe)

    def peak_mib(self) -> int:
        """The most memory that it has had."""
        status = Path("/proc", self._path.with_suffix(".pid").read_text().strip(), "status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name with these labels; -1 if the program does not answer."""
        try:
            async with Connection() as http:
                text = (await http.request("GET", f"http://{self._metrics}/metrics")).text
        except TransportError:
            return -1.0
        return total_in(text, name, **labels)


@dataclass(frozen=True, slots=True)
class AttackedCluster:
    """The cluster, and what is seen of its programs."""

    cluster: Cluster
    extender: Observed
    plugin: Observed

    @contextlib.asynccontextmanager
    async def namespace(self, name: str) -> AsyncIterator[Observer]:
        """A namespace for a case."""
        async with observing(self.cluster, f"{name}-{next(_NUMBERS)}") as observer:
            try:
                yield observer
            finally:
                # In one request: the pods of an attack may be too large to list.
                everything = PODS.path(observer.namespace)
                await self.cluster.api.request("DELETE", everything, body={"gracePeriodSeconds": 0})


@contextlib.asynccontextmanager
async def open_stage(provider: str, target: Target, choices: Choices, folder: Path) -> AsyncIterator[AttackedCluster]:
    """The cluster is up inside."""
    extender, plugin = Observed(folder / "extender", 1024), Observed(folder / "plugin", 300)
    with options_known(target):
        programs = extender.as_observed(target.extender), plugin.as_observed(target.device_plugin)
    observed = structs.replace(target, extender_or_none=programs[0], device_plugin_or_none=programs[1])

    def lead(kubeconfig: Path) -> None:
        for one in (extender, plugin):
            one.proxy.lead_to(kubeconfig)

    async with (
        extender.observing(),
        plugin.observing(),
        own_cluster(provider, [NodeSpec(NODE, box=_BOX)], observed, replace(choices, announce=lead)) as cluster,
    ):
        yield AttackedCluster(cluster, extender, plugin)
