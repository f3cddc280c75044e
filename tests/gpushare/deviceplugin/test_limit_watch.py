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
from gpushare.deviceplugin.core.container_answer import Answered
from gpushare.deviceplugin.limit_watch import control_groups
from gpushare.errors import NoCandidateError
from tests.gpushare.deviceplugin.rig import holder, new_node, running
from tests.servers import StubApi

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
            assert await watch.limit(((0, 4),), "u") == Answered(limit)
            assert await watch.limit(((1, 4),), "u") == Answered(4096)


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


@pytest.mark.parametrize("mode", ["driver", "require"])
async def test_a_device_is_written_before_it_is_answered(simulate: Simulate, tmp_path: Path, mode: str) -> None:
    """A container gets no device that the runtime would not find; once the disk has room, the next one gets its own."""
    state, folder = simulate("t4x2", driver="615.71.09"), tmp_path / "cdi"
    (tmp_path / "cgroup.controllers").write_text("cpu memory dmem misc\n")
    (tmp_path / "dmem.capacity").write_text("nvidia/00000000:03:00.0/vidmem 16106127360\n")
    hook = ("--memory-limit-hook=/usr/bin/nvidia-cdi-hook", f"--cdi-root={folder}")
    more = (f"--memory-limit={mode}", *hook, f"--cgroup-root={tmp_path}", f"--proc-root={tmp_path}")
    async with running(state, more=more) as rig:
        watch = rig.parts.limits
        assert watch is not None
        first, second = ("gpushare.aliyun.com/limit=" + card.uuid for card in rig.parts.watch.survey.cards)
        both = await watch.limit(((0, 4), (1, 2)), "p")
        assert both == Answered(devices=(f"{first}-4096", f"{second}-2048"))
        assert devices_in(folder) == {f"{first}-4096", f"{second}-2048"}

        (folder / "gpushare-limits.new").mkdir()
        if mode == "require":
            with pytest.raises(NoCandidateError):
                await watch.limit(((0, 3),), "q")
        else:
            assert await watch.limit(((0, 3),), "q") == Answered()
        assert devices_in(folder) == {f"{first}-4096", f"{second}-2048"}
        assert [why.reason for uuid in watch.checked if (why := watch.why(uuid))] == ["NoDevice"] * 2
        await watch.keep_devices()
        assert watch.why(next(iter(watch.checked))) is not None

        (folder / "gpushare-limits.new").rmdir()
        await watch.keep_devices()
        assert devices_in(folder) == set()
        assert await watch.limit(((0, 3),), "q") == Answered(devices=(f"{first}-3072",))


def devices_in(folder: Path) -> set[str]:
    """The devices that a runtime knows."""
    files = [json.loads(path.read_bytes()) for path in folder.glob("*.json")]
    return {f"{file['kind']}={device['name']}" for file in files for device in file["devices"]}


async def test_a_refused_annotation_is_logged_once(
    simulate: Simulate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A policy of an earlier version may refuse it; the plugin goes on, and writes no more often than a bound."""
    status = {"phase": "Running", "containerStatuses": [{"name": "c0", "state": {"running": {}}, "containerID": ID}]}
    api = StubApi(nodes=[new_node()], pods=[holder("player", 0) | {"status": status}])
    flags = ("--memory-limit=driver", f"--cgroup-root={tmp_path}", f"--proc-root={tmp_path}")
    async with running(simulate("t4x2", driver="610.43.02"), api=api, more=flags) as rig:
        forbidden = (403, {"kind": "Status", "message": "no", "code": 403})
        api.fault = lambda method, path: forbidden if path.endswith("/pods/player") else None
        assert rig.parts.limits is not None
        for rig.clock.now in range(2000, 2030):
            await rig.parts.limits.look()

    assert caplog.text.count("cannot write the limits") == 1
    assert len([one for one in api.calls if one["path"].endswith("/pods/player")]) == 8


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
