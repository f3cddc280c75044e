"""The answer of ``simulate`` for a pod is what happens when the pods are created, on random clusters."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest

from clusters.api.resources import PODS
from clusters.api.waiting import eventually
from clusters.provider import Cluster
from e2e import spec
from e2e.explain.conftest import Ask, laid_out
from e2e.explain.random_clusters import named, of_size, random_cluster
from e2e.observer import Observer, observing
from e2e.report.sources import commit_number

pytestmark = pytest.mark.stand_in_only("nodes are objects without a kubelet")

# More than any of these clusters has room for.
_MANY: Final = 300


async def is_bound_or_refused(observer: Observer, names: set[str]) -> dict[str, str]:
    """Wait until each of these pods is bound or was refused; the nodes of those that are bound."""

    def all_decided(pods: list[dict[str, Any]]) -> bool:
        ours = [pod for pod in pods if pod["metadata"]["name"] in names]
        return len(ours) == len(names) and all(pod["spec"].get("nodeName") or _is_refused(pod) for pod in ours)

    pods = await eventually(observer.pods, all_decided, f"{len(names)} pods are bound or refused", seconds=300)
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in pods
        if pod["metadata"]["name"] in names and pod["spec"].get("nodeName")
    }


def _is_refused(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)


async def largest_is_right(observer: Observer, asked: dict[str, Any], model: dict[str, Any]) -> None:
    """A pod of the largest size is bound, and one that is a unit larger is not."""
    for units, name in ((model["largest"], "largest"), (model["largest"] + 1, "larger")):
        if units >= len(asked["spec"]["containers"]):
            await observer.create(of_size(asked, name, units, model["model"]))
            bound = await is_bound_or_refused(observer, {name})
            assert set(bound) == ({name} if name == "largest" else set()), f"{units} units of {model}"
            await observer.cluster.api.delete(PODS, name, observer.namespace, grace_seconds=0)
            await observer.are_gone(name)


async def check(cluster: Cluster, ask: Ask, write: Callable[[dict[str, Any]], str], seed: int) -> None:
    """One random cluster."""
    what = random_cluster(seed)
    async with observing(cluster, f"simulate-{seed}") as observer, laid_out(observer, what.nodes, what.bound):
        words = ("-f", write(what.asked), "-n", observer.namespace)
        (foretold,) = (await ask("simulate", *words, f"--replicas={_MANY}"))["workloads"]
        places = Counter({one["node"]: 0 for one in foretold["placements"]})
        for one in foretold["placements"]:
            places[one["node"]] += one["pods"]
        assert foretold["placed"] == foretold["fits"] == sum(one["fits"] for one in foretold["models"])
        if foretold["models"] and not what.asked["metadata"]["annotations"].get(spec.WISH_SPLIT):
            await largest_is_right(observer, what.asked, random.Random(seed).choice(foretold["models"]))
        names = {f"asked-{at}" for at in range(foretold["fits"] + 1)}
        await observer.create(*(named(what.asked, name) for name in sorted(names)))
        bound = await is_bound_or_refused(observer, names)

        assert Counter(bound.values()) == places, f"foretold: {dict(places)}"
        (waits,) = names - set(bound)
        explained = await ask("explain", waits, "-n", observer.namespace)
        assert explained["fits"] == []
        assert explained["causes"]
        assert "has-room" not in {cause["kind"] for cause in explained["causes"]}


async def test_what_is_foretold_is_what_happens(
    bare: Cluster, ask: Ask, manifest: Callable[[dict[str, Any]], str], request: pytest.FixtureRequest
) -> None:
    """As many pods are bound, on the same nodes; the largest pod fits and a larger one does not; the last pod is explained."""
    for number in range(request.config.getoption("--random-clusters")):
        seed = commit_number() * 1000 + number
        try:
            async with asyncio.timeout(400):
                await check(bare, ask, manifest, seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
