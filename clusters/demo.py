"""The main job, step by step: pods share cards on a cluster of three nodes. Every step is checked; the first that fails
ends the demo.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api.api_client import MERGE_PATCH, ApiClient, ApiError, Object
from clusters.api.resources import EVENTS, NODES, PODS
from clusters.api.waiting import eventually
from clusters.processes.commands import output_of
from clusters.provider import Cluster, NodeSpec
from clusters.targets import Target

SAMPLES: Final = Path(__file__).parent / "deploy" / "samples"
# The MiB that cheyang/gpu-player:v2 allocates on its card, however much it booked.
PLAYER_MIB: Final = 1253
HOSTNAME: Final = "kubernetes.io/hostname"
_IMAGE: Final = "cheyang/gpu-player:v2"
# A driver of which the device plugin has it limit memory; the simulated runtime has NVIDIA's hook, a node of kind has not.
LIMITED_NODE: Final = NodeSpec(
    "node4", "t4x1", "620", plugin_options={"memory-limit": "driver", "cgroup-root": "{cgroup_root}"}
)


class DemoError(Exception):
    """A step that failed its check."""


class Demo:
    """Runs on any cluster of the seam; ``say`` prints, ``limits`` is whether ``LIMITED_NODE`` is there."""

    def __init__(
        self,
        cluster: Cluster,
        target: Target,
        environment: dict[str, str],
        say: Callable[[str], None],
        *,
        limits: bool = False,
    ) -> None:
        self._cluster = cluster
        self._target = target
        self._environment = environment
        self._say = say
        self._limits = limits
        self._started = time.monotonic()

    @property
    def _api(self) -> ApiClient:
        return self._cluster.api

    async def run(self) -> None:
        """All steps. Raises DemoError."""
        await self._share_one_card()
        await self._deploy_on_a_t4()
        await self._refuse_by_card()
        await self._show_variables()
        await self._show_cards()
        if self._limits:
            await self._limit_memory()

    def step(self, text: str) -> None:
        """One line of progress."""
        self._say(f"[{time.monotonic() - self._started:5.1f} s] {text}")

    async def _share_one_card(self) -> None:
        self.step("1. StatefulSet binpack-1: three pods of 1 GiB on node1, which has one GTX 1080 Ti")
        await self._apply("binpack-1-statefulset.yaml", "node1")
        pods = [f"binpack-1-{number}" for number in range(3)]
        await self._running(pods)
        table = await self._show("-d")
        for name in pods:
            expect(any(line.split() == [name, "default", "1"] for line in table.splitlines()), f"{name} has 1 on GPU0")
        expect("GPU0(Allocated)" in table, "the table has the column GPU0(Allocated)")
        expect(has_words(table, "Allocated : 3 (30%)"), "three of ten units are allocated")
        expect(has_words(table, "Total : 10"), "the card has ten units")

    async def _deploy_on_a_t4(self) -> None:
        self.step("2. Deployment binpack-1: three pods of 1 GiB on node2, which has one T4")
        await self._apply("binpack-1-deployment.yaml", "node2")
        await self._running_of("app=binpack-1-t4", 3)
        table = await self._show("node2")
        expect(has_words(table, "3/14 (21%)"), "node2 has 3/14 (21%)")

    async def _refuse_by_card(self) -> None:
        self.step("3. node3 (two T4, one GTX 1080 Ti) is filled: 6 GiB are left in total, no card has 4")
        await self._apply("fill.yaml", "node3")
        await self._running(["fill-a", "fill-b", "fill-c"])
        await self._apply("latecomer.yaml", "node3")
        event = await eventually(
            lambda: self._why("latecomer"),
            lambda text: "Insufficient GPU Memory in one device" in text,
            "the pod latecomer waits and its event says why",
        )
        self._say(f"           Pending: {event}")
        expect(await self._phases(["latecomer"]) == ["Pending"], "latecomer is Pending")
        victim = await self._api.get(PODS, "fill-a", "default")
        freed = card_of(victim)
        self.step(f"   fill-a, 12 GiB on card {freed}, is deleted")
        await self._api.delete(PODS, "fill-a", "default")
        await self._running(["latecomer"])
        index = card_of(await self._api.get(PODS, "latecomer", "default"))
        expect(index == freed, f"latecomer is on card {freed}, which was freed (it is on {index})")
        self.step(f"   latecomer runs, on card {index}")
        await self._show("-d", "node3")

    async def _show_variables(self) -> None:
        self.step("4. what each container was given")
        for pod in sorted(await self._api.list(PODS, "default"), key=lambda pod: str(pod["metadata"]["name"])):
            name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
            # They are sorted, and a container runs before its log is written.
            log = await eventually(
                partial(self._api.text, PODS.path("default", name, "log")),
                lambda text: "NVIDIA_VISIBLE_DEVICES=" in text,
                f"{name} has told its variables",
            )
            variables = [line for line in log.splitlines() if line.startswith(("NVIDIA_VISIBLE", "ALIYUN_COM_GPU"))]
            self._say(f"           {node} {name}: {' '.join(variables)}")
            given = dict(line.split("=", 1) for line in variables)
            expect(given["ALIYUN_COM_GPU_MEM_IDX"] == card_of(pod), f"{name} has the card of its annotation")
            seen = sees(given["NVIDIA_VISIBLE_DEVICES"], self._cluster.cards(node))
            expect(seen == [int(card_of(pod))], f"{name} sees its own card and no other")

    async def _show_cards(self) -> None:
        self.step("5. what the cards hold (fake-nvml show)")
        for node in ("node1", "node2", "node3"):
            self._say(f"           {node} $ fake-nvml show\n{indent(await self._cluster.fake_nvml(node, 'show'))}")
        held = [process["mib"] for card in self._cluster.cards("node1") for process in card["processes"]]
        expect(held == [PLAYER_MIB] * 3, f"node1's card holds three processes of {PLAYER_MIB} MiB (it holds {held})")
        self.step(
            f"   three processes hold {PLAYER_MIB} MiB each; each booked 1 GiB: sharing by booking is not isolation"
        )

    async def _limit_memory(self) -> None:
        node, booked = LIMITED_NODE.name, 2 * 1024
        for name, holds in (("modest", booked), ("greedy", booked + 1)):
            pod = player(name, 2, {HOSTNAME: node}, holds_mib=holds)
            pod["spec"]["restartPolicy"] = "Never"
            await self._api.create(pod)
        await eventually(
            lambda: self._phases(["modest", "greedy"]),
            lambda phases: phases == ["Running", "Failed"],
            "modest runs and greedy ends",
        )
        log = str(await self._api.text(PODS.path("default", "greedy", "log")))
        expect(f"NVIDIA_GPU_MEMORY_LIMIT={booked}\n" in log, "greedy was given its share as its limit")
        expect("out of memory" in log, f"greedy is out of memory (its log: {log})")
        (card,) = self._cluster.cards(node)
        held, free = [one["mib"] for one in card["processes"]], card["memory"]["total_mib"] - card["memory"]["used_mib"]
        expect(held == [booked], f"modest alone holds memory, its whole share (held: {held})")
        self.step(
            f"6. node4's driver limits two pods of 2 GiB on its T4: greedy is refused {booked + 1} MiB though {free} are free; "
            f"modest holds {booked} and runs on"
        )

    async def _apply(self, manifest: str, node: str) -> None:
        """Create the objects of a sample, which names no node, with their pods on this one."""
        for document in on_node(manifest, node):
            await self._api.create(document)

    async def _running(self, names: list[str]) -> None:
        await eventually(
            lambda: self._phases(names), lambda phases: phases == ["Running"] * len(names), f"{', '.join(names)} run"
        )

    async def _running_of(self, label_selector: str, count: int) -> None:
        async def phases() -> list[str]:
            pods = await self._api.list(PODS, "default", label_selector=label_selector)
            return [str(pod["status"].get("phase")) for pod in pods]

        await eventually(phases, lambda seen: seen == ["Running"] * count, f"{count} pods with {label_selector} run")

    async def _phases(self, names: list[str]) -> list[str]:
        pods = {pod["metadata"]["name"]: pod for pod in await self._api.list(PODS, "default")}
        return [str(pods[name]["status"].get("phase")) if name in pods else "missing" for name in names]

    async def _why(self, name: str) -> str:
        """The latest FailedScheduling event of a pod."""
        events = await self._api.list(EVENTS, "default", field_selector=f"involvedObject.name={name}")
        texts = [str(event["message"]) for event in events if event.get("reason") == "FailedScheduling"]
        return texts[-1] if texts else ""

    async def _show(self, *arguments: str) -> str:
        """Say and answer what ``kubectl inspect gpushare`` prints. Raises ClusterError."""
        account = await self._cluster.kubeconfig_of(self._target.inspect.account)
        argv, environment = self._target.inspect.command(kubeconfig=str(account))
        table = await output_of([*argv, *arguments], {**self._environment, **environment})
        self._say(indent(f"$ kubectl inspect gpushare {' '.join(arguments)}\n{table}"))
        return table


def on_node(manifest: str, node: str) -> Iterator[Object]:
    """The objects of a sample, with their pods on this node."""
    for document in yaml.safe_load_all((SAMPLES / manifest).read_text()):
        spec = document["spec"]
        (spec["template"]["spec"] if "template" in spec else spec)["nodeSelector"] = {HOSTNAME: node}
        yield document


def player(name: str, units: int, where: dict[str, str], *, holds_mib: int) -> Object:
    """A pod with one container that holds this much of its card. Pure."""
    variables = [{"name": "SIMULATED_HOLDS_MIB", "value": str(holds_mib)}]
    limits = {"limits": {"aliyun.com/gpu-mem": str(units)}}
    container = {"name": "main", "image": _IMAGE, "env": variables, "resources": limits}
    spec = {"nodeSelector": where, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def expect(condition: bool, what: str) -> None:
    """Raises DemoError unless it is so."""
    if not condition:
        raise DemoError(f"not as said: {what}")


def has_words(text: str, words: str) -> bool:
    """Does a line have these words, however it is aligned?"""
    return any(words in " ".join(line.split()) for line in text.splitlines())


def card_of(pod: Object) -> str:
    """The index of the card in a pod's annotation; "" without one."""
    return str((pod["metadata"].get("annotations") or {}).get("ALIYUN_COM_GPU_MEM_IDX", ""))


