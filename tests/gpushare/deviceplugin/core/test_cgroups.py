"""Promises of gpushare.deviceplugin.core.usage about the names of control groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.usage import pods_in_cgroups

UID = "3b1f2c4d-5e6f-4a7b-8c9d-0a1b2c3d4e5f"
UNDERSCORED = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
ID = "c0ffee" + "0123456789abcdef" * 3 + "0123456789"
OUTER = "ab" * 32

# Driver, runtime, version of cgroups: the content of /proc/<pid>/cgroup for a process in a container of the pod.
SYSTEMD = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice"
PATHS = {
    "containerd, v2, systemd": f"0::{SYSTEMD}/cri-containerd-{ID}.scope\n",
    "containerd, v2, systemd, guaranteed": f"0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope\n",
    "containerd, v2, cgroupfs": f"0::/kubepods/besteffort/pod{UID}/{ID}\n",
    "containerd, v2, cgroupfs, guaranteed": f"0::/kubepods/pod{UID}/{ID}\n",
    "containerd, v1, cgroupfs": (
        f"12:memory:/kubepods/burstable/pod{UID}/{ID}\n11:cpu,cpuacct:/kubepods/burstable/pod{UID}/{ID}\n"
        f"1:name=systemd:/kubepods/burstable/pod{UID}/{ID}\n0::/system.slice/containerd.service\n"
    ),
    "containerd, v1, a controller that nobody uses": f"13:misc:/\n12:rdma:/\n4:memory:/kubepods/besteffort/pod{UID}/{ID}\n",
    "containerd, v1, systemd": f"5:devices:{SYSTEMD}/cri-containerd-{ID}.scope\n",
    "containerd, v1, a systemd kubelet over a cgroupfs runtime": (
        f"3:pids:/system.slice/containerd.service/kubepods-burstable-pod{UNDERSCORED}.slice:cri-containerd:{ID}\n"
    ),
    "CRI-O, v2, systemd": f"0::{SYSTEMD}/crio-{ID}.scope\n",
    "CRI-O, v2, systemd, a group below": f"0::{SYSTEMD}/crio-{ID}.scope/container\n",
    "CRI-O, v1, cgroupfs": f"9:memory:/kubepods/burstable/pod{UID}/crio-{ID}\n",
    "Docker, v1, cgroupfs": f"4:memory:/kubepods/besteffort/pod{UID}/{ID}\n3:cpu:/\n",
    "Docker, v1, systemd": f"4:memory:{SYSTEMD}/docker-{ID}.scope\n",
    "Docker, v2, systemd": f"0::{SYSTEMD}/docker-{ID}.scope\n",
    "kind, v2": (
        f"0::/docker/{OUTER}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
        f"kubelet-kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope\n"
    ),
    "kind, v1": f"8:memory:/docker/{OUTER}/kubelet/kubepods/besteffort/pod{UID}/{ID}\n",
    "seen from a namespace of cgroups, systemd": f"0::/../../kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope\n",
    "seen from a namespace of cgroups, cgroupfs": f"0::/../../pod{UID}/{ID}\n",
    "a container in the container": f"0::{SYSTEMD}/cri-containerd-{ID}.scope/docker/{OUTER}\n",
}


@pytest.mark.parametrize("text", PATHS.values(), ids=PATHS.keys())
def test_process_belongs_to_the_pod_of_its_control_group(text: str) -> None:
    """The pod's uid as the API writes it, whatever runs the node."""
    assert [UID] == pods_in_cgroups(text)


STRANGERS = {
    "a service of the host": "0::/system.slice/sshd.service\n",
    "the root": "0::/\n",
    "Docker without Kubernetes": f"0::/system.slice/docker-{ID}.scope\n",
    "containerd without Kubernetes": f"0::/k8s.io/{ID}\n",
    "a user's session": "1:name=systemd:/user.slice/user-1000.slice/session-3.scope\n0::/user.slice\n",
    "a group that only sounds like a pod": f"0::/mine/pod{UID}/{ID}\n",
    "a pod's name without its end": f"0::/kubepods/burstable/pod{UID}x/{ID}\n",
    "a pod of podman": f"0::/machine.slice/libpod_pod_{ID}.slice/libpod-{ID}.scope\n",
    "nothing": "",
    "a line that is none": "nonsense",
}


@pytest.mark.parametrize("text", STRANGERS.values(), ids=STRANGERS.keys())
def test_a_process_outside_of_pods_belongs_to_none(text: str) -> None:
    """No process is taken for a pod's by a resemblance."""
    assert pods_in_cgroups(text) == []


def test_a_static_pod_is_named_by_the_hash_of_its_manifest() -> None:
    """32 digits without dashes; its mirror in the API names them in an annotation."""
    assert pods_in_cgroups(f"0::/kubepods/besteffort/pod{STATIC}/{ID}\n") == [STATIC]


def test_a_node_in_a_pod_shows_both_pods_the_outer_first() -> None:
    """The caller knows which of them is of this cluster."""
    inner = f"kubelet/kubepods/pod{UID}/{ID}"
    outer = "11111111-2222-3333-4444-555555555555"

    assert pods_in_cgroups(f"0::/kubepods/pod{outer}/{OUTER}/{inner}\n") == [outer, UID]


def test_a_process_in_the_pods_group_itself_is_the_pods() -> None:
    """A process of no container of the pod."""
    assert pods_in_cgroups(f"0::{SYSTEMD}\n") == [UID]


@given(
    uid=st.uuids().map(str),
    container=st.binary(min_size=32, max_size=32).map(bytes.hex),
    qos=st.sampled_from(["", "burstable", "besteffort"]),
    runtime=st.sampled_from(["cri-containerd", "crio", "docker"]),
    front=st.sampled_from(["", "/docker/" + OUTER, "/lxc/box"]),
)
def test_every_uid_comes_back(uid: str, container: str, qos: str, runtime: str, front: str) -> None:
    """The uid comes back with both drivers, in every class of service, and inside any node."""
    dashed = f"-{qos}" if qos else ""
    slices = f"/kubepods{dashed}.slice" if qos else ""
    systemd = (
        f"{front}/kubepods.slice{slices}/kubepods{dashed}-pod{uid.replace('-', '_')}.slice/{runtime}-{container}.scope"
    )
    cgroupfs = f"{front}/kubepods/{qos + '/' if qos else ''}pod{uid}/{container}"

    expected = [uid]
    assert expected == pods_in_cgroups(f"0::{systemd}\n") == pods_in_cgroups(f"7:memory:{cgroupfs}\n")


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    """The kernel's texts are not ours to refuse."""
    pods_in_cgroups(text)
