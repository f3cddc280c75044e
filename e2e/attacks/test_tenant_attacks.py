"""A tenant with rights in one namespace does not delay the start of another tenant's pod: the work for it is bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Final

import pytest
import pytest_asyncio

from clusters.api.waiting import NotReachedError
from clusters.providers import Choices
from clusters.targets import Target
from e2e.attacks.attacked_cluster import GUARD_SECONDS, AttackedCluster, Observed, open_stage
from e2e.attacks.attacks import (
    Attack,
    Tenant,
    ended_pods_of_many_bytes,
    ended_pods_of_many_cards,
    long_wishes,
    open_tenant,
    rewritten_cards,
    unread_log,
)
from e2e.builders import gpu_pod
from e2e.observer import Observer

pytestmark = [
    pytest.mark.needs("policies"),
    pytest.mark.stand_in_only("programs in pods reach the API server past the proxy at which calls are counted"),
]
EACH: Final = (rewritten_cards, ended_pods_of_many_bytes, ended_pods_of_many_cards, unread_log, long_wishes)
# The bounds of each program between the creation of a pod and its start: calls to the API server, and bytes of the answers.
# Watches do not count: each of their events is a write that its author has made. Writes to the attacker's own pods do not count
# either: `rewritten_cards` has a bound of its own for them, and a slow machine fits more of them between creation and start.
# A quiet start takes 3 calls and 20 kB.
MOST_CALLS: Final = 20
MOST_BYTES: Final = 2_000_000


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stage(
    request: pytest.FixtureRequest, target: Target, choices: Choices, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[AttackedCluster]:
    """A cluster for all attacks, one after the other."""
    kind, folder = request.config.getoption("--cluster"), tmp_path_factory.mktemp("attacks")
    async with open_stage(kind, target, choices, folder) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def victim(stage: AttackedCluster) -> AsyncIterator[Observer]:
    """The namespace of the other tenant."""
    async with stage.namespace("victim") as observer:
        yield observer


@pytest.mark.parametrize("attacks", [(), EACH], ids=["none", "all"])
async def test_a_pod_starts_with_bounded_work(
    stage: AttackedCluster, victim: Observer, attacks: tuple[Attack, ...]
) -> None:
    """Whatever a tenant of another namespace does, a pod starts after a bounded number of calls, writes and bytes."""
    findings: list[str] = []
    async with open_tenant(stage) as tenant, AsyncExitStack() as stack:
        for attack in attacks:
            await stack.enter_async_context(attack(stage, tenant, findings))
        findings += await work_of_a_start(stage, victim, tenant)
    assert not findings, "\n".join(findings)


async def work_of_a_start(stage: AttackedCluster, victim: Observer, tenant: Tenant) -> list[str]:
    """Create a pod and wait until it runs; the bounds that were exceeded."""
    before = {program: len(program.proxy.calls) for program in (stage.extender, stage.plugin)}
    await victim.create(gpu_pod("victim", 1))
    try:
        await victim.running("victim", seconds=GUARD_SECONDS)
    except NotReachedError:
        return [f"the other tenant's pod does not start within {GUARD_SECONDS:.0f} s"]
    await victim.check_right_cards("victim")
    return [finding for program, count in before.items() for finding in too_much(program, count, tenant)]


def too_much(program: Observed, before: int, tenant: Tenant) -> list[str]:
    """The bounds that a program's calls exceed, without the ``before`` first of them and writes to the tenant's own objects."""
    calls = [call for call in program.proxy.calls[before:] if not call.is_watch and not tenant.is_write_to_own(call)]
    made, read = len(calls), sum(call.received for call in calls)
    kinds = dict(Counter(f"{call.method} {call.path}" for call in calls))
    findings = [f"the {program.name} made {made} calls, at most {MOST_CALLS}: {kinds}"] if made > MOST_CALLS else []
    too_large = f"the {program.name} read {read} bytes, at most {MOST_BYTES}: {kinds}"
    return findings + ([too_large] if read > MOST_BYTES else [])
