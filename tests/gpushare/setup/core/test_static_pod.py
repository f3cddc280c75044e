"""Promises of gpushare.setup.core.static_pod."""

from __future__ import annotations

import pytest

from gpushare.setup.core import static_pod
from gpushare.setup.core.faults import SetupRefusedError
from gpushare.setup.core.sites import MANIFEST
from gpushare.setup.core.yaml_edit import applied
from tests.gpushare.setup.node_trees import kubeadm

TEXT = kubeadm()[MANIFEST]
FILES = {"gpushare-scheduler": "/etc/kubernetes/a.yaml", "gpushare-ca": "/etc/gpushare/ca.crt"}
COMPARE = "compare it with the one of another control plane node"
FILLED = "write the value itself into the manifest"


def with_mount(path: str, on_node: str) -> str:
    """The manifest with a person's own mount."""
    return TEXT.replace(
        "    volumeMounts:\n",
        f"    volumeMounts:\n    - {{name: own, mountPath: {path}}}\n    - {{name: none, mountPath: /tmp}}\n"
        "    - {name: part, mountPath: /part, subPath: b.yaml}\n",
    ).replace(
        "  volumes:\n",
        f"  volumes:\n  - {{name: own, hostPath: {{path: {on_node}}}}}\n  - {{name: none, emptyDir: {{}}}}\n"
        "  - {name: part, hostPath: {path: /srv}}\n",
    )


def test_a_port_may_have_a_name_and_flags_may_be_arguments() -> None:
    """kubeadm of 1.34 names the port, and other tools put flags into args."""
    text = TEXT.replace("port: 10259", "port: probe-port").replace(
        "    name: kube-scheduler\n",
        "    name: kube-scheduler\n    ports:\n    - {containerPort: 7, name: probe-port}\n    args: [--v=2, --a]\n",
    )
    text = text.replace("    - kube-scheduler\n", "    - /usr/local/bin/kube-scheduler\n")
    pod = static_pod.read(text, "f")

    assert pod.probe == ("https", 7)
    assert pod.at == ("spec", "containers", 0, "args")
    assert (next(iter(pod.flags)), pod.flags["v"], pod.flags["a"]) == ("bind-address", "2", "true")


@pytest.mark.parametrize(
    ("old", "new", "probe"),
    [
        ("scheme: HTTPS", "scheme: HTTP", ("http", 10259)),
        ("        scheme: HTTPS\n", "", ("http", 10259)),
        ("livenessProbe", "readinessProbe", ("https", 10259)),
    ],
)
def test_health_is_asked_for_as_the_kubelet_does(old: str, new: str, probe: tuple[str, int]) -> None:
    """By HTTP if the probe names no scheme, and at the port of kube-scheduler if there is no probe."""
    assert static_pod.read(TEXT.replace(old, new), "f").probe == probe


@pytest.mark.parametrize(
    ("image", "minor"),
    [
        ("k8s.gcr.io/kube-scheduler:v1.17.4", 17),
        ("registry:5000/kube-scheduler:v1.36.0-rc.1@sha256:0", 36),
        ("kube-scheduler@sha256:0", None),
        (f"kube-scheduler:v1.{'9' * 5000}.0", None),
    ],
)
def test_the_image_names_the_release(image: str, minor: int | None) -> None:
    """The tag of the image names the release; a digest alone does not."""
    assert static_pod.minor_of(image) == minor


def test_an_unreadable_manifest_is_known_by_its_file() -> None:
    """One in a file of another name is not taken for the scheduler's."""
    assert static_pod.is_scheduler("kube-scheduler: [", MANIFEST)
    assert not static_pod.is_scheduler("kube-scheduler: [", "/etc/kubernetes/manifests/other.yaml")
    assert not static_pod.is_scheduler("etcd: [", "/etc/kubernetes/manifests/other.yaml")


def test_a_folder_of_the_node_may_be_mounted() -> None:
    """A path below a mounted folder is found on the node."""
    pod = static_pod.read(with_mount("/etc/kubernetes", "/srv/kubernetes"), "f")

    assert pod.on_node("/etc/kubernetes/scheduler.conf") == "/etc/kubernetes/scheduler.conf", "the longest wins"
    assert pod.on_node("/part") is None, "it is one part of what is mounted"

    assert pod.on_node("/etc/kubernetes/policy.json") == "/srv/kubernetes/policy.json"
    assert pod.on_node("/etc/kubernetes2/policy.json") is None


@pytest.mark.parametrize(
    ("old", "new", "what", "fix"),
    [
        ("spec:", "specification:", "f: no pod that runs kube-scheduler: KeyError('spec') is missing", COMPARE),
        ("port: 10259", "port: unknown", "f: no pod that runs kube-scheduler: ValueError", COMPARE),
        (
            "    - --leader-elect=true\n",
            "    - --config=$(FILE)\n",
            "f: --config=$(FILE) of kube-scheduler is filled",
            FILLED,
        ),
    ],
)
def test_a_manifest_of_another_form_is_refused(old: str, new: str, what: str, fix: str) -> None:
    """A manifest in which the scheduler cannot be read is refused, with what is missing."""
    with pytest.raises(SetupRefusedError) as refused:
        static_pod.read(TEXT.replace(old, new), "f")

    assert refused.value.fault.what.startswith(what)
    assert refused.value.fault.fix == fix


def test_a_persons_own_mount_is_used() -> None:
    """A file that the manifest mounts under another name is not mounted twice, which a kubelet would refuse."""
    text = with_mount("/etc/kubernetes/a.yaml", "/etc/kubernetes/a.yaml")
    entries = static_pod.entries(static_pod.read(text, "f"), "", FILES, "123")

    assert applied(text, entries, "f").count("mountPath: /etc/kubernetes/a.yaml") == 1


def test_a_mount_of_another_file_is_refused() -> None:
    """A path at which the container sees another file of the node is not taken over."""
    pod = static_pod.read(with_mount("/etc/kubernetes/a.yaml", "/srv/b.yaml"), "f")

    with pytest.raises(
        SetupRefusedError,
        match=r"/etc/kubernetes/a\.yaml of the container is /srv/b\.yaml of the node\n  fix: take that mount out$",
    ):
        static_pod.entries(pod, "", FILES, "123")
