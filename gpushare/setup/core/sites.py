"""The kinds of control plane nodes, known by their files, and what kube-scheduler has to have on each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from gpushare import wire
from gpushare.setup.core import rancher, static_pod
from gpushare.setup.core.command_line import base_name, flags_of, patterns, services, values_of
from gpushare.setup.core.faults import SetupRefusedError
from gpushare.setup.core.scheduler_files import (
    EXTENDER_SCORES,
    EXTENDER_URL,
    KUBECONFIG,
    Tls,
    extended,
    extenders_of,
    file_faults,
    is_gpushares,
    is_originals,
    is_written_here,
    reads_policy_only,
    scheduler_file,
    scores_of,
    tls_of,
)
from gpushare.setup.core.static_pod import SchedulerPod, minor_of
from gpushare.setup.core.yaml_edit import Entry, load, mapping

MANIFESTS: Final = "/etc/kubernetes/manifests"
MANIFEST: Final = f"{MANIFESTS}/kube-scheduler.yaml"
OPENSHIFT_MANIFEST: Final = f"{MANIFESTS}/kube-scheduler-pod.yaml"
RKE_KUBECONFIG: Final = "/etc/kubernetes/ssl/kubecfg-kube-scheduler.yaml"
RANCHER_KUBECONFIG: Final = "/var/lib/rancher/{}/server/cred/scheduler.kubeconfig"
RKE2_POD: Final = "/var/lib/rancher/rke2/agent/pod-manifests/kube-scheduler.yaml"
K0S_KUBECONFIG: Final = "/var/lib/k0s/pki/scheduler.conf"
K0S_CONFIG: Final = "/etc/k0s/k0s.yaml"
SECOND_SCHEDULER: Final = (
    "run a second scheduler for the pods that share cards: kubectl apply -k clusters/deploy/overlays/second-scheduler"
)
# The kubelet's file, in which kubeadm and kubespray name the folder of static pods.
_KUBELET_CONFIGS: Final = ("/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet-config.yaml")
_KOPS: Final = "/var/lib/kube-scheduler/"
_BY_KOPS: Final = (
    "kops writes it again from the cluster spec, so change it there: kops edit cluster (kubeScheduler:), with a "
    "KubeSchedulerConfiguration that has the extender; or " + SECOND_SCHEDULER
)
_BY_HAND: Final = "add gpushare's extender by hand to the file of its --config, or " + SECOND_SCHEDULER
# Other ways to start a kube-scheduler: their files, and what to do.
_OTHERS: Final = {
    "/var/snap/microk8s/current/args/kube-scheduler": f"these are MicroK8s' flags of kube-scheduler: {_BY_HAND}",
    "/system/config/kubernetes/kube-scheduler/scheduler-config.yaml":
        f"Talos writes it: put the extender into cluster.scheduler.config of the machine configuration, or {SECOND_SCHEDULER}",
}  # fmt: skip
# The files that are looked for, without a look into those of an account, and the files that are read.
CREDENTIALS: Final = (
    RKE_KUBECONFIG, K0S_KUBECONFIG, OPENSHIFT_MANIFEST, *map(RANCHER_KUBECONFIG.format, rancher.KINDS), *_OTHERS,
)  # fmt: skip
READ: Final = (MANIFEST, RKE2_POD, K0S_CONFIG, *map(rancher.CONFIG.format, rancher.KINDS), *_KUBELET_CONFIGS)
READ_BY_PATTERN: Final = tuple(
    pattern for name in (*rancher.KINDS, "k0scontroller", "kubelet", "kube-scheduler") for pattern in patterns(name)
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
    extender_url: str | None = None
    """None for that of kube-scheduler's file, with its files of TLS; if it names no extender of ours, EXTENDER_URL."""
    tls: Tls | None = None
    rke_cluster: str = ""
    """Path of RKE's cluster.yml."""
    is_replacing: bool = False
    """A scheduler's file that is another's, or was edited, is replaced."""
    scores: str | None = None
    """How nodes are scored, of ``STRATEGIES``; None for the choice of kube-scheduler's file, or the extender."""
    flags: str = ""
    """Those by which the same is asked of another verb, each with a blank before it."""

    @property
    def url(self) -> str:
        """The URL to write."""
        return self.extender_url or EXTENDER_URL

    @property
    def apply(self) -> str:
        """The advice to apply it."""
        return f"run gpushare-setup apply{self.flags}"


