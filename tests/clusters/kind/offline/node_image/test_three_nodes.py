"""Promises of the node image, kept by three nodes of it (skipped without a Docker, or while the image is not built)."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from clusters.controlplane.binaries import cache_folder
from clusters.kind.engine.docker_client import has_images
from clusters.kind.engine.engine import engine_environment, reason_against
from clusters.kind.kind_nodes import KindNodes
from clusters.kind.offline.node_image import build, node_programs
from clusters.kind.sweeping import RunRecord, record
from tests.clusters.kind.offline.node_image.nodes import Nodes, until

pytestmark = pytest.mark.thorough("three nodes start, which takes a minute")
# kind's own choice: the first addresses of its ranges.
NAME_SERVER = "10.96.0.10"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """A control plane and two workers."""
    if (reason := reason_against(dict(os.environ))) is not None:
        pytest.skip(reason)
    environment = engine_environment(dict(os.environ))
    image = build.name_of(node_programs.modules(node_programs.minors()[0]))
    if not has_images([image], environment):
        pytest.skip(f"{image} is not built: `make kind` does")
    cluster = f"gpushare-node-{os.getpid()}"
    containers = (f"{cluster}-control-plane", f"{cluster}-worker", f"{cluster}-worker2")
    folder = tmp_path_factory.mktemp("kind")
    roles = [{"role": role, "image": image} for role in ("control-plane", "worker", "worker")]
    networking = {"apiServerAddress": "127.0.0.1"}
    config = {"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "name": cluster}
    (folder / "kind.yaml").write_text(yaml.safe_dump({**config, "networking": networking, "nodes": roles}))
    runs = cache_folder(environment).parent / "kind" / "runs"
    with record(runs, RunRecord(cluster, environment.get("DOCKER_HOST", ""))):
        kind = KindNodes(folder / "kind.yaml", folder / "kubeconfig", environment)
        try:
            asyncio.run(kind.create_nodes())
            made = Nodes(containers, environment)
            made.until_ready()
            made.until_names_answer()
            yield made
        finally:
            asyncio.run(kind.delete_nodes())


def assert_pods_reach_each_other(nodes: Nodes, addresses: dict[str, str]) -> None:
    """From a pod of each worker to a pod of the other, which sees the true sender; both ways."""
    for asker, asked in (nodes.workers, nodes.workers[::-1]):
        here, there = addresses[asker], addresses[asked]
        # The server answers a client with the address that it was seen to ask from.
        script = f"exec nsenter --target $pid --net socat TCP-LISTEN:7,bind={there} SYSTEM:'echo $SOCAT_PEERADDR'"
        find = (
            f"for pid in $(pgrep -x pause); do nsenter --target $pid --net ip address | grep -qw {there} && break; done"
        )
        nodes.docker("exec", "--detach", asked, "sh", "-c", f"{find}; {script}")
        argv = ["socat", "-T10", "-", f"TCP:{there}:7,retry=50,interval=0.1"]

        assert nodes.in_pod(asker, here, argv).decode().strip() == here


def assert_names_are_found(nodes: Nodes, worker: str, address: str) -> None:
    """Names of the cluster and of nodes are answered in a worker's pod; another one does not exist, without a wait."""
    names = ("kubernetes.default.svc.cluster.local", nodes.containers[0], "registry.k8s.io")
    service, node, outside = (nodes.resolve(worker, address, NAME_SERVER, name) for name in names)

    assert service == (0, socket.inet_aton("10.96.0.1"))
    assert node == (0, socket.inet_aton(nodes.addresses()[nodes.containers[0]]))
    assert outside[0] == 3


def test_kubelets_settings_are_not_the_hosts(nodes: Nodes) -> None:
    """A setting in a node stays in it; the kubelet has made its own there."""
    setting = Path("/proc/sys/kernel/panic")
    before = setting.read_text()
    nodes.text(nodes.workers[0], "echo 77 >/proc/sys/kernel/panic")
    after = setting.read_text()
    if after != before:
        setting.write_text(before)

    assert after == before
    assert nodes.text(nodes.workers[1], "cat /proc/sys/vm/overcommit_memory") == "1"


def test_nodes_find_each_other_under_other_addresses(nodes: Nodes) -> None:
    """Machines that were off and get other addresses from Docker are the same cluster: pods and names are found."""
    addresses, boots, machines = nodes.addresses(), nodes.facts("bootID"), nodes.facts("machineID")
    nodes.docker("stop", "--time", "0", *nodes.containers)
    nodes.occupy({*addresses.values()})
    nodes.docker("start", *nodes.workers, nodes.containers[0])
    nodes.until_ready(boots)
    until(nodes.addresses, lambda now: not {*now.values()} & {*addresses.values()})
    nodes.until_names_answer()
    pods = {worker: nodes.start_pod(f"pod{number}", worker) for number, worker in enumerate(nodes.workers)}

    assert nodes.facts("machineID") == machines
    assert_pods_reach_each_other(nodes, pods)
    assert_names_are_found(nodes, *next(iter(pods.items())))
