"""A real Prometheus that scrapes a cluster: the dashboard has data, and what is wrong there raises its alerts and no others."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
import yaml

from clusters.api.connection import Connection
from clusters.api.readiness import is_up
from clusters.api.waiting import eventually
from clusters.processes.ports import free_port
from clusters.processes.program import Program
from clusters.provider import Cluster, NodeSpec
from clusters.providers import Choices, make_cluster
from clusters.targets import load_target
from tests.clusters.deploy.reading import DASHBOARD, RULES

pytestmark = pytest.mark.thorough("Prometheus scrapes a cluster of its own for seconds")
HOST = "127.0.0.1"
_METRICS = {"metrics-address": f"{HOST}:0"}
_USAGE = {
    "usage": "",
    "proc-root": "{proc_root}",
    "usage-interval": "1s",
    "overuse-tolerance": "0",
    "overuse-after": "0",
}
# The plugin of u1 looks at use, and u2 has two cards of 14 units.
NODES = (NodeSpec("u1", "t4x1", plugin_options=_METRICS | _USAGE), NodeSpec("u2", "t4x2", plugin_options=_METRICS))
# The simulated driver answers without errors, no container is held, and kube-state-metrics is not there.
EMPTY = ("nvml_errors", "held_pod", "kube_node_status_condition")
# The node u2 has room for the last one, and no card of it has.
PODS = {"greedy": ("u1", 1), "unseen": ("u2", 1), "too-large": ("u2", 20)}


def pod(name: str, node: str, units: int) -> dict[str, Any]:
    """The demo's player, which holds 1253 MiB."""
    limits = {"aliyun.com/gpu-mem": units}
    spec = {"containers": [{"name": "c", "image": "cheyang/gpu-player:v2", "resources": {"limits": limits}}]}
    placed = {**spec, "nodeSelector": {"kubernetes.io/hostname": node}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": placed}


@pytest.fixture
async def scraped() -> AsyncIterator[tuple[Cluster, str]]:
    """A cluster, and the address of its extender's metrics."""
    address = f"{HOST}:{free_port()}"
    target = load_target("gpushare")
    extender = target.extender.with_options({"metrics-address": address})
    target = msgspec.structs.replace(target, extender_or_none=extender)
    nodes = [target.spelt(node) for node in NODES]
    cluster = make_cluster("embedded", nodes, target, Choices(dict(os.environ)))
    await cluster.start()
    yield cluster, address
    await cluster.stop()


@pytest.fixture
async def prometheus(scraped: tuple[Cluster, str], tmp_path: Path) -> AsyncIterator[Connection]:
    """It evaluates the alerts each second, without their patience, on the labels that a ServiceMonitor gives."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus: Debian has it in the package of that name")
    cluster, extender = scraped
    plugins = [{"targets": [address], "labels": {"node": node}} for node, address in plugin_addresses(cluster).items()]
    rules = [{**group, "rules": [{**rule, "for": "0s"} for rule in group["rules"]]} for group in RULES["groups"]]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": rules}))
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [
            {"job_name": "extender", "honor_labels": True, "static_configs": [{"targets": [extender]}]},
            {"job_name": "device-plugin", "honor_labels": True, "static_configs": plugins},
        ],
    }
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    url = f"http://{HOST}:{(port := free_port())}"
    argv = [
        program,
        f"--config.file={tmp_path / 'prometheus.yaml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={HOST}:{port}",
    ]
    process = Program("prometheus", argv, dict(os.environ), tmp_path / "prometheus.log")
    await process.launch(lambda: is_up(url, "/-/ready"))
    async with Connection(url) as connection:
        yield connection
    await process.stop()


def plugin_addresses(cluster: Cluster) -> dict[str, str]:
    """Where the plugin of each node has its metrics, by its log."""
    found = {}
    for node in (one.name for one in NODES):
        *_, line = [line for line in cluster.log("device_plugin", node).splitlines() if "metrics at address=" in line]
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        found[node] = f"{words['address']}:{words['port']}"
    return found


async def asked(prometheus: Connection, path: str) -> Any:
    """What its API answers."""
    return json.loads((await prometheus.request("GET", f"/api/v1/{path}")).text)["data"]


async def test_a_cluster_fills_the_dashboard_and_raises_its_alerts(
    scraped: tuple[Cluster, str], prometheus: Connection
) -> None:
    """A pod uses more than it booked, one is too large for every card, and a card falls sick."""
    cluster, _ = scraped
    for name, (node, units) in PODS.items():
        await cluster.api.create(pod(name, node, units), "default")
    await eventually(lambda: firing(prometheus), {"GpusharePodOveruses", "GpusharePodsWait"}.issubset, "both pods")
    await cluster.fake_nvml("u2", "xid", "0", "79")

    expected = {"GpusharePodOveruses", "GpusharePodsWait", "GpushareCardSick"}
    assert await eventually(lambda: firing(prometheus), expected.issubset, "the sick card") == expected
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            if not any(series in target["expr"] for series in EMPTY):
                path = f"query?query={quote(target['expr'])}"
                await eventually(lambda path=path: asked(prometheus, path), lambda data: data["result"], panel["title"])
    (over,) = (await asked(prometheus, "query?query=gpushare_pod_overuse_bytes"))["result"]
    assert (over["metric"]["pod"], int(float(over["value"][1]))) == ("greedy", (1253 - 1024) * 1024**2)
    health = {rule["health"] for group in (await asked(prometheus, "rules"))["groups"] for rule in group["rules"]}
    assert health == {"ok"}


async def firing(prometheus: Connection) -> set[str]:
    """The names of the alerts that fire."""
    return {one["labels"]["alertname"] for one in (await asked(prometheus, "alerts"))["alerts"]}