@dataclass(frozen=True, slots=True)
class ControlPlaneNode:
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
    named_by: str = ""
    """The file that names ``file`` to kube-scheduler, and is not changed here; "" for ``document``, or none."""
    is_extended: bool = False
    """``file`` is a person's, and gets the extender alone."""
    inside: str = ""
    """The path of ``file`` in kube-scheduler's container, if it is another."""
    owner: str = ""
    """The advice to a person, because another program writes these files again; "" if none does."""
    restart: str = ""
    """The command by which a person restarts kube-scheduler; "" if the kubelet does."""
    is_by_hand: bool = False
    """The document belongs to a program that a person runs elsewhere."""
    pod: SchedulerPod | None = None
    has_process: bool = True
    """kube-scheduler is a process of its own, and no part of another."""
    wish: Wish = Wish()
    """The choices, with the extender's URL and files of TLS that kube-scheduler's file has if nothing else is asked for."""

    @property
    def argument(self) -> str:
        """The word that kube-scheduler's command line has to have."""
        return f"--{self.flag}={self.inside or self.file}"

    def runs_with_it(self, words: Sequence[str]) -> bool:
        """Does a kube-scheduler of this command line read the file?"""
        try:
            return flags_of(words[1:]).get(self.flag) == (self.inside or self.file)
        except ValueError:
            return False

    @property
    def afterwards(self) -> str:
        """The rest of a change, which a person does; "" for nothing."""
        if self.is_by_hand:
            return f"change {'.'.join(map(str, self.entries[0].at))} in {self.document}, then: {self.restart}"
        return self.restart


def recognise(files: Mapping[str, str], wish: Wish) -> ControlPlaneNode:
    """The site with these files, by path. Raises SetupRefusedError."""
    manifest = scheduler_manifest(files)
    kinds: dict[str, Callable[[], ControlPlaneNode]] = {
        OPENSHIFT_MANIFEST: _openshift,
        manifest: partial(_static_pod, manifest, files, wish),
        RKE_KUBECONFIG: partial(_rke, files, wish),
        **{RANCHER_KUBECONFIG.format(kind): partial(_rancher, kind, files, wish) for kind in rancher.KINDS},
        K0S_KUBECONFIG: partial(_k0s, files, wish),
    }
    # A server with its data elsewhere is known by what starts it.
    kinds = {path: kind for path, kind in kinds.items() if path in files} or {
        started[0].path: partial(_rancher, kind, files, wish)
        for kind in rancher.KINDS
        if (started := rancher.start(files, kind)) is not None
    }
    if len(kinds) > 1:
        raise SetupRefusedError(
            f"this node has the schedulers of several kinds of cluster: {', '.join(kinds)}",
            "remove what an earlier installation left behind",
        )
    if not kinds:
        raise _unknown(files)
    return next(iter(kinds.values()))()


def _unknown(files: Mapping[str, str]) -> SetupRefusedError:
    others = {path: fix for path, fix in _OTHERS.items() if path in files}
    others |= {one.path: f"a service of its own: {_BY_HAND}" for one in services(files, "kube-scheduler")}
    if MANIFEST in files:
        others[MANIFEST] = f"the kubelet reads {static_pods(files)}: run the scheduler from there, or remove the file"
    for path, fix in others.items():
        return SetupRefusedError(f"{path}: kube-scheduler is started in a way that gpushare-setup does not change", fix)
    return SetupRefusedError(
        "no kube-scheduler of a known kind is on this node",
        f"run it on a control plane node; if the provider keeps that (EKS, GKE, AKS, ACK), {SECOND_SCHEDULER}",
    )


def static_pods(files: Mapping[str, str]) -> str:
    """The folder of which the kubelet runs each file that does not begin with a dot."""
    words = [word for one in services(files, "kubelet") for word in one.words]
    named = values_of(words, ("--pod-manifest-path", "-pod-manifest-path"))
    for path in (*values_of(words, ("--config",)), *_KUBELET_CONFIGS):
        named.append(str(mapping(load(files.get(path, ""), path)).get("staticPodPath") or ""))
    return next((one.rstrip("/") for one in named if one), MANIFESTS)


