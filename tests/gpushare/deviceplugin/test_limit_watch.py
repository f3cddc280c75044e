"""Promises of gpushare.deviceplugin.limit_watch: the plugin wired as in its main, on simulated cards and a folder as cgroups."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fake_nvml.state import State
from gpushare.deviceplugin.limit_watch import control_groups
from tests.gpushare.deviceplugin.rig import running

Simulate = Callable[..., State]

ID = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4
UID = "3b1f2c4d-5e6f-4a7b-8c9d-0a1b2c3d4e5f"
POD = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"


async def test_a_cdi_file_without_the_hook_limits_nothing(simulate: Simulate, tmp_path: Path) -> None:
    """Files count if the plugin answers CDI names. A changed file is read again; one that cannot be read is passed over."""
    state = simulate("t4x2", driver="615.71.09")
    (tmp_path / "cgroup.controllers").write_text("cpu memory dmem misc\n")
    (tmp_path / "dmem.capacity").write_text("nvidia/00000000:03:00.0/vidmem 16106127360\n")
    flags = ("--memory-limit=driver", "--device-list-strategy=cdi-cri", "--device-id-strategy=index")
    async with running(state, more=(*flags, f"--cgroup-root={tmp_path}", f"--proc-root={tmp_path}")) as rig:
        watch = rig.parts.limits
        assert watch is not None
        watch.cdi_folders = (tmp_path, tmp_path / "none")
        hook = {"args": ["nvidia-cdi-hook", "apply-cuda-memory-limits"]}
        for name, hooks, limit in (("0", [], None), ("0", [hook], 4096), ("all", [], 4096)):
            devices = [{"name": name, "containerEdits": {"hooks": hooks}}]
            (tmp_path / "nvidia.yaml").write_text(json.dumps({"kind": "nvidia.com/gpu", "devices": devices}))
            (tmp_path / "broken.json").write_text('{"kind":')
            await watch.check(rig.parts.watch.survey.cards)
            assert watch.limit(((0, 4),)) == limit
            assert watch.limit(((1, 4),)) == 4096


async def test_a_slow_disk_does_not_hold_up_the_plugin(simulate: Simulate, tmp_path: Path) -> None:
    """While a file of the node is read, the event loop goes on."""
    state, turned, loop = simulate("t4x2", driver="615.71.09"), threading.Event(), asyncio.get_running_loop()
    async with running(state, more=("--memory-limit=driver", f"--cgroup-root={tmp_path}")) as rig:
        watch = rig.parts.limits
        assert watch is not None
        os.mkfifo(tmp_path / "dmem.capacity")

        def write() -> bool:
            with (tmp_path / "dmem.capacity").open("w"):
                loop.call_soon_threadsafe(turned.set)
                return turned.wait(10)

        went_on, _ = await asyncio.gather(asyncio.to_thread(write), watch.check(rig.parts.watch.survey.cards))
        assert went_on


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (f"kubepods/burstable/pod{UID}/{ID}", ""),
        (f"kubepods/pod{UID}/crio-{ID}", ""),
        (f"{POD}/cri-containerd-{ID}.scope", ""),
        (f"{POD}/crio-{ID}.scope/container", "container"),
        (f"{POD}/docker-{ID}.scope/init.scope/{ID}", "."),
        (f"kubelet.slice/kubelet-kubepods.slice/kubelet-{POD.rpartition('/')[2]}/cri-containerd-{ID}.scope", ""),
        (f"system.slice/containerd.service/kubepods-burstable-pod{UID}.slice:cri-containerd:{ID}", ""),
        (f"{POD}/crio-conmon-{ID}.scope", None),
        (f"{POD}/cri-containerd-{OTHER}.scope", None),
    ],
)
def test_the_group_of_a_container_is_found(tmp_path: Path, group: str, expected: str | None) -> None:
    """With each runtime and driver; groups that a container makes below its own are not."""
    (tmp_path / group).mkdir(parents=True)
    (tmp_path / "kubepods/besteffort").mkdir(parents=True, exist_ok=True)
    found = control_groups(tmp_path, [ID]).get(ID)

    own = tmp_path / group if expected != "." else tmp_path / POD / f"docker-{ID}.scope"
    assert found == (None if expected is None else own)