def sees(visible: str, cards: list[dict[str, Any]]) -> list[int]:
    """Indices of the cards that NVIDIA_VISIBLE_DEVICES names, by UUID or index."""
    names = visible.split(",")
    return [card["index"] for card in cards if card["uuid"] in names or str(card["index"]) in names]


def indent(text: str) -> str:
    """Under the line of its step."""
    return "\n".join(f"           {line}".rstrip() for line in text.splitlines())


def say(text: str) -> None:
    """Write to standard output immediately."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


LIVING_NODES: Final = Path(__file__).parent / "simulated" / "living.yaml"
WAITING_POD: Final = "latecomer"
# Between two beats, in seconds; and how many beats a visitor stays.
PAUSE_SECONDS: Final = 3.0
_STAY: Final = 4
_UNITS: Final = (2, 5, 9)
# The card that becomes unhealthy, the number of beats of a round, and the beats of it at which it does so and recovers.
UNHEALTHY_NODE: Final = "node2"
_CARD: Final = "3"
_ROUND: Final = 10
_ILL_AT: Final = 3
_WELL_AT: Final = 7
# An error of the card's memory, for which it is not used until it was reset.
_XID: Final = "48"
_RECOVERED: Final = "gpushare.aliyun.com/recovered"
_MIB: Final = 1024
_LABEL: Final = "app"


def first_pods() -> Iterator[dict[str, Any]]:
    """Pods that stay: node3's cards are filled, one waits for a card of it, and one uses more than it booked. Pure."""
    yield from on_node("fill.yaml", "node3")
    yield from on_node("latecomer.yaml", "node3")
    yield player("greedy", 1, {HOSTNAME: "node1"}, holds_mib=PLAYER_MIB)


