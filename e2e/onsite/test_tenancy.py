"""Promises of e2e.onsite.tenancy on a cluster that runs."""

from __future__ import annotations

import asyncio
import contextlib
import operator
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from clusters.api.api_client import ApiError
from clusters.api.resources import LEASES, NAMESPACES, PODS
from clusters.api.waiting import eventually
from clusters.provider import Cluster
from e2e.builders import plain_container
from e2e.onsite import tenancy
from e2e.onsite.tenancy import Tenancy, TenancyError
from e2e.site.validation_namespace import KEEP, NAMESPACE, RUN_LABEL


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def _soon(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> AsyncIterator[None]:
    """A killed run is recognised within a second, and no case leaves the namespace to the next."""
    monkeypatch.setattr(tenancy, "LEASE_SECONDS", 1.0)
    yield
    with contextlib.suppress(ApiError):
        await cluster.api.delete(NAMESPACES, NAMESPACE)
    await eventually(lambda: is_there(cluster), operator.not_, "the namespace is gone")


def run_of(cluster: Cluster, name: str, lines: list[str] | None = None) -> Tenancy:
    """A run's tenancy; its lines are kept."""
    return Tenancy(cluster.api, name, (lines if lines is not None else []).append)


async def is_there(cluster: Cluster) -> bool:
    """Does the namespace exist?"""
    return NAMESPACE in [one["metadata"]["name"] for one in await cluster.api.list(NAMESPACES)]


async def test_the_namespace_is_gone_after_the_run(cluster: Cluster) -> None:
    """The namespace has the run's label inside, and neither it nor its pods are there behind."""
    async with run_of(cluster, "one").held():
        namespace = await cluster.api.get(NAMESPACES, NAMESPACE)
        await leave_a_pod(cluster)

    assert namespace["metadata"]["labels"][RUN_LABEL] == "one"
    assert not await is_there(cluster)


async def test_a_second_run_is_refused_while_the_first_lives(cluster: Cluster) -> None:
    """A run which finds that another one renews its lease takes nothing, and names the other."""
    async with run_of(cluster, "one").held():
        with pytest.raises(TenancyError, match="run one validates this cluster now"):
            async with run_of(cluster, "two").held():
                pass

        assert (await cluster.api.get(NAMESPACES, NAMESPACE))["metadata"]["labels"][RUN_LABEL] == "one"


async def test_what_a_killed_run_left_is_removed_first(cluster: Cluster) -> None:
    """The next run waits until the lease is no longer renewed, and finds an empty namespace."""
    labels = {RUN_LABEL: "killed"}
    await cluster.api.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
    )
    spec = {"holderIdentity": "killed", "leaseDurationSeconds": 1, "renewTime": "2026-01-02T03:04:05.000000Z"}
    lease = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": "run"}, "spec": spec}
    await cluster.api.create(lease, NAMESPACE)
    await leave_a_pod(cluster)
    lines: list[str] = []
    async with run_of(cluster, "next", lines).held():
        assert await cluster.api.list(PODS, NAMESPACE) == []

    assert lines[-1] == "run killed was killed; removing what it left"
    assert not await is_there(cluster)


async def test_a_namespace_of_others_is_not_touched(cluster: Cluster) -> None:
    """A namespace of that name which no validation made stays with its pods, and the error says what to do."""
    await cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    with pytest.raises(TenancyError, match="no validation made it; delete it, or label it"):
        async with run_of(cluster, "one").held():
            pass

    assert await is_there(cluster)


async def test_the_administrators_namespace_is_emptied_and_stays(cluster: Cluster) -> None:
    """A namespace with the label for keeping is used as it is, and has no pod of the run behind."""
    metadata = {"name": NAMESPACE, "labels": {KEEP: "true"}}
    await cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    async with run_of(cluster, "one").held():
        await leave_a_pod(cluster)

    assert await is_there(cluster)
    assert await cluster.api.list(PODS, NAMESPACE) == []


async def test_a_run_that_lost_its_lease_creates_nothing(cluster: Cluster) -> None:
    """A run whose lease another one has taken refuses to create pods."""
    run = run_of(cluster, "one")
    async with run.held():
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/run"
        patch = {"spec": {"holderIdentity": "two"}}
        await cluster.api.request("PATCH", path, body=patch, content_type="application/merge-patch+json")
        async with asyncio.timeout(60):
            while True:
                try:
                    run.check()
                except TenancyError as error:
                    assert "run two took the lease" in str(error)  # noqa: PT017  # the loop ends by it
                    break
                await asyncio.sleep(0.05)


async def leave_a_pod(cluster: Cluster) -> None:
    """A pod as a run creates them; its namespace may be so new that its ServiceAccount is not there yet."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "left"},
        "spec": {"containers": [plain_container("c0")], "terminationGracePeriodSeconds": 0},
    }
    async with asyncio.timeout(60):
        while True:
            try:
                await cluster.api.create(manifest, NAMESPACE)
            except ApiError as error:
                if error.code != 403:
                    raise
                await asyncio.sleep(0.05)
            else:
                return
