"""The kinds of control plane nodes, known by their files, and what kube-scheduler has to have on each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from gpushare.setup.core import static_pod
from gpushare.setup.core.faults import SetupRefusedError
from gpushare.setup.core.scheduler_files import EXTENDER_URL, KUBECONFIG, Tls, reads_policy_only, scheduler_file
from gpushare.setup.core.static_pod import SchedulerPod, minor_of
from gpushare.setup.core.yaml_edit import Entry, load

MANIFESTS: Final = "/etc/kubernetes/manifests"
MANIFEST: Final = f"{MANIFESTS}/kube-scheduler.yaml"
OPENSHIFT_MANIFEST: Final = f"{MANIFESTS}/kube-scheduler-pod.yaml"
RKE_KUBECONFIG: Final = "/etc/kubernetes/ssl/kubecfg-kube-scheduler.yaml"
RANCHER_KUBECONFIG: Final = "/var/lib/rancher/{}/server/cred/scheduler.kubeconfig"
RANCHER_CONFIG: Final = "/etc/rancher/{}/config.yaml"
RKE2_POD: Final = "/var/lib/rancher/rke2/agent/pod-manifests/kube-scheduler.yaml"
K0S_KUBECONFIG: Final = "/var/lib/k0s/pki/scheduler.conf"
K0S_CONFIG: Final = "/etc/k0s/k0s.yaml"
SECOND_SCHEDULER: Final = (
    "run a second scheduler for the pods that share cards: kubectl apply -k clusters/deploy/overlays/second-scheduler"
)
# The files that are looked for, without a look into those of an account, and the files that are read.
CREDENTIALS: Final = (
    RKE_KUBECONFIG, K0S_KUBECONFIG, OPENSHIFT_MANIFEST, *map(RANCHER_KUBECONFIG.format, ("rke2", "k3s")),
)  # fmt: skip
READ: Final = (MANIFEST, RKE2_POD, K0S_CONFIG, *map(RANCHER_CONFIG.format, ("rke2", "k3s")))
READ_BY_PATTERN: Final = (
    f"{MANIFESTS}/*kube-scheduler*",
    *(f"/etc/rancher/{one}/config.yaml.d/*.yaml" for one in ("rke2", "k3s")),
)
# The flags by which kube-scheduler takes its file.
CONFIG: Final = "config"
POLICY: Final = "policy-config-file"
VOLUMES: Final = ("gpushare-scheduler", "gpushare-ca", "gpushare-certificate", "gpushare-key")


@dataclass(frozen=True, slots=True)
class Wish:
    """A person's choices."""

    minor: int | None = None
    """The minor of Kubernetes 1; None for the one that the node's files name."""
    extender_url: str = EXTENDER_URL
    tls: Tls | None = None
    rke_cluster: str = ""
    """Path of RKE's cluster.yml."""
    is_replacing: bool = False
    """A scheduler's file that is another's, or was edited, is replaced."""


@dataclass(frozen=True, slots=True)
class Site:
    """A control plane node, and what it has to have."""

    name: str
    minor: int
    flag: str
    """The flag by which kube-scheduler gets its file: ``config`` or ``policy-config-file``."""
    file: str
    """The path of kube-scheduler's file."""
    text: str
    """The text that the file has to have."""
    document: str
    """The path of the file that names the scheduler's file."""
    entries: tuple[Entry, ...]
    """The entries that the document has to have."""
    current: Mapping[str, str]
    """The files of ``config`` and ``policy-config-file`` that kube-scheduler has now."""
    restart: str = ""
    """The command by which a person restarts kube-scheduler; "" if the kubelet does."""
    is_by_hand: bool = False
    """The document belongs to a program that a person runs elsewhere."""
    pod: SchedulerPod | None = None
    has_process: bool = True
    """kube-scheduler is a process of its own, and no part of another."""

    @property
    def argument(self) -> str:
        """The word that kube-scheduler's command line has to have."""
        return f"--{self.flag}={self.file}"

    @property
    def afterwards(self) -> str:
        """The rest of a change, which a person does; "" for nothing."""
        if self.is_by_hand:
            return f"change {'.'.join(map(str, self.entries[0].at))} in {self.document}, then: {self.restart}"
        return self.restart


def recognise(files: Mapping[str, str], wish: Wish) -> Site:
    """The site with these files, by path. Raises SetupRefusedError."""
    kinds: dict[str, Callable[[], Site]] = {
        OPENSHIFT_MANIFEST: _openshift,
        MANIFEST: partial(_static_pod, files, wish),
        RKE_KUBECONFIG: partial(_rke, files, wish),
        RANCHER_KUBECONFIG.format("rke2"): partial(_rancher, "rke2", files, wish),
        RANCHER_KUBECONFIG.format("k3s"): partial(_rancher, "k3s", files, wish),
        K0S_KUBECONFIG: partial(_k0s, files, wish),
    }
    found = [path for path in kinds if path in files]
    if len(found) > 1:
        raise SetupRefusedError(
            f"this node has the schedulers of several kinds of cluster: {', '.join(found)}",
            "remove what an earlier installation left behind",
        )
    if not found:
        raise SetupRefusedError(
            "no kube-scheduler of a known kind is on this node",
            f"run it on a control plane node; if the provider keeps that (EKS, GKE, AKS, ACK), {SECOND_SCHEDULER}",
        )
    return kinds[found[0]]()


def tls_files(wish: Wish) -> tuple[str, ...]:
    """The files of TLS that kube-scheduler reads at its start."""
    return tuple(filter(None, (wish.tls.ca, wish.tls.certificate, wish.tls.key))) if wish.tls is not None else ()


def _openshift() -> Site:
    raise SetupRefusedError(
        f"{OPENSHIFT_MANIFEST}: OpenShift's operator writes kube-scheduler's manifest, and takes no extender",
        SECOND_SCHEDULER,
    )


