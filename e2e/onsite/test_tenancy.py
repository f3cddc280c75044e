"""Promises of e2e.onsite.tenancy on a cluster that runs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from clusters.api.api_client import ApiClient, ApiError, Object
from clusters.api.connection import Connection
from clusters.api.resources import LEASES, NAMESPACES, PODS, PRIORITY_CLASSES
from clusters.api.waiting import until
from clusters.provider import Cluster
from e2e.attacks.api_proxy import ApiProxy, Call
from e2e.builders import gpu_pod, plain_container
from e2e.onsite import tenancy
from e2e.onsite.probe_pods import CONTAINER_SECURITY, POD_SECURITY
from e2e.onsite.tenancy import (
    KEEP,
    LEASE,
    NAMESPACE,
    PRIORITY_CLASS,
    RUN_LABEL,
    Tenancy,
    TenancyError,
    manifest_of_class,
)
from e2e.tenant import admitted, remove_namespace

# The labels of the administrator's namespace.
KEPT = {KEEP: "true"}


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def _soon(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> AsyncIterator[None]:
    """A killed run is recognised within a second, and no case leaves the namespace or the class to the next."""
    monkeypatch.setattr(tenancy, "LEASE_SECONDS", 1.0)
    yield
    with contextlib.suppress(ApiError):
        await cluster.api.delete(PRIORITY_CLASSES, PRIORITY_CLASS)
    await remove_namespace(cluster.api, NAMESPACE)


class ProxiedClient(NamedTuple):
    """A proxy, and an administrator's client that calls through it."""

    proxy: ApiProxy
    api: ApiClient


@pytest_asyncio.fixture(loop_scope="session")
async def proxied(cluster: Cluster) -> AsyncIterator[ProxiedClient]:
    """To the cluster."""
    far = Connection.from_kubeconfig(cluster.kubeconfig)
    async with ApiProxy(far) as proxy, ApiClient(Connection(proxy.url)) as api:
        yield ProxiedClient(proxy, api)


def run_of(api: ApiClient, name: str) -> Tenancy:
    """A run's tenancy."""
    return Tenancy(api, name, lambda line: None)


async def make_a_namespace(cluster: Cluster, labels: dict[str, str]) -> None:
    """Make the namespace with these labels."""
    metadata = {"name": NAMESPACE, "labels": labels}
    await cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


async def leave_a_lease(cluster: Cluster) -> None:
    """Leave the lease of a run that was killed."""
    spec = {"holderIdentity": "killed", "leaseDurationSeconds": 1, "renewTime": "2026-01-02T03:04:05.000000Z"}
    lease = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": LEASE}, "spec": spec}
    await cluster.api.create(lease, NAMESPACE)