def in_static_pods(files: Mapping[str, str]) -> Iterator[str]:
    """The files of that folder."""
    folder = static_pods(files)
    return (path for path in sorted(files) if path.rpartition("/")[0] == folder and not base_name(path).startswith("."))


def scheduler_manifest(files: Mapping[str, str]) -> str:
    """The path of the manifest of the cluster's scheduler, "" if there is none; kubeadm's name before others."""
    found = [
        path
        for path in in_static_pods(files)
        if path != OPENSHIFT_MANIFEST and static_pod.is_scheduler(files[path], path)
    ]
    return min(found, key=lambda path: (base_name(path) != base_name(MANIFEST), path), default="")


def named_files(files: Mapping[str, str], wish: Wish) -> tuple[str, ...]:
    """The paths, and patterns of paths, of files that those name, and that have to be read too. Raises SetupRefusedError."""
    started = [one for name in (*rancher.KINDS, "k0scontroller", "kubelet") for one in services(files, name)]
    found = [path for one in started for path in one.environment_files]
    found += [path for one in started for path in values_of(one.words, ("--config", "-c"))]
    for kind in rancher.KINDS:
        config = rancher.config_of(files, kind)
        found += [config, f"{config}.d/*.yaml", f"{config}.d/*.yml", f"{config}.d/.*.yaml"]
    found.append(f"{static_pods(files)}/[!.]*")
    try:
        site = recognise(files, wish)
    except SetupRefusedError:
        # More files may be what is missing.
        return tuple(found)
    return (*found, site.file, *site.current.values())


def tls_files(wish: Wish) -> tuple[str, ...]:
    """The files of TLS that kube-scheduler reads at its start."""
    return tuple(filter(None, (wish.tls.ca, wish.tls.certificate, wish.tls.key))) if wish.tls is not None else ()


def _openshift() -> ControlPlaneNode:
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


def _as_present(files: Mapping[str, str], wish: Wish, *paths: str) -> Wish:
    """With the URL and the files of TLS of gpushare's extender, and the scores, in the first of these files that names it.

    Neither replaces what is asked for.

    An entry of the original's is replaced by ours at our own address. Raises SetupRefusedError.
    """
    for path in paths:
        document = load(files.get(path, ""), path)
        if wish.scores is None and document:
            wish = replace(wish, scores=scores_of(document))
        if wish.extender_url is not None:
            continue
        for one in () if is_originals(document) else filter(is_gpushares, extenders_of(document)):
            url, tls = str(one["urlPrefix"]).removesuffix("/"), tls_of(one)
            if url.startswith("https://") and tls is None:
                raise SetupRefusedError(
                    f"{path}: kube-scheduler trusts whatever answers at {url}, as the extender has no caFile",
                    f"{wish.apply} --extender-url={url} --extender-ca-file=FILE",
                )
            return replace(wish, extender_url=url, tls=tls)
    return wish


def _text(files: Mapping[str, str], file: str, minor: int, kubeconfig: str, wish: Wish, *, is_own: bool) -> str:
    """The text that the file has to have: a new one, or what is there with gpushare's extender."""
    scores = wish.scores or EXTENDER_SCORES
    new = scheduler_file(minor, wish.url, tls=wish.tls, kubeconfig=kubeconfig, scores=scores)
    old = files.get(file)
    if old is None or (is_own and wish.is_replacing):
        return new
    document = load(old, file)
    if is_own and is_written_here(document):
        return new
    if scores_of(document) != scores:
        raise SetupRefusedError(
            f"{file}: a profile's scores are not edited here", "change its pluginConfig of NodeResourcesFit by hand"
        )
    text = extended(old, file, wish.url, wish.tls)
    return old if not file_faults(document, minor, text) else text


def _place(minor: int, folder: str) -> tuple[str, str]:
    """The flag, and the file that is written if there is none."""
    flag, name = (POLICY, "policy.json") if reads_policy_only(minor) else (CONFIG, "config.yaml")
    return flag, f"{folder}/scheduler-gpushare-{name}"


