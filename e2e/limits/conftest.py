"""A cluster for each module, with the nodes that its chosen cases need; all begin together, as most of the time is waiting."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from clusters.api.api_client import Object
from clusters.api.waiting import eventually
from clusters.images.behaviour import probe_container
from clusters.provider import LimitSpec, NodeSpec
from clusters.targets import Target
from e2e import spec
from e2e.builders import gpu_pod
from e2e.bursts.judge import is_running
from e2e.bursts.world import LIMITED
from e2e.limit_look import LimitLook
from e2e.observer import Observer, OwnCluster, observing

_HERE: Final = Path(__file__).parent
_BOXES: Final = Path(__file__).parents[1] / "boxes"
# A card of 15 units with this driver, which limits.
NEW, OLD = "615", "580"
FULL: Final = 15
PLAIN: Final = (gpu_pod("p", 3), gpu_pod("q", 4))
SET: Final = "nvmlDeviceSetMemoryLimits_v1"
VARIABLE: Final = "NVIDIA_GPU_MEMORY_LIMIT"
# Authors name these by ``envFrom``.
SOURCE: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "raised"},
    "data": {VARIABLE: "15000"},
}
GUARANTEE: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "guaranteed"},
    "stringData": {"GPU_MEMORY_REQUEST": "1024"},
}
# By a device of the CDI, which runs the program on the node.
DEVICE: Final = {"memory-limit-hook": "/usr/bin/nvidia-cdi-hook", "cdi-root": "{cdi_root}"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real kubelets have NVIDIA's own hook, and no simulated one."""
    mark = pytest.mark.stand_in_only("the hook that limits containers is simulated in the stand-in kubelet")
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(mark)


@dataclass(frozen=True, slots=True)
class Situation:
    """``commands`` to fake-nvml come before the ``pods``. ``facts`` are further fields of ``LimitedNode``."""

    pods: tuple[dict[str, Any], ...] = ()
    box: str = "t4x1"
    driver: str = NEW
    limits: LimitSpec = field(default_factory=LimitSpec)
    options: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[tuple[str, ...], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    needs: str = "memory-limit"

    def node(self, name: str, known: Mapping[str, Any]) -> NodeSpec:
        """The node, with a plugin that limits; ``known`` are the options that the target can spell."""
        hastens = {
            "usage-interval": "1s",
            "survey-interval": "1s",
            "metrics-address": "127.0.0.1:0",
            "proc-root": "{proc_root}",
        }
        options = {**LIMITED, **self.options}
        options |= {option: value for option, value in hastens.items() if option in known}
        box = str(_BOXES / f"{self.box}.yaml") if (_BOXES / f"{self.box}.yaml").is_file() else self.box
        return NodeSpec(name, box, self.driver, plugin_options=options, memory_limits=self.limits)


class LimitedCluster:
    """The nodes are named after their situations."""

    def __init__(
        self, observer: Observer, situations: Mapping[str, Situation], *, publishes: bool, follows_drivers: bool
    ) -> None:
        self.observer, self.situations = observer, situations
        self.follows_drivers = follows_drivers
        """Does the plugin go on below another driver?"""
        self.look = LimitLook(observer, publishes=publishes)

    async def begin(self) -> None:
        """Make the cards as they should be, then all pods."""
        await self.observer.create(SOURCE, GUARANTEE)
        for name, one in self.situations.items():
            for command in one.commands:
                await self.observer.cluster.fake_nvml(name, *command)
            await self.observer.create(*(on(pod, name) for pod in one.pods))

    async def running(self, name: str, *pods: str) -> list[Object]:
        """Wait until all containers of these pods run: a pod is Running also while its container fails to start."""
        names = [f"{pod}.{name}" for pod in pods]

        def all_run(found: list[Object]) -> bool:
            return {pod["metadata"]["name"] for pod in found if is_running(pod)}.issuperset(names)

        found = await eventually(self.observer.pods, all_run, f"the containers of {', '.join(names)} run")
        return [pod for pod in found if pod["metadata"]["name"] in names]

    async def run(self, name: str, pod: Mapping[str, Any]) -> None:
        """One more pod runs on a node."""
        await self.observer.create(on(pod, name))
        await self.running(name, pod["metadata"]["name"])

    async def is_right(self, name: str, **facts: Any) -> None:
        """Wait until nothing is wrong with the limits of the node."""
        await eventually(lambda: self.wrong(name, **facts), lambda found: not found, f"the limits of {name} are right")

    async def end_process(self, name: str) -> None:
        """The process of the node's pod ends; its container starts again."""
        (pod,) = await self.running(name, "p")
        at = pod["status"]["containerStatuses"][0]["containerID"].rpartition("://")[2]
        files = self.observer.cluster.kubelet_folder(name) / "proc"

        async def pids() -> list[int]:
            return [int(file.parent.name) for file in files.glob("*/cgroup") if at in file.read_text()]

        (pid,) = await eventually(pids, bool, f"the container of {name} has a process")
        os.kill(pid, signal.SIGKILL)

    async def wrong(self, name: str, **facts: Any) -> list[str]:
        """The findings about a node, with these facts instead of its situation's."""
        facts = {**self.situations[name].facts, **facts}
        instead = {(f"{pod}.{name}", container): limit for (pod, container), limit in facts.get("set", {}).items()}
        found = await self.look.wrong(name, **{**facts, "set": instead})
        return found if self.look.judged else [*found, f"no container of {name} runs: nothing to judge"]


def process_pod() -> dict[str, Any]:
    """A pod with a real process."""
    container = probe_container("c0", "python:3", "look", "--seconds", "600", limits={spec.RESOURCE_MEMORY: 3})
    return by("p", 3, **container)


def by(name: str, units: int, /, **changes: Any) -> dict[str, Any]:
    """A pod with these fields of its container changed."""
    pod = gpu_pod(name, units)
    pod["spec"]["containers"][0].update(changes)
    return pod


def on(pod: Mapping[str, Any], node: str) -> dict[str, Any]:
    """The pod for this node alone, with a name of its own."""
    metadata = {**pod["metadata"], "name": f"{pod['metadata']['name']}.{node}"}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeSelector": {"kubernetes.io/hostname": node}}}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def limited(request: pytest.FixtureRequest, own: OwnCluster, target: Target) -> AsyncIterator[LimitedCluster]:
    """The module's ``SITUATIONS``, as far as its chosen cases name them."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    names = {item.callspec.params["name"] for item in items}
    chosen = {
        name: one for name, one in request.module.SITUATIONS.items() if name in names and one.needs in target.claims
    }
    known = target.device_plugin.flags
    async with (
        own([one.node(name, known) for name, one in chosen.items()]) as cluster,
        observing(cluster, "limits") as observer,
    ):
        made = LimitedCluster(
            observer,
            chosen,
            publishes="metrics-address" in known,
            follows_drivers="cards-annotation" in target.claims,
        )
        await made.begin()
        yield made
