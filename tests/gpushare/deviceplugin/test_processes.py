"""Promises of gpushare.deviceplugin.processes, on a folder that looks like /proc."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from gpushare.deviceplugin.core.usage import ProcessUse
from gpushare.deviceplugin.usage_watch import ProcessOwners
from gpushare.nvml.api import Process

UID = "3b1f2c4d-5e6f-4a7b-8c9d-0a1b2c3d4e5f"
OUTER = "11111111-2222-3333-4444-555555555555"
ID = "0123456789abcdef" * 4


def process(proc: Path, pid: int, group: str) -> None:
    """A process in a control group."""
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "cgroup").write_text(f"0::{group}\n")


def test_a_process_is_its_pods(tmp_path: Path) -> None:
    """A process is reported with its pod, its card and its memory, known or not."""
    process(tmp_path, 7, f"/kubepods/besteffort/pod{UID}/{ID}")

    uses = ProcessOwners(tmp_path).uses(2, [Process(7, 100), Process(7, None)], {UID})

    assert uses == [ProcessUse(2, UID, 100), ProcessUse(2, UID, None)]


@pytest.mark.parametrize("group", [f"/kubepods/pod{OUTER}/{ID}", "/system.slice/x.service", None])
def test_a_process_of_no_pod_of_ours_has_no_pod(tmp_path: Path, group: str | None) -> None:
    """Another cluster's, the host's, or one that has just ended."""
    if group is not None:
        process(tmp_path, 7, group)

    assert ProcessOwners(tmp_path).uses(0, [Process(7, 1)], {UID}) == [ProcessUse(0, None, 1)]


def test_process_of_two_nested_pods_is_this_clusters(tmp_path: Path) -> None:
    """A node that runs in a pod of another cluster."""
    process(tmp_path, 7, f"/kubepods/pod{OUTER}/{ID}/kubelet/kubepods/pod{UID}/{ID}")

    assert ProcessOwners(tmp_path).uses(0, [Process(7, 1)], {UID}) == [ProcessUse(0, UID, 1)]


def test_invisible_processes_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Processes that are invisible without hostPID are logged once, in a line that shows what to do."""
    owners = ProcessOwners(tmp_path)

    assert [owners.is_blind([7, 8]), owners.is_blind([7])] == [True, True]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "hostPID: true" in caplog.text


def test_blindness_is_reported_only_with_something_to_see(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An idle node; a process that ended beside one that runs."""
    process(tmp_path, 7, "/")
    owners = ProcessOwners(tmp_path)

    assert [owners.is_blind([]), owners.is_blind([8, 7])] == [False, False]
    assert caplog.text == ""


def test_a_proc_that_shows_only_our_own_container_is_blind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """NVML then lists no process at all, which must not look like an idle card; a process that is seen proves the contrary."""
    process(tmp_path, 1, "/")
    (tmp_path / "self").symlink_to(tmp_path / "1")
    owners = ProcessOwners(tmp_path)

    assert [owners.is_blind([]), owners.is_blind([1])] == [True, False]
    assert "hostPID: true" in caplog.text


def test_a_proc_whose_first_process_is_elsewhere_is_the_hosts(tmp_path: Path) -> None:
    """A proc whose first process is in another control group is the host's, as in a container with hostPID."""
    process(tmp_path, 1, "/../../../../init.scope")
    process(tmp_path, 7, "/")
    (tmp_path / "self").symlink_to(tmp_path / "7")

    assert not ProcessOwners(tmp_path).is_blind([])


def test_the_kernels_own_folder_is_understood() -> None:
    """The kernel's own proc is understood: this very process belongs to no pod that the test names."""
    assert ProcessOwners(Path("/proc")).uses(0, [Process(os.getpid(), 1)], set()) == [ProcessUse(0, None, 1)]
