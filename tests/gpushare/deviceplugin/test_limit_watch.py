"""Promises of gpushare.deviceplugin.limit_watch: the plugin wired as in its main, on simulated cards and a folder as cgroups."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

from fake_nvml.state import State
from gpushare.deviceplugin.limit_watch import LimitWatch, control_groups
from gpushare.errors import NoCandidateError
from tests.gpushare.deviceplugin.rig import Rig, new_node, running
from tests.servers import StubApi, until

Simulate = Callable[..., State]

NEW = "615.71.09"
ID = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4
UID = "3b1f2c4d-5e6f-4a7b-8c9d-0a1b2c3d4e5f"
POD = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
MIB = 1024 * 1024


def pod(name: str = "player", state: Any = None, at: str = ID, units: int = 4) -> dict[str, Any]:
    """A pod on card 0, with one container that runs."""
    status = {"name": "main", "state": state or {"running": {}}, "containerID": f"containerd://{at}"}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": UID, "annotations": {"ALIYUN_COM_GPU_MEM_IDX": "0"}},
        "spec": {
            "nodeName": "rig",
            "containers": [{"name": "main", "resources": {"limits": {"aliyun.com/gpu-mem": str(units)}}}],
        },
        "status": {"phase": "Running", "containerStatuses": [status]},
    }


def tree(folder: Path, *, version: int = 2, dmem: bool = True, switched_off: bool = False) -> tuple[str, ...]:
    """A folder as the host's control groups and one as its /proc; the flags of a plugin that reads them."""
    root, proc = folder / "cgroup", folder / "proc"
    (root / POD / f"cri-containerd-{ID}.scope").mkdir(parents=True)
    (proc / "driver/nvidia").mkdir(parents=True)
    (proc / "driver/nvidia/params").write_text(f'RegistryDwords: "RmMemacctMode={0 if switched_off else 3}"\n')
    if version == 2:
        (root / "cgroup.controllers").write_text("cpu memory dmem misc\n")
    if dmem:
        (root / "dmem.capacity").write_text("nvidia/00000000:03:00.0/vidmem 16106127360\n")
    return f"--cgroup-root={root}", f"--proc-root={proc}"


def watch_of(rig: Rig) -> LimitWatch:
    """The plugin's watch of limits."""
    assert rig.parts.limits is not None
    return rig.parts.limits


def condition(rig: Rig) -> dict[str, str]:
    """Our condition about limits on the Node, without its times."""
    found = [one for one in rig.api.nodes[0]["status"]["conditions"] if one["type"] == "GPUShareMemoryLimits"]
    return {key: text for one in found for key, text in one.items() if key in ("status", "reason")}


def set_limit(state: State, folder: Path, mib: int) -> None:
    """NVIDIA's hook."""
    handle = pynvml.nvmlDeviceGetHandleByUUID(state.cards()[0].uuid)
    limits = pynvml.c_nvmlSetMemoryLimits_v1_t(os.fsencode(folder), 0, mib * MIB)
    pynvml.nvmlDeviceSetMemoryLimits_v1(handle, limits)


@pytest.mark.parametrize(
    ("driver", "host", "reason"),
    [
        (NEW, {}, ""),
        ("610.43.02", {}, "DriverTooOld"),
        ("535.104.05", {}, "DriverTooOld"),
        (NEW, {"version": 1}, "CgroupV1"),
        (NEW, {"dmem": False}, "KernelTooOld"),
        (NEW, {"switched_off": True}, "SwitchedOff"),
    ],
)
async def test_a_node_is_checked_before_it_answers_a_limit(
    simulate: Simulate, tmp_path: Path, driver: str, host: dict[str, Any], reason: str
) -> None:
    """On a node that cannot limit, a container gets no variables. The Node has the reason, and no pod has an event."""
    state, api = simulate("t4x2", driver=driver), StubApi(nodes=[new_node()], pods=[pod()])
    async with running(state, api=api, more=("--memory-limit=driver", *tree(tmp_path, **host))) as rig:
        watch = watch_of(rig)
        assert watch.limit(((0, 4),)) == (None if reason else 4096)
        assert watch.limit(((7, 4),)) is None
        await watch.look()
        rig.clock.now += 60
        await watch.look()
        expected = {"status": "False", "reason": reason or "SomeNotLimited"}
        await until(lambda: condition(rig) == expected)
        await rig.node.end()
        assert condition(rig) == {"status": "Unknown", "reason": "PluginEnded"}

    assert [one for one, _ in rig.events("Pod")] == ([] if reason else ["GPUShareNotLimited"])
    state_of = "unknown" if reason == "CgroupV1" else "none"
    assert api.pods[0]["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_LIMITS"] == f'[["main",0,"{state_of}",0]]'


async def test_cards_that_cannot_limit_are_given_to_no_pod_if_required(simulate: Simulate, tmp_path: Path) -> None:
    """They are unhealthy from the first publication on, and healthy once the node can; a pod that slips through is refused."""
    state = simulate("t4x2", driver=NEW)
    flags = tree(tmp_path, dmem=False)
    async with running(state, more=("--memory-limit=require", *flags)) as rig:
        await rig.reached(["no memory limit: KernelTooOld"] * 2)
        with pytest.raises(NoCandidateError, match="--memory-limit is require"):
            watch_of(rig).limit(((0, 4),))
        (tmp_path / "cgroup/dmem.capacity").write_text("nvidia/00000000:03:00.0/vidmem 1\n")
        rig.clock.now += 60
        await rig.reached(["", ""])
        assert watch_of(rig).limit(((0, 4),)) == 4096


