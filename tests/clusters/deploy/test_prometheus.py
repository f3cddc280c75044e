"""A real Prometheus that scrapes a cluster: each fault there raises its alert and no other, and the dashboard has data."""

from __future__ import annotations

import json
import os
import shutil
import signal
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
from clusters.providers import Choices, make_cluster
from clusters.targets import load_target
from tests.clusters.deploy.injected_faults import ENDS, FAULTS, HOST, NODES, UNSEEN, FaultyCluster
from tests.clusters.deploy.reading import DASHBOARD, RULES

pytestmark = [
    pytest.mark.thorough("Prometheus scrapes a cluster of its own for two minutes"),
    pytest.mark.timeout(600),
]
# In quiet times an API server sends something once a minute, so a shorter silence is no fault.
_SILENCE = ("> 300", "> 75")
_SILENT_SECONDS = 120.0


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[FaultyCluster]:
    """A cluster with its extenders; nothing is wrong there yet."""
    if shutil.which("prometheus") is None:
        pytest.skip("no prometheus: Debian has it in the package of that name")
    address = f"{HOST}:{free_port()}"
    target = load_target("gpushare")
    extender = target.extender.with_options({"metrics-address": address})
    with_metrics = msgspec.structs.replace(target, extender_or_none=extender)
    nodes = [target.spelt(node) for node in NODES]
    cluster = make_cluster("embedded", nodes, with_metrics, Choices(dict(os.environ)))
    await cluster.start()
    try:
        async with FaultyCluster(cluster, target, tmp_path, address).opened() as it:
            yield it
    finally:
        await cluster.stop()


@pytest.fixture
async def prometheus(site: FaultyCluster, tmp_path: Path) -> AsyncIterator[Connection]:
    """It scrapes and evaluates each second, with the labels that a ServiceMonitor gives."""
    plugins = [{"targets": [address], "labels": {"node": node}} for node, address in site.plugin_addresses().items()]
    rules = tmp_path / "rules.yaml"
    rules.write_text("groups: []")
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [rules.name],
        "scrape_configs": [
            {"job_name": "extender", "honor_labels": True, "static_configs": [{"targets": site.addresses}]},
            {"job_name": "device-plugin", "honor_labels": True, "static_configs": plugins},
        ],
    }
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    url = f"http://{HOST}:{(port := free_port())}"
    argv = [
        "prometheus",
        f"--config.file={tmp_path / 'prometheus.yaml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={HOST}:{port}",
    ]
    process = Program("prometheus", argv, dict(os.environ), tmp_path / "prometheus.log")
    await process.launch(lambda: is_up(url, "/-/ready"))
    async with Connection(url) as connection:
        await eventually(lambda: shown(connection, "up == 1"), lambda up: len(up) == len(NODES) + 2, "it scrapes all")
        # Before, no extender would be there for it.
        rules.write_text(yaml.safe_dump({"groups": [hastened(group) for group in RULES["groups"]]}))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGHUP)
        yield connection
    await process.stop()


def hastened(group: dict[str, Any]) -> dict[str, Any]:
    """The rules with two seconds of patience in place of minutes, and a minute of silence in place of five."""
    rules = [{**rule, "expr": rule["expr"].replace(*_SILENCE)} for rule in group["rules"]]
    return {**group, "rules": [rule | ({"for": "2s"} if "for" in rule else {}) for rule in rules]}


async def asked(prometheus: Connection, path: str) -> Any:
    """What its API answers."""
    return json.loads((await prometheus.request("GET", f"/api/v1/{path}")).text)["data"]


async def shown(prometheus: Connection, expression: str) -> list[dict[str, Any]]:
    """The labels of the series of an expression that have a value now."""
    found = (await asked(prometheus, f"query?query={quote(expression)}"))["result"]
    return [one["metric"] for one in found]


async def fired(prometheus: Connection) -> set[str]:
    """The names of the alerts that have fired since it began."""
    return {one["alertname"] for one in await shown(prometheus, 'max_over_time(ALERTS{alertstate="firing"}[1h])')}


async def test_each_fault_raises_its_alert_and_fills_the_dashboard(site: FaultyCluster, prometheus: Connection) -> None:
    """Each of the rules but those of UNSEEN fires once, by a fault of its own, and no rule without its fault."""
    injected: set[str] = set()

    async def inject(faults: dict[str, Any]) -> None:
        for alert, fault in faults.items():
            assert await fired(prometheus) == injected
            await fault(site)
            injected.add(alert)
            await eventually(
                lambda: fired(prometheus), lambda seen, alert=alert: alert in seen, alert, seconds=_SILENT_SECONDS
            )

    await inject(FAULTS)
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            if not any(series in target["expr"] for _, series in UNSEEN.values()):
                await eventually(lambda target=target: shown(prometheus, target["expr"]), bool, panel["title"])
    await inject(ENDS)

    rules = {rule["alert"] for group in RULES["groups"] for rule in group["rules"]}
    assert await fired(prometheus) == injected == rules - UNSEEN.keys()
    health = {rule["health"] for group in (await asked(prometheus, "rules"))["groups"] for rule in group["rules"]}
    assert health == {"ok"}
