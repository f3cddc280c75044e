"""How the simulated container runtime starts and stops containers."""

from __future__ import annotations

import asyncio

import pytest

from clusters.images.behaviour import Behaviour, Behaviours
from clusters.kubelet.kubelet_cards import Cards
from clusters.kubelet.pods import Container, Kind
from clusters.kubelet.runtime import ProcessTree, Runtime


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
    """A wrong override ends the container with StartError and code 128."""
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


UID = "3b1f2c4d-5e6f-4a7b-8c9d-0a1b2c3d4e5f"


def test_a_process_has_a_control_group_named_as_containerd_does(tmp_path) -> None:
    """The group names the pod's uid, and is gone with the process."""
    tree = ProcessTree(tmp_path / "proc")
    tree.add(7, UID)
    tree.add(8, UID)
    text = (tmp_path / "proc" / "7" / "cgroup").read_text()

    slice_name = "kubepods-burstable-pod3b1f2c4d_5e6f_4a7b_8c9d_0a1b2c3d4e5f.slice"
    assert text.startswith(f"0::/kubepods.slice/kubepods-burstable.slice/{slice_name}/cri-containerd-")
    assert text.endswith(".scope\n")
    assert text != (tmp_path / "proc" / "8" / "cgroup").read_text()

    tree.remove(7)
    tree.remove(9)
    assert [path.name for path in (tmp_path / "proc").iterdir()] == ["8"]


async def test_process_exists_while_its_container_holds_the_card(tmp_path, state) -> None:
    """The process of the card's list is found in the tree until the container ends."""
    behaviours = Behaviours((Behaviour(images=("app",), holds_mib=100),))
    runtime = Runtime(behaviours, Cards(state), lambda: 0.0, ProcessTree(tmp_path / "proc"))
    container = Container("main", "app", Kind.APP, {}, (), ())
    run = runtime.start(UID, container, {"NVIDIA_VISIBLE_DEVICES": "0"})
    (process,) = state.cards()[0].processes

    assert (tmp_path / "proc" / str(process.pid) / "cgroup").exists()
    run.finish(0)
    assert list((tmp_path / "proc").iterdir()) == []
    assert state.cards()[0].processes == ()
