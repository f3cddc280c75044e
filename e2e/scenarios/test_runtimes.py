"""However the runtime gets the card, the container sees the one of its pod's annotation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from clusters.api.resources import PODS
from clusters.provider import load_nodes
from e2e import spec
from e2e.builders import DEMO, gpu_pod
from e2e.checkers.pod_requests import card_of
from e2e.observer import Observer, OwnCluster, observing

_NODES = Path(__file__).parents[2] / "clusters" / "simulated" / "runtimes.yaml"


@pytest_asyncio.fixture(loop_scope="session")
async def observer(own: OwnCluster) -> AsyncIterator[Observer]:
    """A namespace on a cluster of the case's own."""
    async with own(load_nodes(_NODES)) as cluster, observing(cluster, "runtimes") as observer:
        yield observer


@pytest.mark.stand_in_only("simulated cards have no device files, so no runtime can hand them in by CDI")
async def test_each_way_of_naming_a_card_shows_it_and_no_other(observer: Observer) -> None:
    """Two pods a node, one a card: each holds memory on the card in its annotation; the variable alone would show none."""
    ways = {
        "by-cri": ("CDI device nvidia.com/gpu={uuid}", "void"),
        "by-annotation": ("CDI device nvidia.com/gpu={nvml}", "void"),
        "by-mount": ("mount /var/run/nvidia-container-devices/{uuid}", "/var/run/nvidia-container-devices"),
    }
    names = [(f"{node}-{number}", node) for node in ways for number in range(2)]
    await observer.create(*(gpu_pod(name, 8, node=node, plays=DEMO) for name, node in names))
    pods = await observer.running(*(name for name, _ in names))

    for pod in pods:
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        card = observer.cluster.cards(node)[card_of(pod)]
        line, variable = ways[node]
        log = await observer.cluster.api.text(PODS.path("runtimes", name, "log"))
        assert line.format(uuid=card["uuid"], nvml=card["index"]) in log.splitlines()
        assert (await observer.variables(pod))[0][spec.ENV_VISIBLE] == variable
    processes = {node: [len(card["processes"]) for card in observer.cluster.cards(node)] for node in ways}
    assert processes == {key: [1, 1] for key in ways}