def visitor(name: str, units: int) -> dict[str, Any]:
    """A pod that keeps to its booking. Pure."""
    pod = player(name, units, {"visitors": "welcome"}, holds_mib=units * _MIB * 3 // 4)
    return pod | {"metadata": {"name": name, "labels": {_LABEL: "visitor"}}}


async def settle(cluster: Cluster) -> None:
    """Create the pods that stay, if they are not there, and delete what an earlier life has left. Raises ApiError."""
    for left in await cluster.api.list(PODS, "default", label_selector=f"{_LABEL}=visitor"):
        await cluster.api.delete_exactly(PODS, left)
    for pod in first_pods():
        await _create(cluster, pod)


async def live(cluster: Cluster, pause_seconds: float = PAUSE_SECONDS) -> None:
    """Go on until cancelled. A pod that a user has deleted is no error. Raises ApiError, ClusterError."""
    for number in itertools.count():
        await _act(cluster, number)
        await asyncio.sleep(pause_seconds)


async def _act(cluster: Cluster, beat: int) -> None:
    """The changes of the beat of that number, from 0: a visitor comes, one goes, a card becomes unhealthy or is healthy again."""
    if beat >= _STAY:
        with _unless("NotFound"):
            await cluster.api.delete(PODS, f"visitor-{beat - _STAY}", "default")
    await _create(cluster, visitor(f"visitor-{beat}", _UNITS[beat % len(_UNITS)]))
    if beat % _ROUND == _ILL_AT:
        await cluster.fake_nvml(UNHEALTHY_NODE, "xid", _CARD, _XID)
    if beat % _ROUND == _WELL_AT:
        annotations = {"metadata": {"annotations": {_RECOVERED: _CARD}}}
        await cluster.api.patch(NODES, UNHEALTHY_NODE, annotations, content_type=MERGE_PATCH)


async def _create(cluster: Cluster, pod: dict[str, Any]) -> None:
    with _unless("AlreadyExists"):
        await cluster.api.create(pod)


@contextlib.contextmanager
def _unless(reason: str) -> Iterator[None]:
    """An answer with this reason is no error."""
    try:
        yield
    except ApiError as error:
        if error.reason != reason:
            raise
