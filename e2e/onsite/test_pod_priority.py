"""Promises of e2e.onsite.pod_priority on a cluster that runs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from clusters.api.api_client import ApiClient, ApiError, Object
from clusters.api.resources import PRIORITY_CLASSES
from clusters.provider import Cluster
from e2e.builders import gpu_pod
from e2e.onsite.pod_priority import low_priority, manifest_of_class
from e2e.onsite.tenancy import TenancyError
from e2e.site.validation_namespace import PRIORITY_CLASS, RUN_LABEL
from e2e.tenant import admitted

_TODO = "kubectl apply -f e2e/onsite/validate-rbac.yaml"


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def _without_class(cluster: Cluster) -> AsyncIterator[None]:
    """No case leaves the class to the next, nor finds that of another."""
    await remove(cluster)
    yield
    await remove(cluster)


async def is_held() -> None:
    """No other run is there."""


async def remove(cluster: Cluster) -> None:
    """Delete the class if it is there."""
    with contextlib.suppress(ApiError):
        await cluster.api.delete(PRIORITY_CLASSES, PRIORITY_CLASS)


async def found(cluster: Cluster) -> Object | None:
    """The class, None if it is not there."""
    return await cluster.api.find(PRIORITY_CLASSES, PRIORITY_CLASS)


def labelled(**changes: Any) -> Object:
    """The class that a run made which was killed."""
    manifest = manifest_of_class() | changes
    manifest["metadata"]["labels"] = {RUN_LABEL: "killed"}
    return manifest


async def test_pods_of_a_validation_evict_no_pod(cluster: Cluster) -> None:
    """A pod of the class has a priority below that of pods without a class, and no scheduler evicts another for it."""
    pod = gpu_pod("p", 1)
    pod["spec"]["priorityClassName"] = PRIORITY_CLASS
    async with low_priority(cluster.api, "one", is_held):
        made = await admitted(cluster.api, pod, "default", dry_run=True)

    assert made["spec"]["priority"] < 0
    assert made["spec"]["preemptionPolicy"] == "Never"


async def test_the_class_is_gone_after_the_run(cluster: Cluster) -> None:
    """A run that may make the class does, with its label, and removes it."""
    async with low_priority(cluster.api, "one", is_held):
        inside = await found(cluster)

    assert inside is not None
    assert inside["metadata"]["labels"] == {RUN_LABEL: "one"}
    assert await found(cluster) is None


async def test_the_class_of_an_administrator_stays(cluster: Cluster) -> None:
    """The class of validate-rbac.yaml is used as it is."""
    await cluster.api.create(manifest_of_class())
    before = await found(cluster)
    async with low_priority(cluster.api, "one", is_held):
        pass

    assert await found(cluster) == before


async def test_the_class_of_a_killed_run_goes_with_the_next(cluster: Cluster) -> None:
    """A class with a run's label is replaced, whatever it was like."""
    await cluster.api.create(labelled(preemptionPolicy="PreemptLowerPriority"))
    async with low_priority(cluster.api, "next", is_held):
        inside = await found(cluster)

    assert inside is not None
    assert (inside["metadata"]["labels"], inside["preemptionPolicy"]) == ({RUN_LABEL: "next"}, "Never")
    assert await found(cluster) is None


async def test_a_class_that_was_applied_over_a_runs_stays(cluster: Cluster) -> None:
    """Applying the file adds its label to the class that a killed run left, which is the administrator's from then on."""
    manifest = manifest_of_class()
    manifest["metadata"]["labels"] |= {RUN_LABEL: "killed"}
    await cluster.api.create(manifest)
    before = await found(cluster)
    async with low_priority(cluster.api, "one", is_held):
        pass

    assert await found(cluster) == before


async def test_a_run_leaves_the_class_of_another(cluster: Cluster) -> None:
    """A run that finds another class in place of its own in the end does not delete it."""
    async with low_priority(cluster.api, "one", is_held):
        await remove(cluster)
        await cluster.api.create(labelled())

    assert await found(cluster) is not None


async def test_a_class_that_evicts_is_refused(cluster: Cluster) -> None:
    """A class of that name that lets pods evict others is not used, and stays."""
    await cluster.api.create(manifest_of_class() | {"preemptionPolicy": "PreemptLowerPriority"})
    with pytest.raises(TenancyError, match="lets pods evict others"):
        async with low_priority(cluster.api, "one", is_held):
            pass

    assert await found(cluster) is not None


async def test_an_account_without_the_right_is_refused(cluster: Cluster) -> None:
    """An account that may not read the class is referred to the file that has the right."""
    kubeconfig = await cluster.kubeconfig_of("kube-system/default")
    async with ApiClient.from_kubeconfig(kubeconfig) as api:
        with pytest.raises(TenancyError, match=rf"cannot be read: .*; {_TODO}"):
            async with low_priority(api, "one", is_held):
                pass