def _minor(named: str, wish: Wish) -> int:
    minor = wish.minor if wish.minor is not None else minor_of(named)
    if minor is None:
        raise SetupRefusedError(
            "the node's files do not name the release of Kubernetes", "pass --kubernetes with it, such as 1.30"
        )
    return minor


def _file(minor: int, kubeconfig: str, wish: Wish) -> str:
    return scheduler_file(minor, wish.extender_url, tls=wish.tls, kubeconfig=kubeconfig)


def _static_pod(files: Mapping[str, str], wish: Wish) -> Site:
    pod = static_pod.read(files[MANIFEST], MANIFEST)
    minor = _minor(pod.image, wish)
    flag, name = (POLICY, "policy.json") if reads_policy_only(minor) else (CONFIG, "config.yaml")
    file = f"/etc/kubernetes/scheduler-gpushare-{name}"
    kubeconfig = pod.flags.get("kubeconfig")
    if not kubeconfig:
        raise SetupRefusedError(
            f"{MANIFEST}: kube-scheduler has no --kubeconfig, so its account is unknown",
            f"add --kubeconfig={KUBECONFIG}",
        )
    text = _file(minor, kubeconfig, wish)
    mounted = dict(zip(VOLUMES, (file, *tls_files(wish)), strict=False))
    entries = static_pod.entries(pod, flag, mounted, hashlib.sha256(text.encode()).hexdigest()[:16])
    current = {one: pod.on_node(pod.flags[one]) or pod.flags[one] for one in (CONFIG, POLICY) if one in pod.flags}
    return Site("kubeadm", minor, flag, file, text, MANIFEST, tuple(entries), current, pod=pod)


def _rke(files: Mapping[str, str], wish: Wish) -> Site:
    """RKE writes its containers again from cluster.yml; each of them has /etc/kubernetes mounted."""
    if wish.rke_cluster and wish.rke_cluster not in files:
        raise SetupRefusedError(f"{wish.rke_cluster} is not there", "name RKE's cluster.yml with --rke-cluster")
    document = _mapping(load(files.get(wish.rke_cluster, ""), wish.rke_cluster))
    minor = _minor(str(document.get("kubernetes_version")), wish)
    flag, name = (POLICY, "policy.json") if reads_policy_only(minor) else (CONFIG, "config.yaml")
    file = f"/etc/kubernetes/scheduler-gpushare-{name}"
    at = ("services", "scheduler", "extra_args")
    flags = _mapping(document, *at)
    return Site(
        "RKE", minor, flag, file, _file(minor, RKE_KUBECONFIG, wish), wish.rke_cluster or "cluster.yml",
        (Entry((*at, flag), file),), _current(flags), "rke up", is_by_hand=True,
    )  # fmt: skip


def _rancher(kind: str, files: Mapping[str, str], wish: Wish) -> Site:
    """A list in a file of config.yaml.d replaces the one of config.yaml."""
    config, key = RANCHER_CONFIG.format(kind), "kube-scheduler-arg"
    keys = (key, "kube-scheduler-extra-mount")
    for path in sorted(files):
        names = _mapping(load(files[path], path)) if path.startswith(f"{config}.d/") else {}
        for name in [one for one in keys if one in names or f"{one}+" in names]:
            raise SetupRefusedError(
                f"{path}: sets {name}, which wins over {config}", f"move its list of {name} to {config}"
            )
    arguments = _mapping(load(files.get(config, ""), config)).get(key) or []
    if not isinstance(arguments, list):
        raise SetupRefusedError(f"{config}: {key} is one text", f"write it as a list: {key}: [{arguments}]")
    flags = dict(str(one).partition("=")[::2] for one in arguments)
    minor = _minor(files.get(RKE2_POD, ""), wish)
    if reads_policy_only(minor):
        raise SetupRefusedError(
            f"{kind} of Kubernetes 1.{minor} is not known here", "update the cluster to 1.19 or newer"
        )
    file = f"/etc/rancher/{kind}/scheduler-gpushare-config.yaml"
    entries = [Entry((key,), f"{CONFIG}={file}", is_item=True)]
    if kind == "rke2":
        # k3s runs kube-scheduler in its own process.
        entries.append(Entry((keys[1],), f"{file}:{file}", is_item=True))
    service = "rke2-server" if kind == "rke2" else "k3s"
    return Site(
        {"rke2": "RKE2", "k3s": "k3s"}[kind], minor, CONFIG, file, _file(minor, RANCHER_KUBECONFIG.format(kind), wish), config,
        tuple(entries), _current(flags), f"systemctl restart {service}", has_process=kind == "rke2",
    )  # fmt: skip


def _k0s(files: Mapping[str, str], wish: Wish) -> Site:
    if K0S_CONFIG not in files:
        raise SetupRefusedError(f"{K0S_CONFIG} is not there", f"write it: k0s config create > {K0S_CONFIG}")
    at = ("spec", "scheduler", "extraArgs")
    flags = _mapping(load(files[K0S_CONFIG], K0S_CONFIG), *at)
    minor = _minor("", wish)
    file = "/etc/k0s/scheduler-gpushare-config.yaml"
    return Site(
        "k0s", minor, CONFIG, file, _file(minor, K0S_KUBECONFIG, wish), K0S_CONFIG, (Entry((*at, CONFIG), file),),
        _current(flags), "systemctl restart k0scontroller",
    )  # fmt: skip


def _current(flags: Mapping[str, Any]) -> dict[str, str]:
    return {one: str(flags[one]) for one in (CONFIG, POLICY) if one in flags}


def _mapping(document: Any, *at: str) -> Mapping[str, Any]:
    for step in at:
        document = document.get(step) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}
