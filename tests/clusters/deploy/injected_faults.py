"""A fault for each alert: what goes wrong on a cluster that Prometheus scrapes, in the order in which they are injected."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self

from clusters.api import kubeconfig_file
from clusters.api.connection import Connection
from clusters.api.readiness import is_up
from clusters.api.resources import EVENTS, PODS
from clusters.api.waiting import eventually, until
from clusters.processes.ports import free_port
from clusters.processes.program import Program
from clusters.provider import Cluster, NodeSpec
from clusters.simulated_node import environment_of_programs
from clusters.targets import Target
from e2e.attacks.api_proxy import ApiProxy, Call
from e2e.builders import DEMO, gpu_pod

HOST = "127.0.0.1"
HELD = "GPUShareHeld"
_USAGE = {
    "metrics-address": f"{HOST}:0",
    "usage": "",
    "proc-root": "{proc_root}",
    "usage-interval": "1s",
    "overuse-tolerance": "0",
    "overuse-after": "0",
}
# The cards of u2 and u3 have 14 units each. Equal pods of u3 are admitted in any order, and its plugin mends no annotation.
NODES = (
    NodeSpec("u1", "t4x1", plugin_options=_USAGE),
    NodeSpec("u2", "t4x2", plugin_options=_USAGE),
    NodeSpec("u3", "t4x2", plugin_options={**_USAGE, "repair": "hold"}, admission_shuffle=0.5),
)
# A wrong order is as likely as the right one.
_MOST_ROUNDS = 30
# Each is a line of more than half a KiB; an extender holds a MiB, and a pipe a sixteenth of that.
_QUESTIONS = 2500


class FaultyCluster:
    """A cluster with two extenders beside its own: one behind a proxy to the API server, one that nothing shields.

    ``addresses`` are those of the metrics of all three, of which the last is not up until its fault.
    """

    def __init__(self, cluster: Cluster, target: Target, folder: Path, metrics: str) -> None:
        self.cluster = cluster
        self._target = target
        self._folder = folder
        self.addresses = [metrics, f"{HOST}:{free_port()}", f"{HOST}:{free_port()}"]
        self._door: ApiProxy
        self._behind: tuple[Program, str]
        self._bare: tuple[Program, str]

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[Self]:
        """Inside, the extender behind the proxy is up; the one without a shield comes with its fault."""
        account = await self.cluster.kubeconfig_of(self._target.extender.account)
        self._door = ApiProxy(Connection.from_kubeconfig(account))
        through = kubeconfig_file.write(self._folder / "proxy.kubeconfig", self._door.url, ca=None)
        pipe = self._folder / "pipe"
        os.mkfifo(pipe)
        unread = ("sh", "-c", 'exec "$@" 2> "$0"', str(pipe))
        self._behind = self._extender("behind", through, self.addresses[1], "--audit-interval=10")
        self._bare = self._extender("bare", account, self.addresses[2], "--address=0.0.0.0", starter=unread)
        async with contextlib.AsyncExitStack() as stack:
            # Nothing reads it.
            stack.callback(os.close, os.open(pipe, os.O_RDWR))
            await self._door.open()
            stack.push_async_callback(self._door.close)
            await self._launch(self._behind)
            for program, _ in (self._behind, self._bare):
                stack.push_async_callback(program.stop)
            yield self

    def plugin_addresses(self) -> dict[str, str]:
        """The address of the metrics of each node's plugin, by its log."""
        found = {}
        for node in (one.name for one in NODES):
            log = self.cluster.log("device_plugin", node)
            *_, line = [line for line in log.splitlines() if "metrics at address=" in line]
            words = dict(word.split("=", 1) for word in line.split() if "=" in word)
            found[node] = f"{words['address']}:{words['port']}"
        return found

    async def use_too_much(self) -> None:
        """The demo's player holds 1253 MiB on a booking of 1024."""
        await self._create(gpu_pod("greedy", 1, node="u1", plays=DEMO))

    async def ask_too_much(self) -> None:
        """The node has room for the pod, and no card of it has."""
        await self._create(gpu_pod("too-large", 20, node="u2"))

    async def run_on_another_card(self) -> None:
        """A process of a pod opens the card that its pod did not book."""
        await self._create(gpu_pod("wanderer", 2, node="u2", plays=DEMO))
        await eventually(lambda: self._phases("wanderer"), lambda seen: seen == ["Running"], "the pod runs")
        cards = await until(
            lambda: self.cluster.cards("u2"), lambda cards: any(card["processes"] for card in cards), "it uses its card"
        )
        (at,) = [card for card in cards if card["processes"]]
        (other,) = [card for card in cards if not card["processes"]]
        await self.cluster.fake_nvml("u2", "process", "add", str(other["index"]), str(at["processes"][0]["pid"]), "100")

    async def bypass_the_extender(self) -> None:
        """A pod that is bound by hand fits the kubelet's sum, and no card."""
        await self._create(gpu_pod("rogue", 20, bound_to="u2"))

    async def swap_pods(self) -> None:
        """Equal pods are admitted in another order than bound, so that each gets the other's card."""
        for number in range(_MOST_ROUNDS):
            names = f"twin-{number}-a", f"twin-{number}-b"
            for name in names:
                await self._create(gpu_pod(name, 8, node="u3"))
            seen = await eventually(lambda names=names: self._phases(*names), settled, "both run, or one is held")
            if HELD in seen:
                return
            for name in names:
                await self.cluster.api.delete(PODS, name, "default", grace_seconds=0)
        raise AssertionError(f"{_MOST_ROUNDS} pairs of pods were admitted in the order of their binds")

    async def lose_an_event(self) -> None:
        """The API server's events about one pod are lost on the way, those about the next are not."""

        def without_it(call: Call, piece: bytes) -> bytes:
            lines = piece.splitlines(keepends=True)
            return b"".join(line for line in lines if not call.is_watch or b"forgotten" not in line)

        self._door.alter = without_it
        await self._create(gpu_pod("forgotten", 1, node="u1"))
        await eventually(lambda: self._phases("forgotten"), lambda seen: seen == ["Running"], "the pod runs")
        await self._create(gpu_pod("next", 1, node="u1"))

    async def refuse_a_bind(self) -> None:
        """The API server fails at the binding of a pod."""

        async def fails(call: Call) -> int:
            return 500 if call.path.endswith("/binding") else 0

        self._door.refuse = fails
        pod = await self._create(gpu_pod("unbound", 1, node="u1", scheduler="none"))
        wanted = {"PodName": "unbound", "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": "u1"}
        answer = await self._ask(self._behind[1], "bind", wanted)
        assert answer["Error"]

    async def break_the_watch(self) -> None:
        """The way to the API server is shut."""
        await self._door.close()

    async def open_to_all(self) -> None:
        """An extender listens on all addresses without TLS."""
        await self._launch(self._bare)

    async def log_unread(self) -> None:
        """Nothing reads the log of an extender, which gets more lines than the pipe and the extender hold."""
        pod = gpu_pod("p" * 253, 1)
        pod["metadata"] |= {"namespace": "n" * 253, "uid": "u"}
        question = json.dumps({"Pod": pod, "NodeNames": ["u1"]})
        async with Connection(self._bare[1]) as connection:
            for _ in range(_QUESTIONS):
                await connection.request("POST", f"{self._target.extender.path}/filter", content=question)

    async def break_a_card(self) -> None:
        """The driver reports that the card has fallen off the bus."""
        await self.cluster.fake_nvml("u2", "xid", "0", "79")

    async def fail_the_driver(self) -> None:
        """The driver cannot list the processes of cards any more."""
        call = "nvmlDeviceGetComputeRunningProcesses*"
        # Not on u1: the overuse of its pod would not be known any more.
        await self.cluster.fake_nvml("u3", "fail", call, "--with", "UNKNOWN")

    async def kill_a_plugin(self) -> None:
        """The plugin of a node is killed, and stays down."""
        await self.cluster.kill("device_plugin", "u1")

    async def kill_the_extenders(self) -> None:
        """All extenders are killed, and stay down."""
        await self.cluster.kill("extender")
        await self._behind[0].kill()
        await self._bare[0].kill()

    async def _create(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        return await self.cluster.api.create(dict(pod), "default")

    async def _phases(self, *names: str) -> list[str]:
        """The phase of each pod, and that one is held."""
        pods = [await self.cluster.api.get(PODS, name, "default") for name in names]
        events = await self.cluster.api.list(EVENTS, "default")
        held = [HELD for event in events if event["reason"] == HELD and event["involvedObject"]["name"] in names]
        return [*(pod["status"].get("phase", "") for pod in pods), *held]

    async def _ask(self, url: str, verb: str, question: Mapping[str, Any]) -> Any:
        async with Connection(url) as connection:
            path = f"{self._target.extender.path}/{verb}"
            return json.loads((await connection.request("POST", path, content=json.dumps(question))).text)

    async def _launch(self, extender: tuple[Program, str]) -> None:
        program, url = extender
        await program.launch(lambda: is_up(url, self._target.extender.ready))

    def _extender(
        self, name: str, account: Path, metrics: str, *flags: str, starter: tuple[str, ...] = ()
    ) -> tuple[Program, str]:
        port = str(free_port())
        argv, environment = self._target.extender.command(port=port, kubeconfig=str(account))
        words = [*starter, *argv, f"--metrics-address={metrics}", *flags]
        known = {**environment_of_programs(os.environ), **environment}
        return Program(name, words, known, self._folder / f"{name}.log"), f"http://{HOST}:{port}"


def settled(phases: list[str]) -> bool:
    """Do all pods run, or is one held?"""
    return HELD in phases or set(phases) == {"Running"}


Fault = Callable[[FaultyCluster], Awaitable[None]]
# With these the cluster still has all series that the dashboard shows.
FAULTS: dict[str, Fault] = {
    "GpusharePodOveruses": FaultyCluster.use_too_much,
    "GpusharePodsWait": FaultyCluster.ask_too_much,
    "GpusharePodOnForeignCard": FaultyCluster.run_on_another_card,
    "GpushareAllocationsRefused": FaultyCluster.bypass_the_extender,
    "GpushareContainersHeld": FaultyCluster.swap_pods,
    "GpushareBookCorrected": FaultyCluster.lose_an_event,
    "GpushareAnswersFail": FaultyCluster.refuse_a_bind,
    "GpushareWatchStale": FaultyCluster.break_the_watch,
    "GpushareExtenderOpen": FaultyCluster.open_to_all,
    "GpushareLogLinesDropped": FaultyCluster.log_unread,
    "GpushareCardUnhealthy": FaultyCluster.break_a_card,
    "GpushareDriverErrors": FaultyCluster.fail_the_driver,
}
# Alerts that no fault raises here, with the reason, and the series that they read.
UNSEEN = {
    "GpushareNodeUnhealthy": ("kube-state-metrics is not built; promtool judges the rule", "kube_node_status_condition")
}
# These take series away.
ENDS: dict[str, Fault] = {
    "GpushareDevicePluginAbsent": FaultyCluster.kill_a_plugin,
    "GpushareExtenderAbsent": FaultyCluster.kill_the_extenders,
}
