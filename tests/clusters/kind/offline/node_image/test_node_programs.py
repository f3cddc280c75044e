"""Promises of clusters.kind.offline.node_image.node_programs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from clusters.controlplane import binaries
from clusters.kind.offline.node_image import node_programs
from clusters.kind.offline.node_image.node_programs import (
    IMAGE_PROGRAMS,
    NETWORK_PLUGINS,
    NODE_PROGRAMS,
    minors,
    modules,
    pause,
)
from clusters.provider import ClusterError

T = TypeVar("T")


def test_every_program_is_of_one_module() -> None:
    """Each program of the image is built, and none by two modules."""
    for minor in minors():
        built = [program for module in modules(minor) for program in module.packages]

        assert sorted(built) == sorted({*built})
        assert {*NODE_PROGRAMS, *NETWORK_PLUGINS, *IMAGE_PROGRAMS} <= {*built}


def test_kubelet_is_of_the_control_planes_release() -> None:
    """One pin for both: built into one folder of the cache, with the same version."""
    for minor in minors():
        ours, theirs = modules(minor)[0], binaries.modules(minor)[0]

        assert (ours.version, ours.stamps, ours.folder) == (theirs.version, theirs.stamps, theirs.folder)


def test_an_unpinned_kubelet_is_named() -> None:
    """A release without a kubelet is an error that lists those that have one, the newest of the control planes among them."""
    assert minors()[0] == binaries.minors()[0]
    with pytest.raises(ClusterError, match=f"kubelet of Kubernetes 1.2 .*{minors()[0]}"):
        modules("1.2")


def test_pause_has_its_content_as_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No one else numbers it, and a changed one must be built again."""
    shutil.copytree(node_programs.MODULES / "pause", tmp_path / "pause")
    before = pause().version
    monkeypatch.setattr(node_programs, "MODULES", tmp_path)
    same = pause().version
    (tmp_path / "pause/main.go").write_text("package main\n")

    assert before == same != pause().version


@pytest.fixture(scope="module")
def pause_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built here: it is small."""
    if shutil.which("go") is None:
        pytest.skip("no `go` on PATH")
    built = tmp_path_factory.mktemp("pause") / "pause"
    settings = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-buildvcs=false"}
    package = pause().packages["pause"]
    subprocess.run(["go", "build", "-o", built, package], cwd=pause().folder, env=settings, check=True)
    return built


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_pause_ends_at_a_signal(pause_program: Path, number: signal.Signals) -> None:
    """The pause program ends at a signal with exit code 0, so that no pod seems to have failed."""
    with subprocess.Popen([pause_program]) as process:
        _until_it_waits(process.pid)
        process.send_signal(number)

        assert process.wait(timeout=300) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="a process tree of its own needs root")
def test_pause_collects_the_children_of_others(pause_program: Path) -> None:
    """The pause program, as the first process of a pod, collects children that their parent left, so that no zombie stays."""
    # The shell starts the orphan, which ends after pause has taken the shell's place.
    script = f"sleep 1 & exec {pause_program}"
    argv = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", script]
    with subprocess.Popen(argv) as process:
        try:
            first = _until(lambda: _children(process.pid))[0]
            _until(lambda: _runs(first, pause_program))
            # Ended or not yet, it is a child of pause until it was collected.
            _until(lambda: not _children(first))
        finally:
            process.kill()


def _until_it_waits(pid: int) -> None:
    """Until it has come to its wait: all its threads sleep, twice the same."""
    seen = [_threads(pid)]

    def sleeps() -> bool:
        time.sleep(0.1)
        seen.append(_threads(pid))
        return seen[-1] == seen[-2] and all(state == "S" for state, _ in seen[-1])

    _until(sleeps)


def _threads(pid: int) -> list[tuple[str, str]]:
    """The state of each thread, and how often it has stopped to wait."""
    statuses = [(task / "status").read_text() for task in sorted(Path(f"/proc/{pid}/task").iterdir())]
    return [(re.findall(r"State:\s+(\w)", text)[0], re.findall(r"\nvol\S+\s+(\d+)", text)[0]) for text in statuses]


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _runs(pid: int, program: Path) -> bool:
    return Path(f"/proc/{pid}/exe").resolve() == program.resolve()


def _until(look: Callable[[], T]) -> T:
    """The value, once there is one. Fails after a while."""
    deadline = time.monotonic() + 300
    while not (seen := look()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return seen
