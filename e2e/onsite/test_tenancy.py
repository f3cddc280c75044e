"""Promises of e2e.onsite.tenancy on a cluster that runs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from clusters.api.api_client import MERGE_PATCH, ApiClient, Object
from clusters.api.connection import Connection
from clusters.api.resources import LEASES, NAMESPACES, PODS
from clusters.api.waiting import eventually, until
from clusters.provider import Cluster
from e2e.attacks.door import Call, Door
from e2e.builders import plain_container
from e2e.onsite import tenancy
from e2e.onsite.probe_pods import CONTAINER_SECURITY, POD_SECURITY
from e2e.onsite.tenancy import LEASE, Tenancy, TenancyError
from e2e.site.validation_namespace import KEEP, NAMESPACE, RUN_LABEL
from e2e.tenant import admitted, remove_namespace

# The labels of the administrator's namespace.
KEPT = {KEEP: "true"}


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def _soon(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> AsyncIterator[None]:
    """A killed run is recognised within a second, and no case leaves the namespace to the next."""
    monkeypatch.setattr(tenancy, "LEASE_SECONDS", 1.0)
    yield
    await remove_namespace(cluster.api, NAMESPACE)


class Entrance(NamedTuple):
    """A door, and an administrator's client that calls through it."""

    door: Door
    api: ApiClient


@pytest_asyncio.fixture(loop_scope="session")
async def entrance(cluster: Cluster) -> AsyncIterator[Entrance]:
    """To the cluster."""
    door = Door(Connection.from_kubeconfig(cluster.kubeconfig))
    await door.open()
    try:
        async with ApiClient(Connection(door.url)) as api:
            yield Entrance(door, api)
    finally:
        await door.close()


def run_of(api: ApiClient, name: str, lines: list[str] | None = None) -> Tenancy:
    """A run's tenancy; its lines are kept."""
    return Tenancy(api, name, (lines if lines is not None else []).append)


async def make_a_namespace(cluster: Cluster, labels: dict[str, str]) -> None:
    """Make the namespace with these labels."""
    metadata = {"name": NAMESPACE, "labels": labels}
    await cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


async def leave_a_lease(cluster: Cluster) -> None:
    """Leave the lease of a run that was killed."""
    spec = {"holderIdentity": "killed", "leaseDurationSeconds": 1, "renewTime": "2026-01-02T03:04:05.000000Z"}
    lease = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": LEASE}, "spec": spec}
    await cluster.api.create(lease, NAMESPACE)


async def leave_a_pod(cluster: Cluster, manifest: Object | None = None) -> None:
    """Create a pod beside any run; its namespace may be so new that its ServiceAccount is not there yet."""
    await admitted(cluster.api, manifest or a_pod("left"), NAMESPACE)


@contextlib.asynccontextmanager
async def a_held_up_pod(cluster: Cluster) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    """A pod that was left and does not go is there inside; the result waits until a run has deleted it."""
    pod = a_pod("held-up")
    pod["metadata"]["finalizers"] = ["tests.gpushare/held-up"]
    await leave_a_pod(cluster, pod)
    try:
        yield lambda: eventually(
            lambda: cluster.api.get(PODS, "held-up", NAMESPACE),
            lambda seen: "deletionTimestamp" in seen["metadata"],
            "the run deletes what was left",
            seconds=300,
        )
    finally:
        freed = {"metadata": {"finalizers": None}}
        await cluster.api.patch(PODS, "held-up", freed, NAMESPACE, content_type=MERGE_PATCH)


