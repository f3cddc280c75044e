"""Pods with the probe on an embedded cluster: memory of a simulated T4, a missing device file, and the plugin's view of it."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clusters.api.resources import EVENTS, PODS
from clusters.api.waiting import eventually
from clusters.images.probe_container import probe_container
from clusters.provider import Cluster, load_nodes
from clusters.providers import Choices, make_cluster
from clusters.targets import load_target
from fake_nvml.native.compiler import CompilerError, find_compiler

NODES = Path(__file__).parents[2] / "clusters" / "simulated" / "usage.yaml"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """One node with a T4, whose plugin looks at what pods really use."""
    try:
        find_compiler(os.environ)
    except CompilerError as error:
        pytest.skip(str(error))
    cluster = make_cluster("embedded", load_nodes(NODES)[:1], load_target("gpushare"), Choices(dict(os.environ)))
    await cluster.start()
    yield cluster
    await cluster.stop()


async def create(cluster: Cluster, name: str, *arguments: str, units: int = 1) -> None:
    container = probe_container("probe", "python:3.12-slim", *arguments, limits={"aliyun.com/gpu-mem": units})
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 30}
    await cluster.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}, "default")


async def run(cluster: Cluster, name: str, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code of a probe in a pod, and the lines of its log."""
    await create(cluster, name, *arguments)
    pod = await eventually(
        lambda: cluster.api.get(PODS, name, "default"),
        lambda pod: (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"),
        f"{name} has ended",
    )
    log = await cluster.api.text(PODS.path("default", name, "log"))
    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return int(state["exitCode"]), [json.loads(line) for line in log.splitlines()]


async def test_probes_find_what_a_container_can_use(cluster: Cluster) -> None:
    """1000 MiB are taken and given back; more than the card has, and a missing device file, fail with their reasons."""
    code, lines = await run(cluster, "good", "allocate", "--mib", "1000", "--seconds", "0")
    steps = {line["step"]: line for line in lines}
    assert (code, all(line["ok"] for line in lines)) == (0, True), lines
    assert (steps["allocate"]["mib"], steps["card"]["uuid"]) == (1000, cluster.cards("u1")[0]["uuid"])

    code, lines = await run(cluster, "large", "allocate", "--mib", "99999", "--seconds", "0")
    assert (code, [line["error"] for line in lines if not line["ok"]]) == (3, ["CUDA_ERROR_OUT_OF_MEMORY"])

    await cluster.fake_nvml("u1", "device-file", "nvidia-uvm", "missing")
    code, lines = await run(cluster, "fileless", "allocate", "--mib", "1000", "--seconds", "0")
    assert (code, lines[-1]["error"], lines[-1]["missing"]) == (3, "CUDA_ERROR_UNKNOWN", ["/dev/nvidia-uvm"])
    code, lines = await run(cluster, "look", "look")
    parts = {line["part"]: line for line in lines}
    assert (code, len(parts["nvml"]["cards"]), len(parts["nvidia-smi"]["lines"])) == (0, 1, 1)
    assert parts["environment"]["variables"]["ALIYUN_COM_GPU_MEM_CONTAINER"] == "1"


async def test_the_plugin_knows_whose_process_a_probe_is(cluster: Cluster) -> None:
    """A probe that takes more than its pod booked is reported on that pod, and ends with the cluster."""
    await create(cluster, "greedy", "allocate", "--mib", "2000", "--seconds", "600")

    async def messages() -> list[str]:
        events = await cluster.api.list(EVENTS, "default")
        return [event["message"] for event in events if event["reason"] == "GPUShareMemoryOveruse"]

    (text,) = await eventually(messages, bool, "the overuse is reported")
    (process,) = cluster.cards("u1")[0]["processes"]
    await cluster.stop()

    assert text.startswith("uses 2000 MiB of card 0 and booked 1024 MiB;")
    with pytest.raises(ProcessLookupError):
        os.kill(process["pid"], 0)
