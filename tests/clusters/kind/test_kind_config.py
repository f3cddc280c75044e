"""Promises of clusters.kind.kind_config."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import yaml

from clusters.deploy import render
from clusters.kind.kind_config import (
    CARDS,
    CONTAINERD_PATCH,
    SPECIFICATION,
    Worker,
    cluster_config,
    container_of_control_plane,
    containers_of_workers,
    with_cards,
)


def config(*workers: Worker) -> dict[str, Any]:
    """For a cluster c of image i."""
    return cluster_config(Path("/run"), "gpushare-c", "i", workers, Path("/cache/images"), Path("/run/logs"))


def mounts(node: dict[str, Any]) -> dict[str, str]:
    """The files of the host in a node, and their places."""
    return {mount["containerPath"]: mount["hostPath"] for mount in node["extraMounts"]}


def test_containers_are_named_as_kind_names_them() -> None:
    """The first worker has no number, the second has 2."""
    assert containers_of_workers("c", ["a1", "a2", "b1"]) == {"a1": "c-worker", "a2": "c-worker2", "b1": "c-worker3"}
    assert container_of_control_plane("c") == "c-control-plane"


def test_a_worker_is_a_node_of_its_own_name_with_its_own_folders() -> None:
    """The Node is named by the cluster's file; device plugins, PodResources and cards lie in the run's folder."""
    _, node = config(Worker("a1", Path("/tmp/gs/n/a1"), {"gpushare": "true"}))["nodes"]
    (patch,) = map(yaml.safe_load, node["kubeadmConfigPatches"])

    assert patch == {"kind": "JoinConfiguration", "nodeRegistration": {"name": "a1"}}
    assert node["labels"] == {"gpushare": "true"}
    assert mounts(node) == {
        "/gpushare": "/cache/images",
        "/etc/containerd/gpushare-simulated.json": "/run/container.json",
        "/var/lib/kubelet/device-plugins": "/tmp/gs/n/a1/device-plugins",
        "/var/lib/kubelet/pod-resources": "/tmp/gs/n/a1/pod-resources",
        "/var/lib/gpushare-simulated": "/tmp/gs/n/a1/nvml",
        "/var/log/pods": "/tmp/gs/n/a1/logs",
    }


def patches_of(node: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """kubeadm's configuration of this kind of object on a node."""
    return [one for one in map(yaml.safe_load, node["kubeadmConfigPatches"]) if one["kind"] == kind]


def test_the_scheduler_reads_the_configuration_that_we_ship() -> None:
    """The scheduler's configuration is mounted at the documented place, and kubeadm gets the patch that we ship."""
    control_plane, *_ = config()["nodes"]

    assert mounts(control_plane)["/etc/kubernetes/scheduler-gpushare-config.yaml"] == "/run/scheduler-config.yaml"
    assert render.SCHEDULER_PATCH.read_text() in control_plane["kubeadmConfigPatches"]


def test_a_scheduler_without_a_file_is_as_kubeadm_installs_it() -> None:
    """No file is mounted, and kubeadm gets no patch for kube-scheduler."""
    arguments = (Path("/run"), "gpushare-c", "i", [], Path("/cache/images"), Path("/run/logs"))
    control_plane, *_ = cluster_config(*arguments, has_scheduler=False)["nodes"]

    assert "/etc/kubernetes/scheduler-gpushare-config.yaml" not in mounts(control_plane)
    assert [one for one in patches_of(control_plane, "ClusterConfiguration") if "scheduler" in one] == []


def test_every_node_can_put_its_cards_into_containers() -> None:
    """The patch for containerd is in the cluster's configuration, and the control plane mounts the empty folder of cards."""
    made = config(Worker("a1", Path("/tmp/gs/n/a1")))
    control_plane, _ = made["nodes"]

    assert made["containerdConfigPatches"] == [CONTAINERD_PATCH]
    assert mounts(control_plane)["/var/lib/gpushare-simulated"] == "/run/no-cards"


def test_control_plane_programs_are_light_if_kubeadm_allows() -> None:
    """Kubeadm's older language has no environment; a patch that names the newer is passed over there."""
    control_plane, *_ = config()["nodes"]
    ours, lighter = patches_of(control_plane, "ClusterConfiguration")

    assert "apiVersion" not in ours
    assert lighter["apiVersion"] == "kubeadm.k8s.io/v1beta4"
    assert (
        lighter["apiServer"]["extraEnvs"] == lighter["etcd"]["local"]["extraEnvs"] == [{"name": "GOGC", "value": "400"}]
    )


def test_what_is_handed_in_cannot_be_written() -> None:
    """The folder of images is the user's cache."""
    nodes = config(Worker("a1", Path("/tmp/gs/n/a1")))["nodes"]
    handed = [mount for node in nodes for mount in node["extraMounts"] if mount["containerPath"] == "/gpushare"]

    assert [mount["readOnly"] for mount in handed] == [True, True]


DEFAULT = {
    "ociVersion": "1.2.1",
    "process": {"cwd": "/", "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}]},
    "mounts": [{"destination": "/proc"}],
}


def test_the_cards_folder_is_one_mount_more() -> None:
    """All else is containerd's, except for limits lower than the node's."""
    made = with_cards(DEFAULT)

    assert [mount["destination"] for mount in made["mounts"]] == ["/proc", CARDS]
    assert made["mounts"][1]["options"] == ["rbind", "rw"]
    assert made["process"] == {"cwd": "/"}
    assert len(DEFAULT["mounts"]) == 1


def test_the_patch_names_the_file() -> None:
    """Where containerd of version 2 looks for it."""
    runtimes = tomllib.loads(CONTAINERD_PATCH)["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]

    assert runtimes["runc"]["base_runtime_spec"] == SPECIFICATION