def a_pod(name: str) -> dict[str, Any]:
    """A pod for the administrator's namespace, which ends as soon as it is deleted."""
    container = {**plain_container("c0"), "securityContext": CONTAINER_SECURITY}
    spec = {"containers": [container], "securityContext": POD_SECURITY, "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def is_there(cluster: Cluster) -> bool:
    """Does the namespace exist?"""
    return await cluster.api.find(NAMESPACES, NAMESPACE) is not None


async def test_the_namespace_is_gone_after_the_run(cluster: Cluster) -> None:
    """The namespace has the run's label inside, and neither it nor its pods are there behind."""
    async with (run := run_of(cluster.api, "one")).held():
        namespace = await cluster.api.get(NAMESPACES, NAMESPACE)
        await run.create(a_pod("one"))

    assert namespace["metadata"]["labels"][RUN_LABEL] == "one"
    assert not await is_there(cluster)


async def test_a_second_run_is_refused_while_the_first_lives(cluster: Cluster) -> None:
    """A run which finds that another one renews its lease takes nothing, and names the other."""
    async with run_of(cluster.api, "one").held():
        with pytest.raises(TenancyError, match="run one validates this cluster now"):
            async with run_of(cluster.api, "two").held():
                pass

        assert (await cluster.api.get(NAMESPACES, NAMESPACE))["metadata"]["labels"][RUN_LABEL] == "one"


async def test_what_a_killed_run_left_is_removed_first(cluster: Cluster) -> None:
    """The next run waits until the lease is no longer renewed, and finds no pod in the namespace."""
    await make_a_namespace(cluster, {RUN_LABEL: "killed"})
    await leave_a_lease(cluster)
    await leave_a_pod(cluster)
    lines: list[str] = []
    async with run_of(cluster.api, "next", lines).held():
        assert await pods(cluster) == {}

    assert lines[-1] == "run killed was killed; removing what it left"
    assert not await is_there(cluster)


async def test_a_namespace_of_others_is_not_touched(cluster: Cluster) -> None:
    """A namespace of that name which no validation made stays with its pods, and the error says what to do."""
    await make_a_namespace(cluster, {})
    with pytest.raises(TenancyError, match="no validation made it; delete it, or label it"):
        async with run_of(cluster.api, "one").held():
            pass

    assert await is_there(cluster)


async def test_the_administrators_namespace_is_emptied_and_stays(cluster: Cluster) -> None:
    """A namespace with the label for keeping is emptied and used as it is, and has no pod and no lease behind."""
    await make_a_namespace(cluster, KEPT)
    await leave_a_pod(cluster)
    async with (run := run_of(cluster.api, "one")).held():
        assert await pods(cluster) == {}
        await run.create(a_pod("one"))

    assert await is_there(cluster)
    assert await pods(cluster) == {}
    assert await cluster.api.list(LEASES, NAMESPACE) == []


async def test_a_run_that_lost_its_lease_creates_nothing(cluster: Cluster) -> None:
    """A run whose lease another one has taken refuses to create pods."""
    run = run_of(cluster.api, "one")
    async with run.held():
        patch = {"spec": {"holderIdentity": "two"}}
        await cluster.api.patch(LEASES, LEASE, patch, NAMESPACE, content_type=MERGE_PATCH)
        # When its last renewal is old, at the latest.
        await asyncio.sleep(tenancy.LEASE_SECONDS)
        with pytest.raises(TenancyError, match="run two took the lease"):
            await run.create(a_pod("late"))

    assert await pods(cluster) == {}


@pytest.mark.parametrize("state", ["kept", "made"])
async def test_a_run_that_was_stopped_spares_the_next_run(cluster: Cluster, entrance: Entrance, state: str) -> None:
    """A run which cannot renew its lease until another has it deletes its own pods alone, and creates no more."""
    if state == "kept":
        await make_a_namespace(cluster, KEPT)
    stopped = run_of(entrance.api, "stopped")
    async with contextlib.AsyncExitStack() as stack:
        async with stopped.held():
            await stopped.create(a_pod("early"))
            await keep_from_renewing(entrance.door)
            next_run = run_of(cluster.api, "next")
            await stack.enter_async_context(next_run.held())
            await next_run.create(a_pod("theirs"))
            entrance.door.refuse = refusing()
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
        await leave_a_pod(cluster)
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


async def test_an_outage_does_not_end_a_run(cluster: Cluster, entrance: Entrance) -> None:
    """A run that could not renew its lease for longer than it lasts goes on if no other took it in between."""
    run = run_of(entrance.api, "one")
    async with run.held():
        await keep_from_renewing(entrance.door)
        await asyncio.sleep(2 * tenancy.LEASE_SECONDS)
        entrance.door.refuse = refusing()
        await run.create(a_pod("after"))

        assert set(await pods(cluster)) == {"after"}


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_pod_is_created_once_in_trouble(cluster: Cluster, entrance: Entrance, *, is_lost: bool) -> None:
    """If a creation is refused, the next attempt creates the pod; if its answer is lost, the first one did."""
    run = run_of(entrance.api, "one")
    async with run.held():
        strike = refusing("POST", code=429, times=2)

        async def lose(call: Call) -> bool:
            return bool(await strike(call))

        if is_lost:
            entrance.door.lose = lose
        else:
            entrance.door.refuse = strike
        pod = await run.create(a_pod("one"))

        assert await pods(cluster) == {"one": pod["metadata"]["uid"]}


@pytest.mark.parametrize("code", [429, 503])
async def test_trouble_while_a_run_cleans_up_leaves_nothing(cluster: Cluster, entrance: Entrance, code: int) -> None:
    """An API server that refuses deletions for a moment is asked again."""
    async with (run := run_of(entrance.api, "one")).held():
        await run.create(a_pod("one"))
        entrance.door.refuse = refusing("DELETE", code=code, times=3)

    assert not await is_there(cluster)


async def test_a_run_that_cannot_clean_up_names_the_command(
    cluster: Cluster, entrance: Entrance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If deletions are refused for good, the error has the command that removes what is left."""
    await make_a_namespace(cluster, KEPT)
    await leave_a_pod(cluster)
    monkeypatch.setattr(tenancy, "PATIENCE_SECONDS", 0.5)
    run = run_of(entrance.api, "one")
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(run.held())
        await run.create(a_pod("one"))
        entrance.door.refuse = refusing("DELETE")
        with pytest.raises(TenancyError) as caught:
            await stack.aclose()

    assert f"kubectl delete pods,leases --namespace {NAMESPACE} --selector {RUN_LABEL}=one" in str(caught.value)
    assert set(await pods(cluster)) == {"one"}


@pytest.mark.parametrize("created", ["namespaces", "leases"])
async def test_a_start_that_is_interrupted_leaves_nothing(cluster: Cluster, entrance: Entrance, created: str) -> None:
    """A run that is cancelled while its first objects are being created has none of them behind."""
    came, gone_on = asyncio.Event(), asyncio.Event()

    async def lose(call: Call) -> bool:
        if call.method == "POST" and call.path.endswith(f"/{created}"):
            came.set()
            await gone_on.wait()
        return False

    async def start() -> None:
        async with run_of(entrance.api, "one").held():
            raise AssertionError("it was cancelled before")

    entrance.door.lose = lose
    task = asyncio.create_task(start())
    await came.wait()
    task.cancel()
    await asyncio.sleep(0)
    gone_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not await is_there(cluster)


async def test_a_start_that_is_interrupted_later_leaves_nothing(cluster: Cluster) -> None:
    """A run that is cancelled while it waits for the pods of a killed run to end has no lease behind."""
    await make_a_namespace(cluster, KEPT)

    async def start() -> None:
        async with run_of(cluster.api, "one").held():
            raise AssertionError("it was cancelled before")

    async with a_held_up_pod(cluster) as is_deleted:
        task = asyncio.create_task(start())
        await is_deleted()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert await cluster.api.list(LEASES, NAMESPACE) == []


def refusing(*methods: str, code: int = 503, times: int | None = None) -> Callable[[Call], Awaitable[int]]:
    """A door's answer to calls of these methods, or to the first ones of them."""
    left = itertools.count() if times is None else iter(range(times))

    async def refuse(call: Call) -> int:
        return code if call.method in methods and next(left, None) is not None else 0

    return refuse


async def keep_from_renewing(door: Door) -> None:
    """Refuse all renewals, and wait until one was refused: the renewals that the door let in before have ended then."""
    before = len(door.calls)
    door.refuse = refusing("PATCH")
    await until(
        lambda: [call.method for call in door.calls[before:]], lambda came: "PATCH" in came, "a renewal was refused"
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