def _static_pod(manifest: str, files: Mapping[str, str], wish: Wish) -> ControlPlaneNode:
    pod = static_pod.read(files[manifest], manifest)
    minor = _minor(pod.image, wish)
    flag, file = _place(minor, "/etc/kubernetes")
    current = {one: pod.on_node(pod.flags[one]) or pod.flags[one] for one in (CONFIG, POLICY) if one in pod.flags}
    is_own = current.get(flag, file) == file or (wish.is_replacing and pod.takes(flag))
    if not is_own:
        file = current[flag]
    if not is_own and pod.on_node(pod.flags[flag]) is None:
        raise SetupRefusedError(
            f"{manifest}: --{flag}={pod.flags[flag]} of kube-scheduler is no file of this node",
            "mount it from the node, and run gpushare-setup again",
        )
    if is_own and flag not in pod.flags and not pod.takes(flag):
        raise SetupRefusedError(
            f"{manifest}: a shell's script starts kube-scheduler, and is not edited here",
            f"add --{flag}={file} to its flags by hand, and mount that file; gpushare-setup plan then shows the rest",
        )
    kubeconfig = pod.flags.get("kubeconfig", "")
    if is_own and not kubeconfig:
        raise SetupRefusedError(
            f"{manifest}: kube-scheduler has no --kubeconfig, so its account is unknown",
            f"add --kubeconfig={KUBECONFIG}",
        )
    asked, wish = wish, _as_present(files, wish, file, *current.values())
    text = _text(files, file, minor, kubeconfig, wish, is_own=is_own)
    # Those that kube-scheduler has already may be in a folder that is mounted.
    seen = [path for path in tls_files(wish) if asked.tls is None and pod.on_node(path) is not None]
    mounted = {one: path for one, path in zip(VOLUMES, (file, *tls_files(wish)), strict=False) if path not in seen}
    if not is_own:
        del mounted[VOLUMES[0]]
    argument = f"--{flag}={file}" if is_own and pod.takes(flag) else ""
    entries = static_pod.entries(pod, argument, mounted, hashlib.sha256(text.encode()).hexdigest()[:16])
    if not is_own and text == files.get(file) and wire.ANNOTATION_SCHEDULER_FILE not in files[manifest]:
        # A person put the extender there, and restarted kube-scheduler.
        del entries[-1]
    is_kops = any(value.startswith(_KOPS) for value in pod.flags.values())
    return ControlPlaneNode(
        "kops" if is_kops else "kubeadm" if manifest == MANIFEST else "static pod", minor, flag, file, text, manifest,
        tuple(entries), current, is_extended=not is_own, inside="" if is_own else pod.flags[flag],
        owner=_BY_KOPS if is_kops else "", pod=pod, wish=wish,
    )  # fmt: skip


def _rke(files: Mapping[str, str], wish: Wish) -> ControlPlaneNode:
    """RKE writes its containers again from cluster.yml; each of them has /etc/kubernetes mounted."""
    if wish.rke_cluster and wish.rke_cluster not in files:
        raise SetupRefusedError(f"{wish.rke_cluster} is not there", "name RKE's cluster.yml with --rke-cluster")
    document = wish.rke_cluster or "cluster.yml"
    minor = _minor(str(mapping(load(files.get(document, ""), document)).get("kubernetes_version")), wish)
    at, place = ("services", "scheduler", "extra_args"), _place(minor, "/etc/kubernetes")
    site = _with_flags_in(files, document, at, minor, place, RKE_KUBECONFIG, wish)
    return replace(site, name="RKE", restart="rke up", is_by_hand=True)


def _with_flags_in(
    files: Mapping[str, str],
    document: str,
    at: tuple[str, ...],
    minor: int,
    place: tuple[str, str],
    account: str,
    wish: Wish,
) -> ControlPlaneNode:
    """A site whose flags of kube-scheduler are a mapping of this document, under these keys."""
    flag, own = place
    flags = mapping(load(files.get(document, ""), document), *at)
    current: dict[str, str] = {one: str(flags[one]) for one in (CONFIG, POLICY) if one in flags}
    file = own if wish.is_replacing else current.get(flag, own)
    wish = _as_present(files, wish, file, *current.values())
    text = _text(files, file, minor, account, wish, is_own=file == own)
    entries = (Entry((*at, flag), file),)
    return ControlPlaneNode("", minor, flag, file, text, document, entries, current, is_extended=file != own, wish=wish)


