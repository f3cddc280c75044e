"""Which programs Go builds for the node image, from which pinned modules."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Final

from clusters.controlplane import binaries
from clusters.provider import ClusterError

MODULES: Final = Path(__file__).parents[2] / "binaries"
# In the node's file system.
NODE_PROGRAMS: Final = ("kubelet", "kubeadm", "kubectl", "containerd", "containerd-shim-runc-v2", "ctr")
NETWORK_PLUGINS: Final = ("host-local", "loopback", "portmap", "ptp")
# Each in an image of its own.
IMAGE_PROGRAMS: Final = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "etcd",
    "coredns",
    "pause",
)
_KUBERNETES: Final = "k8s.io/kubernetes"
_KUBERNETES_PROGRAMS: Final = (*binaries.KUBERNETES_PROGRAMS, "kubelet", "kubeadm", "kube-proxy")
_CONTAINERD: Final = "github.com/containerd/containerd/v2"
_CONTAINERD_VERSION: Final = f"{_CONTAINERD}/version"
_CNI: Final = "github.com/containernetworking/plugins"
_COREDNS: Final = "github.com/coredns/coredns"
_ETCD: Final = "go.etcd.io/etcd/server/v3"


def minors() -> list[str]:
    """The minors of Kubernetes with a pinned kubelet, the newest first."""
    return [minor for minor in binaries.minors() if f'"{_KUBERNETES}/cmd/kubelet"' in _tools(minor)]


def _tools(minor: str) -> str:
    return (binaries.MODULES / f"kubernetes-{minor}" / "tools.go").read_text()


def modules(minor: str) -> tuple[binaries.Module, ...]:
    """The builds for a node of that minor, Kubernetes first. Raises ClusterError for one that is not pinned."""
    if minor not in minors():
        raise ClusterError(f"a kubelet of Kubernetes {minor} is not pinned here; there is: {', '.join(minors())}")
    folder = binaries.MODULES / f"kubernetes-{minor}"
    kubernetes = {program: f"{_KUBERNETES}/cmd/{program}" for program in _KUBERNETES_PROGRAMS}
    return (
        binaries.module_of(folder, "kubernetes", _KUBERNETES, kubernetes),
        binaries.module_of(binaries.MODULES / "etcd", "etcd", _ETCD, {"etcd": _ETCD}),
        _containerd(),
        _network_plugins(),
        binaries.module_of(MODULES / "coredns", "coredns", _COREDNS, {"coredns": "gpushare/kind/coredns"}),
        pause(),
    )


def pause() -> binaries.Module:
    """Our own, so its version is its content."""
    folder = MODULES / "pause"
    content = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.iterdir()))).hexdigest()
    return binaries.Module("pause", folder, content[:12], {"pause": "gpushare/kind/pause"})


def _containerd() -> binaries.Module:
    programs = ("containerd", "containerd-shim-runc-v2", "ctr")
    packages = {program: f"{_CONTAINERD}/cmd/{program}" for program in programs}
    plain = binaries.module_of(MODULES / "containerd", "containerd", _CONTAINERD, packages)
    stamps = {f"{_CONTAINERD_VERSION}.Version": plain.version}
    return dataclasses.replace(plain, stamps=stamps, tags=("urfave_cli_no_docs",))


def _network_plugins() -> binaries.Module:
    packages = {
        "host-local": f"{_CNI}/plugins/ipam/host-local",
        "loopback": f"{_CNI}/plugins/main/loopback",
        "portmap": f"{_CNI}/plugins/meta/portmap",
        "ptp": f"{_CNI}/plugins/main/ptp",
    }
    return binaries.module_of(MODULES / "cni", "network-plugins", _CNI, packages)