def a_pod(name: str) -> dict[str, Any]:
    """A pod for the administrator's namespace, which ends as soon as it is deleted."""
    container = {**plain_container("c0"), "securityContext": CONTAINER_SECURITY}
    spec = {"containers": [container], "securityContext": POD_SECURITY, "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def is_there(cluster: Cluster) -> bool:
    """Does the namespace exist?"""
    return await cluster.api.find(NAMESPACES, NAMESPACE) is not None


async def test_a_namespace_of_others_is_not_touched(cluster: Cluster) -> None:
    """A namespace of that name which no validation made stays with its pods, and the error says what to do."""
    await make_a_namespace(cluster, {})
    with pytest.raises(TenancyError, match="no validation made it; delete it, or label it"):
        async with run_of(cluster.api, "one").held():
            pass

    assert await is_there(cluster)


@pytest.mark.parametrize("state", ["kept", "made"])
async def test_a_run_that_was_stopped_spares_the_next_run(cluster: Cluster, proxied: ProxiedClient, state: str) -> None:
    """A run which cannot renew its lease until another has it deletes its own pods alone, and creates no more.

    If no other run has come in between, it goes on.
    """
    if state == "kept":
        await make_a_namespace(cluster, KEPT)
    stopped = run_of(proxied.api, "stopped")
    async with contextlib.AsyncExitStack() as stack:
        async with stopped.held():
            await keep_from_renewing(proxied.proxy)
            await asyncio.sleep(2 * tenancy.LEASE_SECONDS)
            proxied.proxy.refuse = refusing()
            await stopped.create(a_pod("early"))
            await keep_from_renewing(proxied.proxy)
            next_run = run_of(cluster.api, "next")
            await stack.enter_async_context(next_run.held())
            await next_run.create(a_pod("theirs"))
            proxied.proxy.refuse = refusing()
            with pytest.raises(TenancyError, match="run next took the lease"):
                await stopped.create(a_pod("late"))
            before = await everything(cluster)

        assert await everything(cluster) == before
        assert set(await pods(cluster)) == {"theirs"}
        await next_run.check()
    assert await pods(cluster) == {}
    assert await is_there(cluster) is (state == "kept")


@pytest.mark.parametrize("state", ["none", "made", "kept", "kept and held by a killed run", "made by a killed run"])
async def test_of_runs_that_start_together_one_holds(cluster: Cluster, state: str) -> None:
    """One of several starters holds the namespace, whatever was there, and the others are refused and disturb nothing."""
    if "kept" in state:
        await make_a_namespace(cluster, KEPT)
    elif "made" in state:
        await make_a_namespace(cluster, {RUN_LABEL: "killed"})
    if "killed" in state:
        await leave_a_lease(cluster)
        await admitted(cluster.api, a_pod("left"), NAMESPACE)
    starters, refused = "abcd", asyncio.Event()
    held: list[str] = []
    reasons: list[str] = []

    async def start(name: str) -> None:
        run = run_of(cluster.api, name)
        try:
            async with run.held():
                held.append(name)
                await run.create(a_pod(name))
                await refused.wait()
                await run.check()
                namespace = await cluster.api.get(NAMESPACES, NAMESPACE)
                assert namespace["metadata"]["labels"].get(RUN_LABEL) == (None if "kept" in state else name)
                assert set(await pods(cluster)) == {name}
        except TenancyError as error:
            reasons.append(str(error))
        if len(reasons) == len(starters) - 1:
            refused.set()

    async with asyncio.timeout(60):
        await asyncio.gather(*map(start, starters))

    assert len(held) == 1
    assert set(reasons) == {f"run {held[0]} validates this cluster now; two runs would disturb each other"}
    assert await pods(cluster) == {}
    assert await is_there(cluster) is ("kept" in state)
    assert "kept" not in state or await cluster.api.list(LEASES, NAMESPACE) == []


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_pod_is_created_once_in_trouble(cluster: Cluster, proxied: ProxiedClient, *, is_lost: bool) -> None:
    """If a creation is refused, the next attempt creates the pod; if its answer is lost, the first one did.

    A deletion that is refused for a moment is asked for again.
    """
    run = run_of(proxied.api, "one")
    async with run.held():
        strike = refusing("POST", code=429, times=2)

        async def lose(call: Call) -> bool:
            return bool(await strike(call))

        if is_lost:
            proxied.proxy.lose = lose
        else:
            proxied.proxy.refuse = strike
        pod = await run.create(a_pod("one"))

        assert await pods(cluster) == {"one": pod["metadata"]["uid"]}
        proxied.proxy.refuse = refusing("DELETE", times=3)

    assert not await is_there(cluster)


def a_class(*labels: str, **changes: Any) -> Object:
    """The class with labels of an administrator (``KEEP``), or of a run that was killed."""
    manifest = manifest_of_class() | changes
    manifest["metadata"]["labels"] = dict.fromkeys(labels, "killed")
    return manifest


async def the_class(cluster: Cluster) -> Object | None:
    """The class, None if it is not there."""
    return await cluster.api.find(PRIORITY_CLASSES, PRIORITY_CLASS)


@pytest.mark.parametrize(
    ("before", "stays"),
    [
        (None, False),
        (a_class(RUN_LABEL, preemptionPolicy="PreemptLowerPriority"), False),
        (a_class(KEEP), True),
        # The file of rights, applied over the class that a killed run left.
        (a_class(KEEP, RUN_LABEL), True),
    ],
)
async def test_pods_of_a_validation_evict_no_pod(cluster: Cluster, before: Object | None, *, stays: bool) -> None:
    """Their class is the administrator's, as it is, or the run's, in place of what a killed run left, and goes with the run."""
    if before is not None:
        await cluster.api.create(before)
    seen = await the_class(cluster)
    pod = gpu_pod("p", 1)
    pod["spec"]["priorityClassName"] = PRIORITY_CLASS
    async with run_of(cluster.api, "one").held():
        made = await admitted(cluster.api, pod, "default", dry_run=True)

    assert made["spec"]["priority"] < 0
    assert made["spec"]["preemptionPolicy"] == "Never"
    assert await the_class(cluster) == (seen if stays else None)


async def test_a_class_that_evicts_is_refused(cluster: Cluster) -> None:
    """A class of that name that lets pods evict others is not used, and stays."""
    await cluster.api.create(a_class(KEEP, preemptionPolicy="PreemptLowerPriority"))
    with pytest.raises(TenancyError, match="lets pods evict others"):
        async with run_of(cluster.api, "one").held():
            pass

    assert await the_class(cluster) is not None


def refusing(*methods: str, code: int = 503, times: int | None = None) -> Callable[[Call], Awaitable[int]]:
    """A proxy's answer to calls of these methods, or to the first ones of them."""
    left = itertools.count() if times is None else iter(range(times))

    async def refuse(call: Call) -> int:
        return code if call.method in methods and next(left, None) is not None else 0

    return refuse


async def keep_from_renewing(proxy: ApiProxy) -> None:
    """Refuse all renewals, and wait until one was refused: the renewals that the proxy let in before have ended then."""
    before = len(proxy.calls)
    proxy.refuse = refusing("PATCH")
    await until(
        lambda: [call.method for call in proxy.calls[before:]], lambda came: "PATCH" in came, "a renewal was refused"
    )


async def everything(cluster: Cluster) -> set[tuple[str, str]]:
    """The uid of the namespace, of the lease, and of the pods of the next run."""
    return {
        ("namespace", (await cluster.api.get(NAMESPACES, NAMESPACE))["metadata"]["uid"]),
        ("lease", (await cluster.api.get(LEASES, LEASE, NAMESPACE))["metadata"]["uid"]),
        ("pod", (await pods(cluster))["theirs"]),
    }


async def pods(cluster: Cluster) -> dict[str, str]:
    """The names of the pods in the namespace, and their uids."""
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in await cluster.api.list(PODS, NAMESPACE)}
