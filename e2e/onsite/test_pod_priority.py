"""Promises of e2e.onsite.tenancy about the PriorityClass, on a cluster that runs."""

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
from e2e.onsite.tenancy import TenancyError, manifest_of_class
from e2e.onsite.test_tenancy import run_of
from e2e.site.validation_namespace import NAMESPACE, PRIORITY_CLASS, RUN_LABEL
from e2e.tenant import admitted, granted, remove_namespace

_ALL_BUT_CLASSES = [{"apiGroups": ["", "coordination.k8s.io"], "resources": ["*"], "verbs": ["*"]}]


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def _without_class(cluster: Cluster) -> AsyncIterator[None]:
    """No case leaves the class and the namespace to the next, nor finds the class of another."""
    await remove(cluster)
    yield
    await remove(cluster)
    await remove_namespace(cluster.api, NAMESPACE)


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
    async with run_of(cluster.api, "one").held():
        made = await admitted(cluster.api, pod, "default", dry_run=True)

    assert made["spec"]["priority"] < 0
    assert made["spec"]["preemptionPolicy"] == "Never"


@pytest.mark.parametrize(
    "before", [None, labelled(preemptionPolicy="PreemptLowerPriority")], ids=["none", "a killed run's"]
)
async def test_the_class_is_gone_after_the_run(cluster: Cluster, before: Object | None) -> None:
    """A run that may make the class does, with its label, in place of what a killed run left, and removes it."""
    if before is not None:
        await cluster.api.create(before)
    async with run_of(cluster.api, "one").held():
        inside = await found(cluster)

    assert inside is not None
    assert (inside["metadata"]["labels"], inside["preemptionPolicy"]) == ({RUN_LABEL: "one"}, "Never")
    assert await found(cluster) is None


@pytest.mark.parametrize("label", [{}, {RUN_LABEL: "killed"}], ids=["made", "applied over a killed run's"])
async def test_the_class_of_an_administrator_stays(cluster: Cluster, label: dict[str, str]) -> None:
    """The class of validate-rbac.yaml is used as it is, also if its label was added to the class that a killed run left."""
    manifest = manifest_of_class()
    manifest["metadata"]["labels"] |= label
    await cluster.api.create(manifest)
    before = await found(cluster)
    async with run_of(cluster.api, "one").held():
        pass

    assert await found(cluster) == before


async def test_a_run_leaves_the_class_of_another(cluster: Cluster) -> None:
    """A run that finds another class in place of its own in the end does not delete it."""
    async with run_of(cluster.api, "one").held():
        await remove(cluster)
        await cluster.api.create(labelled())

    assert await found(cluster) is not None


async def test_a_class_that_evicts_is_refused(cluster: Cluster) -> None:
    """A class of that name that lets pods evict others is not used, and stays."""
    await cluster.api.create(manifest_of_class() | {"preemptionPolicy": "PreemptLowerPriority"})
    with pytest.raises(TenancyError, match="lets pods evict others"):
        async with run_of(cluster.api, "one").held():
            pass

    assert await found(cluster) is not None


async def test_an_account_without_the_right_is_refused(cluster: Cluster) -> None:
    """An account that may not read the class is referred to the file that has the right."""
    refusal = r"cannot be read: .*; kubectl apply -f e2e/onsite/validate-rbac.yaml"
    async with (
        granted(cluster.api, "default", "reads-no-class", _ALL_BUT_CLASSES, in_all_namespaces=True),
        ApiClient.from_kubeconfig(await cluster.kubeconfig_of("default/reads-no-class")) as api,
    ):
        with pytest.raises(TenancyError, match=refusal):
            async with run_of(api, "one").held():
                pass