def _rancher(kind: str, files: Mapping[str, str], wish: Wish) -> ControlPlaneNode:
    server = rancher.read(files, kind)
    data = server.data or f"/var/lib/rancher/{kind}"
    minor = _minor(files.get(RKE2_POD, "") if kind == "rke2" else "", wish)
    if reads_policy_only(minor):
        raise SetupRefusedError(
            f"{kind} of Kubernetes 1.{minor} is not known here", "update the cluster to 1.19 or newer"
        )
    own = f"/etc/rancher/{kind}/scheduler-gpushare-config.yaml"
    given = {one: found for one in (CONFIG, POLICY) if (found := server.named(one)) is not None}
    named = given.get(CONFIG, rancher.Given(own, server.config))
    is_replacing = wish.is_replacing and named.path == server.config
    inside = own if is_replacing else named.value
    file = server.on_node(inside)
    wish = _as_present(files, wish, file, server.on_node(named.value))
    entries: tuple[Entry, ...] = ()
    if named.path == server.config and inside == own:
        _refuse_replaced(kind, files, server)
        entries = (Entry((rancher.ARGUMENTS,), f"{CONFIG}={own}", is_item=True),)
        if kind == "rke2":
            # k3s runs kube-scheduler in its own process.
            entries += (Entry((rancher.MOUNTS,), f"{own}:{own}", is_item=True),)
    account = f"{data}/server/cred/scheduler.kubeconfig"
    return ControlPlaneNode(
        {"rke2": "RKE2", "k3s": "k3s"}[kind], minor, CONFIG, file,
        _text(files, file, minor, account, wish, is_own=file == own), server.config, entries,
        {flag: one.value if is_replacing or flag != CONFIG else file for flag, one in given.items()},
        named_by=named.path if not entries else "", is_extended=file != own, inside="" if file == inside else inside,
        restart=server.restart, has_process=kind == "rke2", wish=wish,
    )  # fmt: skip


def _refuse_replaced(kind: str, files: Mapping[str, str], server: rancher.Server) -> None:
    """A list in the server's file that does not count, or that is not edited here."""
    for key in (rancher.ARGUMENTS, rancher.MOUNTS) if kind == "rke2" else (rancher.ARGUMENTS,):
        path = server.replaced_by.get(key)
        if path:
            raise SetupRefusedError(
                f"{path}: sets {key}, which wins over {server.config}", f"move its list of {key} to {server.config}"
            )
    arguments = mapping(load(files.get(server.config, ""), server.config)).get(rancher.ARGUMENTS) or []
    if not isinstance(arguments, list):
        raise SetupRefusedError(
            f"{server.config}: {rancher.ARGUMENTS} is one text",
            f"write it as a list: {rancher.ARGUMENTS}: [{arguments}]",
        )


def _k0s(files: Mapping[str, str], wish: Wish) -> ControlPlaneNode:
    words = [word for one in services(files, "k0scontroller") for word in one.words]
    config = (values_of(words, ("--config", "-c")) or [K0S_CONFIG])[-1]
    if "--enable-dynamic-config" in words or "--enable-dynamic-config=true" in words:
        raise SetupRefusedError(
            f"k0s reads spec.scheduler from the cluster and not from {config} (--enable-dynamic-config)",
            "kubectl edit clusterconfig k0s -n kube-system: set spec.scheduler.extraArgs.config, and write that file by hand",
        )
    if config not in files:
        raise SetupRefusedError(f"{config} is not there", f"write it: k0s config create > {config}")
    at, place = ("spec", "scheduler", "extraArgs"), (CONFIG, "/etc/k0s/scheduler-gpushare-config.yaml")
    site = _with_flags_in(files, config, at, _minor("", wish), place, K0S_KUBECONFIG, wish)
    return replace(site, name="k0s", restart="systemctl restart k0scontroller")
