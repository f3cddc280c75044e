"""``gpushare-setup check`` on control plane nodes with one fault each."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpushare.setup import main, setup_arguments
from gpushare.setup.core.faults import SetupRefusedError
from gpushare.setup.core.plan import installation
from gpushare.setup.core.rancher import CONFIG as RANCHER_CONFIG
from gpushare.setup.core.sites import K0S_CONFIG, MANIFEST, MANIFESTS, OPENSHIFT_MANIFEST, Wish
from gpushare.setup.journal import Journal
from gpushare.setup.node_files import NodeFiles
from tests.gpushare.setup import node_trees
from tests.gpushare.setup.node_trees import CLUSTER_YML, k0s, k3s, kubeadm, rke, rke2, running, write

CONFIG = "/etc/kubernetes/scheduler-gpushare-config.yaml"
POLICY = "/etc/kubernetes/scheduler-gpushare-policy.json"
K3S_CONFIG = RANCHER_CONFIG.format("k3s")
K3S = ["--kubernetes=1.30"]
RKE = [f"--rke-cluster={CLUSTER_YML}"]
RKE_CLUSTER = node_trees.RKE_CLUSTER.replace(
    "services:\n", f"services:\n    scheduler:\n        extra_args:\n            config: {CONFIG}\n"
)
# A change of one file: its path, and what becomes of its text; None takes it away.
Damage = tuple[str, Callable[[str], str | None]]


def setup(verb: str, root: Path, *flags: str) -> tuple[int, str]:
    """Run the program: exit code and output."""
    out = io.StringIO()
    asked = setup_arguments.parse([verb, "--root", str(root), *flags], {})
    return main.run(asked, out), out.getvalue()


def installed(root: Path, files: dict[str, str], flags: Sequence[str]) -> None:
    """A node on which gpushare-setup has run, and kube-scheduler has been restarted since."""
    write(root, files)
    setup("apply", root, "--timeout=0", *flags)
    for flag, path in (
        ("config", CONFIG),
        ("policy-config-file", POLICY),
        *((("config", f"/etc/{one}/scheduler-gpushare-config.yaml")) for one in ("rancher/rke2", "k0s")),
    ):
        if (root / path.lstrip("/")).exists():
            write(root, running(7, "/usr/local/bin/kube-scheduler", f"--{flag}={path}"))


def swapped(path: str, old: str, new: str) -> Damage:
    """One text for another."""
    return path, lambda text: text.replace(old, new)


def gone(path: str) -> Damage:
    """No file."""
    return path, lambda text: None


def new(path: str, text: str) -> Damage:
    """One more file."""
    return path, lambda old: text


APPLY = "run gpushare-setup apply"
BROKEN: dict[str, tuple[dict[str, str], list[str], Damage, str, str]] = {
    "kubeadm 1.22, upgraded to 1.23: the Policy's flag is there again": (
        kubeadm(23), [], swapped(MANIFEST, "    - --leader", "    - --policy-config-file=/etc/policy.json\n    - --leader"),
        f"{MANIFEST}: --policy-config-file keeps kube-scheduler from reading {CONFIG}",
        f"take --policy-config-file out, then {APPLY}",
    ),
    "kubeadm: an upgrade wrote the manifest again": (
        kubeadm(), [], new(MANIFEST, kubeadm()[MANIFEST]),
        f"{MANIFEST}: spec.containers.0.command lacks --config={CONFIG}", APPLY,
    ),
    "kubeadm: the file is not mounted": (
        kubeadm(), [], swapped(MANIFEST, f"    - mountPath: {CONFIG}\n      name: gpushare-scheduler\n      readOnly: true\n", ""),
        f"{MANIFEST}: spec.containers.0.volumeMounts lacks "
        f"{{'mountPath': '{CONFIG}', 'name': 'gpushare-scheduler', 'readOnly': True}}", APPLY,
    ),
    "kubeadm: the file is gone": (
        kubeadm(), [], gone(CONFIG), f"{CONFIG} is not there, so kube-scheduler does not ask the extender", APPLY,
    ),
    "kubeadm: a copy in the folder of manifests": (
        kubeadm(), [], new(f"{MANIFESTS}/kube-scheduler.yaml.bak", "kind: Pod\n"),
        f"{MANIFESTS}/kube-scheduler.yaml.bak: the kubelet runs a copy too, as a second kube-scheduler",
        f"move it out of {MANIFESTS}",
    ),
    "kubeadm: kube-scheduler runs on without the flag": (
        kubeadm(), [], new("/proc/7/cmdline", "kube-scheduler\0--leader-elect=true\0"),
        f"no kube-scheduler that runs on this node has --config={CONFIG}",
        "read the kubelet's log, and kube-scheduler's in /var/log/pods",
    ),
    "RKE: cluster.yml does not name the file": (
        rke(RKE_CLUSTER), RKE, swapped(CLUSTER_YML, CONFIG, "/etc/kubernetes/other.yaml"),
        "/etc/kubernetes/other.yaml is not there, so kube-scheduler does not ask the extender",
        f"write the file that {CLUSTER_YML} names, or take the flag out",
    ),
    "RKE: rke up has not run since": (
        rke(), ["--kubernetes=1.20"], new("/proc/7/cmdline", "kube-scheduler\0"),
        f"no kube-scheduler that runs on this node has --config={CONFIG}",
        "change services.scheduler.extra_args.config in cluster.yml, then: rke up",
    ),
    "RKE2: the file is not mounted": (
        rke2(), [], swapped(RANCHER_CONFIG.format("rke2"), "kube-scheduler-extra-mount", "kube-proxy-extra-mount"),
        "/etc/rancher/rke2/config.yaml: kube-scheduler-extra-mount lacks "
        "/etc/rancher/rke2/scheduler-gpushare-config.yaml:/etc/rancher/rke2/scheduler-gpushare-config.yaml", APPLY,
    ),
    "k3s: the arguments are one text": (
        k3s(), K3S, new(K3S_CONFIG, "kube-scheduler-arg: v=2\n"),
        f"{K3S_CONFIG}: kube-scheduler-arg is one text", "write it as a list: kube-scheduler-arg: [v=2]",
    ),
    "k0s: no configuration": (
        k0s(), K3S, gone(K0S_CONFIG), f"{K0S_CONFIG} is not there", f"write it: k0s config create > {K0S_CONFIG}",
    ),
    "OpenShift: the operator's manifest": (
        {OPENSHIFT_MANIFEST: "kind: Pod\n"}, [], swapped(OPENSHIFT_MANIFEST, "", ""),
        f"{OPENSHIFT_MANIFEST}: OpenShift's operator writes kube-scheduler's manifest, and takes no extender",
        "run a second scheduler for the pods that share cards: kubectl apply -k clusters/deploy/overlays/second-scheduler",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_the_fault_and_its_end_are_two_lines(name: str, tmp_path: Path) -> None:
    """A node with one fault gets one line that names it, and one with what to do; the program ends with 3."""
    files, flags, (path, damage), what, fix = BROKEN[name]
    try:
        installed(tmp_path, files, flags)
        assert (setup("check", tmp_path, *flags)[0]) == 0, "whole before the damage"
    except SetupRefusedError:
        write(tmp_path, files)
    here = tmp_path / path.lstrip("/")
    text = damage(here.read_text() if here.exists() else "")
    write(tmp_path, {path: text}) if text is not None else here.unlink()

    # The same flags again: without --root another node would be changed.
    fix = fix.replace("gpushare-setup apply", " ".join(["gpushare-setup apply", f"--root={tmp_path}", *flags]))
    assert setup("check", tmp_path, *flags) == (3, f"{what}\n  fix: {fix}\n")


def test_a_whole_site_without_a_process_names_its_restart(tmp_path: Path) -> None:
    """k3s runs kube-scheduler in its own process, so a restart is not seen."""
    installed(tmp_path, k3s(), K3S)
    good = "good: kube-scheduler asks gpushare's extender, if this was run since: systemctl restart k3s\n"

    assert setup("check", tmp_path, *K3S) == (0, good)


def test_a_hidden_file_is_no_copy(tmp_path: Path) -> None:
    """The kubelet passes over files that begin with a dot, as an editor leaves them."""
    installed(tmp_path, kubeadm() | {f"{MANIFESTS}/.kube-scheduler.yaml.swp": "binary"}, [])

    assert setup("check", tmp_path)[0] == 0


def test_a_folder_in_place_of_kinds_mounted_file_is_a_fault(tmp_path: Path) -> None:
    """Docker makes a folder of an extraMount without its file, and kube-scheduler cannot read it."""
    installed(tmp_path, kubeadm(), [])
    (tmp_path / CONFIG.lstrip("/")).unlink()
    (tmp_path / CONFIG.lstrip("/")).mkdir()

    assert setup("check", tmp_path) == (
        3,
        f"{CONFIG} is a folder, as kind and Docker make of a mount without its file\n"
        "  fix: write the file that extraMounts names on the host, and create the cluster again; else remove the folder\n",
    )


def test_an_interrupted_apply_is_a_fault(tmp_path: Path) -> None:
    """An apply that a crash ended is named before all else."""
    write(tmp_path, kubeadm())
    Journal(NodeFiles(tmp_path)).apply(installation(kubeadm(), Wish())[1])

    code, out = setup("check", tmp_path)
    assert code == 3
    assert out.startswith("an apply began and has not ended\n  fix: run gpushare-setup rollback\n")
