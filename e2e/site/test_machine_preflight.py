"""The preflight of a machine: each fault is a wrong line, on folders that stand for machines and on this one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from e2e.__main__ import main
from e2e.report.verdict_table import PreflightLine
from e2e.site.machine_preflight import RULES, Machine
from e2e.site.preflight_lines import judged

_CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.274.02  Tue Sep 2 2025\nGCC version: 12\n"
_OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.163.01  Release Build\n"
_CONTAINERD_2 = """version = 2
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "nvidia"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
BinaryName = "/usr/bin/nvidia-container-runtime"
"""
_CONTAINERD_3 = _CONTAINERD_2.replace("version = 2", "version = 3").replace("grpc.v1.cri", "cri.v1.runtime")
_SETS_IN_A_FOLDER = 'version = 3\nimports = ["/etc/containerd/conf.d/*.toml"]\n'
_CRIO = """[crio.runtime]
default_runtime = "nvidia"
[crio.runtime.runtimes.nvidia]
runtime_path = "/usr/bin/nvidia-container-runtime"
"""
_DOCKER = json.dumps({"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}})
_CONFIG = "etc/containerd/config.toml"
_SOUND = {
    "proc/driver/nvidia/version": _CLOSED,
    "proc/driver/nvidia/gpus/0000:3b:00.0/information": "Model: \t\t Tesla T4\nDevice Minor: \t 0\n",
    "proc/17/cmdline": "sh\0",
    "dev/nvidia0": "",
    "dev/nvidiactl": "",
    "dev/nvidia-uvm": "",
    "usr/bin/nvidia-container-runtime": "",
    _CONFIG: _CONTAINERD_2,
    "var/lib/kubelet/device-plugins/kubelet.sock": "",
    "var/lib/kubelet/device-plugins/aliyungpushare.sock": "",
    "var/lib/kubelet/pod-resources/kubelet.sock": "",
}


def machine(root: Path, changes: Mapping[str, str | None] = {}) -> Path:
    """The folder of a sound machine, except for files with other texts; None: the file is not there."""
    for name, text in {**_SOUND, **changes}.items():
        if text is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    return root


def bad(lines: list[PreflightLine]) -> list[tuple[str, str]]:
    """Name and judgement of what is not ok; each has what to do."""
    worse = [line for line in lines if line.judgement != "ok"]
    assert all(line.todo and line.subject == "machine" for line in worse)
    return [(line.name, line.judgement) for line in worse]


def texts(lines: list[PreflightLine], name: str) -> str:
    """The texts of one name."""
    return "\n".join(line.text for line in lines if line.name == name)


def judge(root: Path, error: str = "", mig: Sequence[str] | str = ("[N/A]",)) -> list[PreflightLine]:
    """The lines of a machine; its driver answers like that of a sound one, unless something is given."""
    return judged(RULES, Machine(root, {"libcuda.so.1": error}, mig), "machine")


def test_a_sound_machine_is_ok(tmp_path: Path) -> None:
    """Each rule has a line, and the driver's names the cards."""
    lines = judge(machine(tmp_path))
    assert bad(lines) == []
    assert texts(lines, "driver").endswith("; cards 0: Tesla T4")
    assert {line.name for line in lines} == set(RULES)


_FLAGS = "KUBELET_KUBEADM_ARGS=--container-runtime-endpoint=unix:///var/run/cri-dockerd.sock\n"
_NO_DRIVER = {name: None for name in _SOUND if name.startswith("proc/driver")}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"proc/driver/nvidia/version": _OPEN}, ""),
        (_NO_DRIVER, "driver wrong, device files unknown"),
        ({"dev/nvidia0": None}, "device files wrong"),
        ({_CONFIG: None}, "container runtime wrong"),
        ({_CONFIG: "= nothing"}, "container runtime unknown"),
        ({_CONFIG: _CONTAINERD_2.replace('"nvidia"', '"runc"', 1)}, "container runtime unknown"),
        ({"usr/bin/nvidia-container-runtime": None}, "container runtime wrong"),
        ({_CONFIG: _CONTAINERD_3}, ""),
        ({_CONFIG: _SETS_IN_A_FOLDER, "etc/containerd/conf.d/99-nvidia.toml": _CONTAINERD_3}, ""),
        ({_CONFIG: None, "etc/docker/daemon.json": _DOCKER}, ""),
        ({_CONFIG: None, "etc/crio/crio.conf.d/10-crio.conf": _CRIO}, ""),
        ({_CONFIG: None, f"var/lib/rancher/k3s/agent/{_CONFIG}": _CONTAINERD_2}, ""),
        ({"etc/docker/daemon.json": "{}"}, ""),
        # The kubelet names the runtime that counts.
        (
            {"etc/docker/daemon.json": "{}", "var/lib/kubelet/kubeadm-flags.env": _FLAGS},
            "container runtime wrong",
        ),
        ({"var/lib/kubelet/device-plugins/kubelet.sock": None}, "device plugin folder wrong"),
        ({"var/lib/kubelet/device-plugins/nvidia-gpu.sock": ""}, "device plugin folder wrong"),
        ({"var/lib/kubelet/pod-resources/kubelet.sock": None}, "pod resources wrong"),
        ({"proc/18/cmdline": "/usr/bin/nvidia-cuda-mps-control\0-d\0"}, "MPS unknown"),
    ],
)
def test_a_fault_of_a_machine_is_its_line(tmp_path: Path, changes: Any, expected: str) -> None:
    """One fault is one line that is not ok, and the runtime is read of each program that runs containers."""
    assert ", ".join(map(" ".join, bad(judge(machine(tmp_path, changes))))) == expected


@pytest.mark.parametrize(
    ("answers", "expected", "words"),
    [
        ({"error": "Driver/library version mismatch"}, ("libraries", "wrong"), "cannot be used: Driver/library"),
        ({"mig": ["Enabled", "Enabled"]}, ("MIG", "wrong"), "cards in MIG mode: 0, 1"),
        ({"mig": ["[N/A]", "Enabled"]}, ("MIG", "unknown"), "cards in MIG mode: 1"),
        ({"mig": "it is not there"}, ("MIG", "unknown"), "it is not there"),
        ({"mig": ["Disabled"]}, None, "no card is in MIG mode"),
    ],
)
def test_what_the_driver_answers_is_judged(tmp_path: Path, answers: Any, expected: Any, words: str) -> None:
    """A single card of several in MIG mode is not wrong."""
    lines = judge(machine(tmp_path), **answers)

    assert bad(lines) == ([expected] if expected else [])
    assert words in texts(lines, expected[0] if expected else "MIG")


def test_the_command_judges_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """Each rule has a line; the exit code is 0 if nothing is wrong, and 3 if something is."""
    code = main(["preflight", "--machine"])
    output = capsys.readouterr().out

    assert code == (0 if " 0 wrong" in output.splitlines()[-1] else 3)
    assert [name for name in RULES if name not in output] == []
