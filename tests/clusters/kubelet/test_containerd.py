"""A pod on a real containerd gets the limits that NVIDIA's hook gives, whatever its image and author name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpushare.deviceplugin.core.limit_devices import LimitDevice
from gpushare.deviceplugin.limit_devices import LimitDeviceFile
from tests.clusters.kubelet.containerd_node import Containerd
from tests.clusters.kubelet.nvidia_runtime import LIMIT, REQUEST, Machine, NotRunnableError, Outcome
from tests.clusters.kubelet.test_nvidias_hook import BOTH, NODE, ON_BOTH, ROWS, Row, named

IMAGE = {REQUEST: "7", LIMIT: "15000"}
CARDS = "NVIDIA_VISIBLE_DEVICES=all"
# containerd puts them together; the hook takes the first.
NAMED_TWICE = {name: row for name, row in ROWS.items() if (row.image or row.author) and row.spec.order == "containerd"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    """A machine with containerd."""
    try:
        machine = Machine(tmp_path_factory.mktemp("n"), NODE)
        one = Containerd(machine, [*(row.image for row in NAMED_TWICE.values()), IMAGE])
    except NotRunnableError as error:
        pytest.skip(str(error))
    with machine.state, one.running():
        yield one


@pytest.mark.parametrize("row", NAMED_TWICE.values(), ids=list(NAMED_TWICE))
async def test_containerd_lets_images_win_and_authors_not(node: Containerd, row: Row) -> None:
    """The limits and the error of the hook are those without a pod."""
    async with node.pod() as pod:
        container = await pod.start([CARDS, *Row(row.plugin, author=row.author).environment()], row.image)

    assert named(container.outcome, node.machine.state) == Outcome(row.limits, row.error)


async def test_each_container_of_a_pod_has_its_own_limit(node: Containerd) -> None:
    """One that is made again in its pod is limited again; a process sees the author's number, which the hook does not take."""
    first = ["NVIDIA_VISIBLE_DEVICES=1", f"{REQUEST}=0", f"{LIMIT}=2048"]
    async with node.pod() as pod:
        one, other = await pod.start(first), await pod.start([CARDS, *Row(BOTH, author={LIMIT: "14000"}).environment()])
        await pod.stop(one)
        again, bare = await pod.start(first), await pod.start([CARDS])

    assert one.outcome == again.outcome == Outcome(((1, 0, 2048),))
    assert (other.outcome, other.variables[LIMIT]) == (Outcome(ON_BOTH), "14000")
    assert bare.outcome == Outcome()


@pytest.mark.parametrize("runtime", ["runc", "nvidia"])
async def test_our_device_beats_an_image_on_containerd(node: Containerd, runtime: str) -> None:
    """Each card has a number of its own, by containerd's own devices of the CDI and beside NVIDIA's runtime."""
    node.machine.describe("--mode=nvml")
    first, second = (card.uuid for card in node.machine.state.cards())
    devices = [LimitDevice(first, 2048), LimitDevice(second, 6144)]
    await LimitDeviceFile(node.machine.devices, node.machine.command).add("u", devices)
    names = [*["nvidia.com/gpu=all"] * (runtime == "runc"), *(one.full_name for one in devices)]
    async with node.pod(runtime) as pod:
        container = await pod.start([CARDS] * (runtime == "nvidia"), IMAGE, names)

    assert container.outcome == Outcome(((0, 0, 2048), (1, 0, 6144)))


async def test_a_lost_device_keeps_its_container_from_starting(node: Containerd) -> None:
    """The error names the device."""
    name = LimitDevice("GPU-gone", 1024).full_name
    async with node.pod() as pod:
        container = await pod.start([CARDS], devices=[name])

    assert container.outcome.error.endswith(f"unresolvable CDI devices {name}")