async def test_a_limit_in_force_is_seen_and_each_change_reported_once(simulate: Simulate, tmp_path: Path) -> None:
    """By the driver's own answer for the container's group, on the pod, the Node and in the metrics."""
    state, api = simulate("t4x2", driver=NEW), StubApi(nodes=[new_node()], pods=[pod()])
    group = tmp_path / "cgroup" / POD / f"cri-containerd-{ID}.scope"
    async with running(state, api=api, more=("--memory-limit=driver", *tree(tmp_path))) as rig:
        watch, seen = watch_of(rig), list[tuple[str, int]]()
        for mib in (4096, 15000, 15000, 2048, 4096):
            set_limit(state, group, mib)
            await watch.look()
            ((_, _, word, found),) = json.loads(api.pods[0]["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_LIMITS"])
            seen.append((word, found))
            assert {name: count for name, count in (watch.metrics.limits or {}).items() if count} == {word: 1}
        await until(lambda: condition(rig) == {"status": "True", "reason": "Enforced"})
        written = len([one for one in api.calls if one["method"] == "PATCH" and one["path"].endswith("/pods/player")])
        # A card that does not answer, and a group that is gone: not known, and no event.
        state.add_fault("nvmlDeviceGetMemoryLimits_v1", code=pynvml.NVML_ERROR_NO_PERMISSION, count=1)
        rig.clock.now += 60
        await watch.look()
        assert watch.metrics.nvml_errors["limits"] == 1
        group.rmdir()
        await watch.look()
        await watch.look()
        await until(lambda: condition(rig) == {"status": "Unknown", "reason": "NotVerified"})

    assert seen == [("enforced", 4096), ("loose", 15000), ("loose", 15000), ("tight", 2048), ("enforced", 4096)]
    assert [one for one, _ in rig.events("Pod")] == ["GPUShareLimitLoose", "GPUShareLimitTight"]
    assert written == 4
    assert rig.parts.metrics.nvml_errors["limits"] == 1


HOOK = "error running hook #0: exit status 1, stderr: failed to set memory limits for gpu: Not Supported"


async def test_a_hook_that_fails_ends_the_answer_of_limits(simulate: Simulate, tmp_path: Path) -> None:
    """The pod is reported once, with what helps; another driver is trusted again."""
    failed = pod(state={"waiting": {"reason": "RunContainerError", "message": HOOK}})
    state, api = simulate("t4x2", driver=NEW), StubApi(nodes=[new_node()], pods=[failed])
    async with running(state, api=api, more=("--memory-limit=driver", *tree(tmp_path))) as rig:
        watch = watch_of(rig)
        assert watch.limit(((0, 4),)) == 4096
        await watch.look()
        await watch.look()
        assert watch.limit(((0, 4),)) is None
        await until(lambda: condition(rig) == {"status": "False", "reason": "HookFails"})
        ((event, text),) = rig.events("Pod")
        watch.driver = "620.1"
        assert watch.limit(((0, 4),)) == 4096

    assert (event, "delete the pod" in text, HOOK in text) == ("GPUShareLimitFails", True, True)


async def test_a_cdi_file_without_the_hook_limits_nothing(simulate: Simulate, tmp_path: Path) -> None:
    """Files count if the plugin answers CDI names. A changed file is read again; one that cannot be read is passed over."""
    state = simulate("t4x2", driver=NEW)
    flags = ("--memory-limit=driver", "--device-list-strategy=cdi-cri", "--device-id-strategy=index", *tree(tmp_path))
    async with running(state, more=flags) as rig:
        watch = watch_of(rig)
        watch.cdi_folders = (tmp_path, tmp_path / "none")
        hook = {"args": ["nvidia-cdi-hook", "apply-cuda-memory-limits"]}
        for name, hooks, limit in (("0", [], None), ("0", [hook], 4096), ("all", [], 4096)):
            devices = [{"name": name, "containerEdits": {"hooks": hooks}}]
            (tmp_path / "nvidia.yaml").write_text(json.dumps({"kind": "nvidia.com/gpu", "devices": devices}))
            (tmp_path / "broken.json").write_text('{"kind":')
            await watch.check(rig.watch.survey.cards)
            assert watch.limit(((0, 4),)) == limit
            assert watch.limit(((1, 4),)) == 4096


async def test_a_refused_annotation_is_logged_once(
    simulate: Simulate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A policy of an earlier version may refuse it; the plugin goes on, and writes no more often than a bound."""
    state, api = simulate("t4x2", driver="610.43.02"), StubApi(nodes=[new_node()], pods=[pod()])
    async with running(state, api=api, more=("--memory-limit=driver", *tree(tmp_path))) as rig:
        forbidden = (403, {"kind": "Status", "message": "no", "code": 403})
        api.fault = lambda method, path: forbidden if path.endswith("/pods/player") else None
        for rig.clock.now in range(2000, 2030):
            await watch_of(rig).look()

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
