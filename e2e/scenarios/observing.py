"""A cluster with device plugins that observe their nodes: their metrics for Prometheus, and their events on pods."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx2
import yaml
from prometheus_client.parser import text_string_to_metric_families

from clusters.provider import load_nodes
from clusters.providers import Choices, make_cluster
from clusters.resources import EVENTS
from clusters.targets import Target
from clusters.waiting import eventually
from e2e.observer import Observer, trust

_CLUSTERS: Final = Path(__file__).parents[2] / "clusters"
_NODES: Final = _CLUSTERS / "simulated" / "usage.yaml"
_DELETE_ROLE: Final = _CLUSTERS / "deploy" / "components" / "delete-unadmitted" / "rbac.yaml"
_NUMBERS = itertools.count(1)


class ObservedNamespace:
    """A case's namespace on it."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self._http = httpx2.AsyncClient(timeout=30, trust_env=False, verify=trust())

    async def close(self) -> None:
        """Also deletes the namespace's pods."""
        await self._http.aclose()
        await self.observer.close()

    async def values(self, node: str, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """One series of a node's plugin, read as Prometheus does: these labels to value."""
        log = self.observer.cluster.log("device_plugin", node)
        port = re.findall(r"metrics at address=127\.0\.0\.1 port=(\d+)", log)[-1]
        text = (await self._http.get(f"http://127.0.0.1:{port}/metrics")).text
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return {tuple(one.labels[label] for label in labels): one.value for one in samples if one.name == name}

    async def events(self, pod: str, reason: str) -> list[str]:
        """The events about a pod, and any other pod of that name."""
        selector = f"involvedObject.name={pod}"
        found = await self.observer.cluster.api.list(EVENTS, self.observer.namespace, field_selector=selector)
        return [str(event["message"]) for event in found if event.get("reason") == reason]

    async def event_text(self, pod: str, reason: str) -> str:
        """Wait for an event; its text."""
        found = await eventually(lambda: self.events(pod, reason), bool, f"an event {reason} on {pod}")
        return found[0]


@contextlib.asynccontextmanager
async def open_observed(provider: str, target: Target, choices: Choices) -> AsyncIterator[ObservedNamespace]:
    """Node u1 looks at use and deletes stuck pods, node u2 does neither."""
    cluster = make_cluster(provider, load_nodes(_NODES), target, choices)
    await cluster.start()
    try:
        for manifest in yaml.safe_load_all(_DELETE_ROLE.read_text()):
            await cluster.api.create(manifest)
        namespace = f"observed-{next(_NUMBERS)}"
        await cluster.api.ensure_namespace(namespace)
        observer = Observer(cluster, namespace)
        await eventually(observer.accounts, lambda names: "default" in names, f"{namespace} has its ServiceAccount")
        observed = ObservedNamespace(observer)
        try:
            yield observed
        finally:
            await observed.close()
    finally:
        await cluster.stop()


def replica_set(name: str, template: dict[str, Any]) -> dict[str, Any]:
    """A ReplicaSet of one such pod."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }
