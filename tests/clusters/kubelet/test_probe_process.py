"""The one program that simulated containers run for real is the probe."""

from __future__ import annotations

from pathlib import Path

from clusters.images.behaviour import Behaviours
from clusters.images.probe_container import PROBE, probe_container
from clusters.kubelet.environment import DeviceRequests
from clusters.kubelet.kubelet_cards import Cards
from clusters.kubelet.pods import Container, Kind
from clusters.kubelet.probe_process import Probes
from clusters.kubelet.runtime import Runtime


async def test_another_text_is_never_started(tmp_path: Path) -> None:
    """A command that differs in one character is simulated as any other, and creates nothing."""
    runtime = Runtime(Behaviours(), Cards(), lambda: 0.0, tmp_path, Probes(tmp_path / "run", Cards()))
    proof = tmp_path / "proof"
    command = [*probe_container("main", "python:3.12")["command"][:2], f"{PROBE}\nopen({str(proof)!r}, 'w')", "look"]
    container = Container("main", "python:3.12", Kind.APP, {}, (), tuple(command))
    run = runtime.start("uid", container, {}, DeviceRequests())
    await runtime.settled()

    # Above any pid that a kernel gives.
    assert run.pid > 2**22
    assert run.exit is None
    assert not proof.exists()
