from __future__ import annotations

import asyncio

import pytest

from clusters.images.behaviour import Behaviour, Behaviours
from clusters.kubelet.kubelet_cards import Cards
from clusters.kubelet.pods import Container, Kind
from clusters.kubelet.runtime import Runtime


def container(image="app", **env) -> Container:
    return Container("main", image, Kind.APP, {}, (), ())


def runtime_of(*behaviours, cards=None) -> Runtime:
    return Runtime(Behaviours(behaviours), cards or Cards(), lambda: 1_700_000_000.0)


@pytest.mark.parametrize(
    ("stop_seconds", "grace", "code"), [(0, 30, 143), (0.02, 30, 143), (60, 0.02, 137)], ids=["obeys", "slow", "killed"]
)
async def test_container_ends_when_it_obeys_or_its_grace_is_over(stop_seconds, grace, code) -> None:
    """One that does not end in its grace period is killed with 137."""
    runtime = runtime_of(Behaviour(images=("app",), stop_seconds=stop_seconds))
    run = runtime.start("uid", container(), {})
    run.stop(grace)

    assert (await run.ended()).code == code
    assert [line.text for line in run.log] == ["asked to stop"] * bool(stop_seconds)


async def test_a_second_stop_makes_the_end_sooner_never_later() -> None:
    """The shortest grace period counts."""
    runtime = runtime_of(Behaviour(images=("app",), stop_seconds=600))
    run = runtime.start("uid", container(), {})
    run.stop(300)
    run.stop(0.01)
    run.stop(300)

    assert (await run.ended()).code == 137


async def test_container_that_ends_during_its_stop_has_its_own_code() -> None:
    """The code is not that of the signal."""
    runtime = runtime_of(Behaviour(images=("app",), exits_after=0.01, exit_code=5, stop_seconds=600))
    run = runtime.start("uid", container(), {})
    run.stop(300)

    assert (await run.ended()).code == 5


async def test_memory_is_held_by_a_pid_that_no_kernel_gives(state) -> None:
    """A simulated process cannot be mistaken for a real one."""
    runtime = runtime_of(Behaviour(images=("app",), holds_mib=100), cards=Cards(state))
    run = runtime.start("uid", container(), {"NVIDIA_VISIBLE_DEVICES": "0"})
    (process,) = state.cards()[0].processes
    runtime.kill_all()

    assert process.pid == run.pid > 2**22
    assert state.cards()[0].processes == ()
    assert (await run.ended()).code == 137


async def test_a_restart_counts_and_keeps_the_life_before() -> None:
    """The last two of several lives are kept."""
    runtime = runtime_of(Behaviour(images=("app",), exits_after=0, exit_code=1))
    for _ in range(4):
        await runtime.start("uid", container(), {}).ended()

    assert [run.attempt for run in runtime.runs("uid", "main")] == [2, 3]
    runtime.forget("uid")
    assert runtime.pods() == frozenset()


async def test_a_wrong_override_ends_the_container_with_the_reason() -> None:
    """It ends as one that could not be started."""
    run = runtime_of().start("uid", container(), {"SIMULATED_HOLDS_MIB": "a lot"})

    ended = await asyncio.wait_for(run.ended(), 300)
    assert (ended.code, ended.reason) == (128, "StartError")
    assert "'a lot' is not a number" in ended.message


async def test_lines_come_in_their_time_and_not_after_the_end() -> None:
    """A log that is followed grows as that of a real container."""
    prints = Behaviour(images=("app",), prints=("at once", "later", "never"), prints_after=(0, 0.01, 600))
    run = runtime_of(prints).start("uid", container(), {})
    first = [line.text for line in run.log]
    await run.more_log(1)
    run.finish(0)
    await run.more_log(2)

    assert (first, [line.text for line in run.log]) == (["at once"], ["at once", "later"])
