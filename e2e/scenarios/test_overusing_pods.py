"""A pod that uses more than it booked: all that show it agree, and with eviction on it goes if a controller replaces it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from clusters.api.api_client import Object
from clusters.api.resources import NODES, REPLICA_SETS
from clusters.api.waiting import eventually
from e2e import spec
from e2e.builders import DEMO, controller, gpu_pod
from e2e.scenarios.conftest import ObservedNamespace

pytestmark = [
    pytest.mark.needs("usage"),
    pytest.mark.stand_in_only("the metrics of a plugin in a pod are not on this machine's loopback"),
]

MIB: Final = 1024 * 1024
_MONITORING: Final = Path(__file__).parents[2] / "clusters" / "deploy" / "components" / "monitoring"


def panels() -> list[str]:
    """The expressions of the shipped dashboard."""
    dashboard = yaml.safe_load((_MONITORING / "dashboard.yaml").read_text())
    shown = json.loads(dashboard["data"]["gpushare.json"])["panels"]
    return [target["expr"] for panel in shown for target in panel["targets"]]


async def overusers_on_the_page(observed: ObservedNamespace, node: str) -> list[Any]:
    """As the page gets them, with card, namespace, name, booked and used MiB."""
    state = (await observed.observer.get(f"{observed.observer.cluster.extender_url()}/ui/state")).json()
    return [one for row in state["nodes"] if row[0] == node for one in row[5]]


async def test_four_places_show_the_same_overuse(observed: ObservedNamespace) -> None:
    """Event, metric, dashboard and the page name the pod, the card and both amounts; all end with it.

    A pod within its booking has no event, and a node that does not look at use shows bookings alone.
    """
    observer = observed.observer
    await observer.run(
        gpu_pod("greedy", observed.gib, node="u1", plays=DEMO),
        gpu_pod("modest", 2 * observed.gib, node="u1", plays=DEMO),
        gpu_pod("unseen", observed.gib, node="u2", plays=DEMO),
    )

    text = await observer.event_text("greedy", spec.EVENT_MEMORY_OVERUSE)
    assert text.startswith("uses 1253 MiB of card 0 and booked 1024 MiB;")
    labels = "namespace", "pod", "card"
    over = {(observer.namespace, "greedy", "0"): 229 * MIB}
    assert await observed.values("u1", "gpushare_pod_overuse_bytes", *labels) == over
    assert await observer.events("modest", spec.EVENT_MEMORY_OVERUSE) == []
    assert await observed.values("u2", "gpushare_pod_booked_bytes", "pod") == {("unseen",): 1024 * MIB}
    assert await observed.values("u2", "gpushare_pod_used_bytes", "pod") == {}
    # The panel shows the series as it is.
    assert "gpushare_pod_overuse_bytes" in panels()
    on_page = [[0, observer.namespace, "greedy", 1024, 1253]]
    await eventually(lambda: overusers_on_the_page(observed, "u1"), lambda seen: seen == on_page, "the page has it")

    await observer.delete("greedy", 0)
    await eventually(lambda: overusers_on_the_page(observed, "u1"), lambda seen: not seen, "it is gone from the page")
    assert await observed.values("u1", "gpushare_pod_overuse_bytes", *labels) == {}
    assert await observed.values("u1", "gpushare_overuse_episodes_total") == {(): 1}
    await eventually(
        lambda: observer.cluster.api.get(NODES, "u1"),
        lambda node: spec.NODE_OVERUSE not in node["metadata"]["annotations"],
        "the node names no pod any more",
    )


async def test_an_overuser_is_evicted_and_a_bare_one_stays(observed: ObservedNamespace) -> None:
    """A controller's pod is replaced, one that a PodDisruptionBudget protects stays, and so does a pod without a controller."""
    observer = observed.observer
    api = observer.cluster.api
    plays = gpu_pod("any", observed.gib, node="u3", plays=DEMO)["spec"]
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
    }  # fmt: skip
    bare = gpu_pod("bare", observed.gib, node="u3", plays=DEMO)
    await observer.create(budget, controller("ReplicaSet", "kept", plays, replicas=1), bare)

    async def of(app: str) -> list[Object]:
        return [pod for pod in await observer.pods() if (pod["metadata"].get("labels") or {}).get("app") == app]

    (kept,) = await eventually(lambda: of("kept"), bool, "the ReplicaSet makes its pod")
    stays = await observer.event_text(kept["metadata"]["name"], spec.EVENT_OVERUSER_STAYS)
    assert "a PodDisruptionBudget allows no eviction now" in stays

    # A refusal takes nothing of the one eviction a minute, which this pod would take for a minute.
    await observer.create(controller("ReplicaSet", "web", plays, replicas=1))
    (first,) = await eventually(lambda: of("web"), bool, "the other one, too")
    text = await observer.event_text(first["metadata"]["name"], spec.EVENT_OVERUSER_EVICTED)
    assert text.startswith("evicted: it used 1253 MiB of card 0 and booked 1024 MiB, for ")
    assert text.endswith("; ReplicaSet web replaces it")
    await eventually(
        lambda: of("web"),
        lambda pods: bool(pods) and first["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in pods},
        "it is gone and replaced",
    )
    reported = await observer.event_text("bare", spec.EVENT_MEMORY_OVERUSE)
    assert "; it is not evicted: no controller would replace it" in reported
    assert (await observer.pod("bare"))["status"]["phase"] == "Running"
    assert [pod["metadata"]["uid"] for pod in await of("kept")] == [kept["metadata"]["uid"]]
    outcomes = await observed.values("u3", "gpushare_overuse_evictions_total", "outcome")
    assert outcomes[("evicted",)] >= 1
    assert outcomes[("refused",)] >= 1
    for owner in ("web", "kept"):
        await api.delete(REPLICA_SETS, owner, observer.namespace)
