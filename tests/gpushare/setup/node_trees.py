"""The files of control plane nodes, as each kind of cluster leaves them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpushare.setup.core.rancher import CONFIG as RANCHER_CONFIG
from gpushare.setup.core.sites import (
    K0S_CONFIG,
    K0S_KUBECONFIG,
    MANIFEST,
    RANCHER_KUBECONFIG,
    RKE2_POD,
    RKE_KUBECONFIG,
)

CLUSTER_YML: Final = "/root/cluster.yml"


def kubeadm(minor: int = 30, *, flags: str = "", probe_port: str = "10259", scheme: str = "HTTPS") -> dict[str, str]:
    """As kubeadm writes it."""
    return {MANIFEST: MANIFEST_TEXT.format(minor=minor, flags=flags, port=probe_port, scheme=scheme)}


MANIFEST_TEXT: Final = """\
apiVersion: v1
kind: Pod
metadata:
  creationTimestamp: null
  labels:
    component: kube-scheduler
    tier: control-plane
  name: kube-scheduler
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-scheduler
    # only this node asks it
    - --bind-address=127.0.0.1   # loopback
    - --kubeconfig=/etc/kubernetes/scheduler.conf
{flags}    - --leader-elect=true
    image: registry.k8s.io/kube-scheduler:v1.{minor}.4
    imagePullPolicy: IfNotPresent
    livenessProbe:
      failureThreshold: 8
      httpGet:
        host: 127.0.0.1
        path: /healthz
        port: {port}
        scheme: {scheme}
    name: kube-scheduler
    resources:
      requests:
        cpu: 100m
    volumeMounts:
    - mountPath: /etc/kubernetes/scheduler.conf
      name: kubeconfig
      readOnly: true
  hostNetwork: true
  priorityClassName: system-node-critical
  volumes:
  - hostPath:
      path: /etc/kubernetes/scheduler.conf
      type: FileOrCreate
    name: kubeconfig
status: {{}}
"""


def rke(cluster: str | None = None) -> dict[str, str]:
    """A node of RKE; with its cluster.yml if the text is given."""
    return {RKE_KUBECONFIG: "account"} | ({} if cluster is None else {CLUSTER_YML: cluster})


RKE_CLUSTER: Final = """\
# our T4 node
kubernetes_version: v1.20.15-rancher1-1
nodes:
    - address: 10.0.0.7
      role: [controlplane, worker, etcd]
services:
    etcd:
        snapshot: true   # each night
"""


def rke2(
    config: str | None = None, image: str = "index.docker.io/rancher/hardened-kubernetes:v1.28.9-rke2r1-build20240416"
) -> dict[str, str]:
    """A server of RKE2."""
    found = {RANCHER_KUBECONFIG.format("rke2"): "account", RKE2_POD: f"spec:\n  containers:\n  - image: {image}\n"}
    return found if config is None else found | {RANCHER_CONFIG.format("rke2"): config}


def k3s(config: str | None = None) -> dict[str, str]:
    """A server of k3s; its files do not name its release."""
    found = {RANCHER_KUBECONFIG.format("k3s"): "account"}
    return found if config is None else found | {RANCHER_CONFIG.format("k3s"): config}


K0S_TEXT: Final = """\
apiVersion: k0s.k0sproject.io/v1beta1
kind: ClusterConfig
metadata:
  name: k0s
spec:
  api:
    address: 10.0.0.8
  scheduler: {}
  telemetry:
    enabled: false
"""


def k0s(config: str = K0S_TEXT) -> dict[str, str]:
    """A controller of k0s."""
    return {K0S_KUBECONFIG: "account", K0S_CONFIG: config}


def running(number: int, *words: str, start: str = "100") -> dict[str, str]:
    """A process, as /proc shows it: its command line, and in the 22nd field when it started."""
    return {
        f"/proc/{number}/cmdline": "".join(f"{word}\0" for word in words),
        f"/proc/{number}/stat": f"{number} ({words[0][-15:]} (x)) S {'0 ' * 18}{start} 0 0\n",
    }


def write(root: Path, files: dict[str, str]) -> Path:
    """Put the files below a folder; the folder."""
    for path, text in files.items():
        here = root / path.lstrip("/")
        here.parent.mkdir(parents=True, exist_ok=True)
        here.write_text(text)
    return root


def whole(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below the folder but those of processes and gpushare-setup's own record: bytes and mode."""
    left_out = (root / "proc", root / "var/lib/gpushare-setup")
    return {
        f"/{path.relative_to(root)}": (path.read_bytes(), path.stat().st_mode)
        for top in root.iterdir()
        if top not in left_out
        for path in (top, *top.rglob("*"))
        if path.is_file() and not path.is_relative_to(left_out[1])
    }
