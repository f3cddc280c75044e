"""The probe as a real process of a simulated container: its log, its end, its memory, and that nothing else is started."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clusters.images.behaviour import Behaviours
from clusters.images.probe_container import PROBE, probe_container
from clusters.kubelet.kubelet_cards import Cards
from clusters.kubelet.pods import Container, Kind
from clusters.kubelet.probe_process import Probes
from clusters.kubelet.runtime import ProcessTree, Run, Runtime
from fake_nvml.native.build import library_folder
from fake_nvml.native.compiler import CompilerError
from fake_nvml.state import State
from tests.servers import until

UID = "3b1f2c4d-5e6f-4a7b-8c9d-0a1b2c3d4e5f"
HOLD = ("allocate", "--mib", "1000", "--seconds", "600")


def container(*arguments: str, text: str = PROBE) -> Container:
    command = [*probe_container("main", "python:3.12")["command"][:2], text]
    return Container("main", "python:3.12", Kind.APP, {}, (), (*command, *arguments))


def lines(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line.text) for line in run.log]


@pytest.fixture
async def runtime(folder: Path, state: State) -> AsyncIterator[Runtime]:
    """A node with one T4; nothing runs on it afterwards."""
    try:
        library_folder(state.driver(), os.environ)
    except CompilerError as error:
        pytest.skip(f"no library in C: {error}")
    cards = Cards(state)
    runtime = Runtime(Behaviours(), cards, lambda: 0.0, ProcessTree(folder / "proc"), Probes(folder / "run", cards))
    yield runtime
    runtime.kill_all()
    await runtime.settled()


async def holding(runtime: Runtime, state: State) -> Run:
    """A probe that holds 1000 MiB of the card."""
    run = runtime.start(UID, container(*HOLD), {"NVIDIA_VISIBLE_DEVICES": "0"})
    await until(lambda: state.cards()[0].used_mib == 1000 or run.exit, "it holds memory")
    return run


async def test_its_output_is_the_log_and_its_code_the_end(runtime: Runtime, state: State) -> None:
    """The container ends as the process does; its variables are shown, and nvidia-smi and device files are there."""
    variables = {"NVIDIA_VISIBLE_DEVICES": state.cards()[0].uuid, "ALIYUN_COM_GPU_MEM_DEV": "14", "SECRET": "no"}
    run = runtime.start(UID, container("look"), variables)
    ended = await run.ended()
    seen = {line["part"]: line for line in lines(run)}

    assert (ended.code, ended.reason) == (0, "Completed")
    assert [card["uuid"] for card in seen["nvml"]["cards"]] == [state.cards()[0].uuid]
    assert seen["nvidia-smi"]["lines"] == [f"GPU 0: Tesla T4 (UUID: {state.cards()[0].uuid})"]
    assert "/dev/nvidia-uvm" in seen["device-files"]["files"]
    assert seen["environment"]["variables"] == {name: variables[name] for name in sorted(variables) if name != "SECRET"}


async def test_its_process_is_the_cards_and_the_pods(runtime: Runtime, state: State, folder: Path) -> None:
    """The card's list and the tree of processes have the real pid, as a plugin needs it to find the pod."""
    run = await holding(runtime, state)
    (process,) = state.cards()[0].processes
    group = (folder / "proc" / str(process.pid) / "cgroup").read_text()

    assert (process.pid, process.mib) == (run.pid, 1000)
    assert UID.replace("-", "_") in group


async def test_a_stop_lets_it_give_memory_back(runtime: Runtime, state: State, folder: Path) -> None:
    """SIGTERM comes first, and nothing of the container is left."""
    run = await holding(runtime, state)
    await runtime.stop_pod(UID, 300)
    await runtime.settled()

    assert run.exit is not None
    assert (run.exit.code, lines(run)[-1]["step"]) == (0, "stopped")
    assert state.cards()[0].processes == ()
    assert [list((folder / name).iterdir()) for name in ("proc", "run")] == [[], []]


async def test_one_that_does_not_stop_is_killed(runtime: Runtime, state: State) -> None:
    """After the grace period SIGKILL follows, and the code is 137."""
    run = await holding(runtime, state)
    os.kill(run.pid, signal.SIGSTOP)
    await runtime.stop_pod(UID, 0.01)

    assert run.exit is not None
    assert run.exit.code == 137
    assert state.cards()[0].processes == ()


async def test_a_power_failure_leaves_no_process(runtime: Runtime, state: State, folder: Path) -> None:
    """The memory is free at once; a process that has not begun does not begin."""
    run = await holding(runtime, state)
    late = runtime.start("other", container(*HOLD), {"NVIDIA_VISIBLE_DEVICES": "0"})
    runtime.kill_all()

    assert state.cards()[0].processes == ()
    await runtime.settled()
    assert [life.exit and life.exit.code for life in (run, late)] == [137, 137]
    with pytest.raises(ProcessLookupError):
        os.kill(run.pid, 0)
    assert list((folder / "proc").iterdir()) == []


async def test_another_text_is_never_started(runtime: Runtime, folder: Path) -> None:
    """A command that differs in one character is simulated as any other, and creates nothing."""
    proof = folder / "proof"
    text = f"{PROBE}\nopen({str(proof)!r}, 'w')"
    run = runtime.start(UID, container("look", text=text), {"NVIDIA_VISIBLE_DEVICES": "0"})

    assert run.pid > 2**22
    assert run.exit is None
    assert not proof.exists()


async def test_a_container_without_a_card_gets_no_driver(runtime: Runtime) -> None:
    """Its libraries, programs and device files are missing, as NVIDIA's runtime leaves them out."""
    run = runtime.start(UID, container("look"), {})
    await run.ended()
    seen = {line["part"]: line for line in lines(run)}

    assert "nvidia-ml" in seen["nvml"]["error"]
    assert "PATH" in seen["nvidia-smi"]["error"]
    assert seen["device-files"]["files"] == []


async def test_without_a_compiler_the_reason_is_its_end(
    runtime: Runtime, folder: Path, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The container cannot start, and its message has the reason."""
    monkeypatch.setenv("CC", "no-such-compiler")
    run = runtime.start(UID, container("look"), {"NVIDIA_VISIBLE_DEVICES": "0"})
    ended = await run.ended()

    assert (ended.code, ended.reason) == (128, "StartError")
    assert "no-such-compiler" in ended.message
