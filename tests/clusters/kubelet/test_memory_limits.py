"""The simulated container runtime limits a container's memory by the rules that were measured with NVIDIA's hook."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.images.behaviour import Behaviours
from clusters.kubelet.environment import DeviceRequests
from clusters.kubelet.kubelet_cards import Cards
from clusters.kubelet.memory_limits import MemoryLimits
from clusters.kubelet.pods import Container, Kind
from clusters.kubelet.probe_process import Probes
from clusters.kubelet.runtime import Run, Runtime
from clusters.provider import LimitSpec, NodeSpec
from clusters.simulated_node import new_cards
from fake_nvml.state import State

MIB = 2**20
REQUEST, LIMIT = "NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT"
BOTH = {REQUEST: "0", LIMIT: "1024"}


class Node:
    """The runtime of one node of two T4."""

    def __init__(self, folder: Path, driver: str, spec: LimitSpec) -> None:
        self.folder = folder
        self.state: State = new_cards(folder / "state", NodeSpec("n", "t4x2", driver, memory_limits=spec))
        cards = Cards(self.state)
        self.limits = MemoryLimits(folder / "cgroup", folder / "proc", cards, spec)
        probes = Probes(folder / "run", cards)
        self.runtime = Runtime(Behaviours.load(), cards, lambda: 0.0, folder / "proc", probes, self.limits)

    async def start(self, variables: dict[str, str], image: str = "any", holds: int = 0, qos: str = "Burstable") -> Run:
        """Start a container on both cards with these variables of plugins."""
        given = {**variables, "NVIDIA_VISIBLE_DEVICES": "all"}
        requests = DeviceRequests(variables=given)
        container = Container("main", image, Kind.APP, {}, (), ())
        environment = {**given, "SIMULATED_HOLDS_MIB": str(holds)}
        return await self.runtime.start("uid", container, environment, requests, qos)

    def kept(self) -> list[tuple[str, int, int | None, int]]:
        """Directory, soft, hard and used MiB of each limit."""
        root = self.folder / "cgroup"
        hard = [None if one.hard is None else one.hard // MIB for one in self.state.limits()]
        rows = zip(self.state.limits(), hard, strict=True)
        return [(str(Path(one.path).relative_to(root)), one.soft, most, one.used // MIB) for one, most in rows]


@pytest.fixture
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    """By driver and what its runtime does."""
    driver, spec = getattr(request, "param", ("615", LimitSpec()))
    made = Node(tmp_path, driver, spec)
    yield made
    made.runtime.kill_all()
    made.state.close()


async def test_each_life_of_a_container_has_a_cgroup_with_its_limit(node: Node) -> None:
    """The limit is on each card, a process counts in it and stays within it, and all is gone with the container."""
    first = await node.start(BOTH, holds=1000)
    group = f"kubepods/burstable/poduid/{first.id}"

    assert node.kept() == [(group, 0, 1024, 1000), (group, 0, 1024, 0)]
    assert (node.folder / "proc" / str(first.pid) / "cgroup").read_text() == f"0::/{group}\n"
    first.finish(0)
    assert (node.kept(), (node.folder / "cgroup" / group).parent.exists()) == ([], False)
    second = await node.start(BOTH, holds=1025, qos="Guaranteed")
    assert second.exit is not None
    assert (second.exit.code, "out of memory" in second.log[-1].text) == (1, True)
    third = await node.start({})
    assert (third.exit, node.kept(), third.id == first.id) == (None, [], False)


async def test_an_image_raises_its_limit_on_containerd(node: Node) -> None:
    """The image's variable stands before the plugin's; the container's log shows that of the plugin."""
    run = await node.start(BOTH, image="simulated/limit-raiser")

    assert [most for _, _, most, _ in node.kept()] == [15000, 15000]
    assert f"{LIMIT}=1024" in [line.text for line in run.log]


@pytest.mark.parametrize(
    ("node", "variables", "says"),
    [
        (("610", LimitSpec()), BOTH, "exit status 127,.*undefined symbol: nvmlDeviceSetMemoryLimits_v1"),
        (
            ("615", LimitSpec(cgroup="v1")),
            BOTH,
            'exit status 1,.* level=error msg="setting.*only supported in cgroup v2"',
        ),
        (("610", LimitSpec()), {}, ""),
    ],
    indirect=["node"],
    ids=str,
)
async def test_a_hook_that_fails_keeps_the_container_from_its_start(
    node: Node, variables: dict[str, str], says: str
) -> None:
    """Without variables, or without the hook, nothing happens."""
    run = await node.start(variables)

    if says:
        assert run.exit is not None
        assert (run.exit.code, run.exit.reason) == (128, "StartError")
        assert re.search(says, run.exit.message)
    else:
        assert run.exit is None
    assert node.kept() == []


@pytest.mark.parametrize(
    ("node", "v2", "region", "misc", "params"),
    [
        (("615", LimitSpec()), True, True, "0", '""'),
        (("615", LimitSpec(backend="misc")), True, False, "1", '""'),
        (("615", LimitSpec(backend="none")), True, False, "0", '""'),
        (("615", LimitSpec(switched_off=True)), True, False, "1", '"RmMemacctMode=0"'),
        (("615", LimitSpec(cgroup="v1")), False, False, "0", '""'),
    ],
    indirect=["node"],
)
async def test_a_program_sees_whether_the_kernel_can(
    node: Node, v2: bool, region: bool, misc: str, params: str
) -> None:
    """The files are those that a kernel and a driver have; a region is a card's by its address."""
    node.limits.show_kernel()
    capacity, proc = node.folder / "cgroup" / "dmem.capacity", node.folder / "proc"

    assert (node.folder / "cgroup" / "cgroup.controllers").exists() == v2
    assert capacity.exists() == region
    if region:
        assert capacity.read_text().splitlines()[0] == f"nvidia/00000000:04:00.0/vidmem {15360 * MIB}"
    assert (proc / "cgroups").read_text().split()[-1] == misc
    assert (proc / "driver/nvidia/params").read_text().split()[-1] == params
