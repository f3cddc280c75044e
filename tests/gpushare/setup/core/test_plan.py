"""Promises of gpushare.setup.core.plan and of the sites below it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import yaml

from gpushare.setup.core.faults import SetupRefusedError
from gpushare.setup.core.plan import Change, installation, node_faults, removal
from gpushare.setup.core.rancher import CONFIG as RANCHER_CONFIG
from gpushare.setup.core.scheduler_files import Tls, scheduler_file
from gpushare.setup.core.sites import (
    K0S_CONFIG,
    K0S_KUBECONFIG,
    MANIFEST,
    SECOND_SCHEDULER,
    Wish,
    recognise,
)
from tests.gpushare.setup.node_trees import CLUSTER_YML, RKE_CLUSTER, k0s, k3s, kubeadm, rke, rke2

CONFIG = "/etc/kubernetes/scheduler-gpushare-config.yaml"
POLICY = "/etc/kubernetes/scheduler-gpushare-policy.json"
K3S_CONFIG = RANCHER_CONFIG.format("k3s")
RKE2_CONFIG = RANCHER_CONFIG.format("rke2")
ELSEWHERE = f"run it on a control plane node; if the provider keeps that (EKS, GKE, AKS, ACK), {SECOND_SCHEDULER}"
UNNAMED = "the node's files do not name the release of Kubernetes"
NAME_IT = "pass --kubernetes with it, such as 1.30"
OWN = "    - --{}=/etc/kubernetes/scheduler.conf\n"
OTHER = {"kind": "KubeSchedulerConfiguration", "extenders": [{"urlPrefix": "http://127.0.0.1:8/other"}]}


def refused(of: Callable[[], object]) -> tuple[str, str]:
    """The fault, and its fix, with which this is refused."""
    with pytest.raises(SetupRefusedError) as error:
        of()
    return error.value.fault.what, error.value.fault.fix


def after(files: dict[str, str], wish: Wish) -> dict[str, str]:
    """The files when the installation has been made."""
    _, changes = installation(files, wish)
    return files | {change.path: change.new for change in changes if change.new is not None}


SITES = {
    "kubeadm 1.17": (kubeadm(17), Wish()),
    "kubeadm 1.22": (kubeadm(22), Wish()),
    "kubeadm 1.24": (kubeadm(24), Wish()),
    "kubeadm 1.30": (
        kubeadm(30) | {"/etc/g/ca.crt": ""},
        Wish(tls=Tls("/etc/g/ca.crt"), extender_url="https://127.0.0.1:12345/gpushare-scheduler"),
    ),
    "RKE": (rke(RKE_CLUSTER), Wish(rke_cluster=CLUSTER_YML)),
    "RKE of 1.17": (rke("a: 1\n"), Wish(17, rke_cluster=CLUSTER_YML)),
    "RKE2": (rke2("# mine\nkubelet-arg:\n  - max-pods=200\n"), Wish()),
    "k3s": (k3s("kube-scheduler-arg:\n  - v=2 # loud\n"), Wish(30)),
    "k3s without a file": (k3s(), Wish(30)),
    "k0s": (k0s(k0s()["/etc/k0s/k0s.yaml"].replace("  scheduler: {}\n", "")), Wish(30)),
}


@dataclass(frozen=True)
class Kind:
    """A node's own files, and what a scheduler has on it."""

    files: dict[str, str]
    wish: Wish
    name: str
    file: str
    document: str
    entries: list[tuple[str, object, bool]]
    kubeconfig: str
    restart: str
    has_process: bool = True
    is_by_hand: bool = False


URL = "http://10.0.0.9:12345/gpushare-scheduler"
EXTRA_ARGS = "services:\n  scheduler:\n    extra_args:\n      {}: /a=b.yaml\n"
RKE_KUBECONFIG = "/etc/kubernetes/ssl/kubecfg-kube-scheduler.yaml"
KINDS = {
    "kubeadm": Kind(
        kubeadm(flags="    - --config=/a=b.yaml\n"), Wish(extender_url=URL), "kubeadm", CONFIG, MANIFEST,
        [
            ("spec.containers.0.command", f"--config={CONFIG}", True),
            ("spec.containers.0.volumeMounts", {"mountPath": CONFIG, "name": "gpushare-scheduler", "readOnly": True}, True),
            ("spec.volumes", {"hostPath": {"path": CONFIG, "type": "File"}, "name": "gpushare-scheduler"}, True),
            ("metadata.annotations.aliyun.com/gpushare-scheduler-file", "42a89ea5bfe4e567", False),
        ],
        "/etc/kubernetes/scheduler.conf", "",
    ),
    "RKE": Kind(
        rke(f"kubernetes_version: v1.20.15-rancher1-1\n{EXTRA_ARGS.format('config')}"),
        Wish(extender_url=URL, rke_cluster=CLUSTER_YML), "RKE", CONFIG, CLUSTER_YML,
        [("services.scheduler.extra_args.config", CONFIG, False)], RKE_KUBECONFIG, "rke up", is_by_hand=True,
    ),
    "RKE without its cluster.yml": Kind(
        rke(), Wish(20, extender_url=URL), "RKE", CONFIG, "cluster.yml",
        [("services.scheduler.extra_args.config", CONFIG, False)], RKE_KUBECONFIG, "rke up", is_by_hand=True,
    ),
    "RKE of 1.17": Kind(
        rke(EXTRA_ARGS.format("policy-config-file")), Wish(17, extender_url=URL, rke_cluster=CLUSTER_YML),
        "RKE", POLICY, CLUSTER_YML,
        [("services.scheduler.extra_args.policy-config-file", POLICY, False)], "", "rke up", is_by_hand=True,
    ),
    "RKE2": Kind(
        rke2("kube-scheduler-arg: [config=/a=b.yaml]\n"), Wish(extender_url=URL), "RKE2",
        "/etc/rancher/rke2/scheduler-gpushare-config.yaml", "/etc/rancher/rke2/config.yaml",
        [
            ("kube-scheduler-arg", "config=/etc/rancher/rke2/scheduler-gpushare-config.yaml", True),
            ("kube-scheduler-extra-mount", ":".join(["/etc/rancher/rke2/scheduler-gpushare-config.yaml"] * 2), True),
        ],
        "/var/lib/rancher/rke2/server/cred/scheduler.kubeconfig", "systemctl restart rke2-server",
    ),
    "k3s": Kind(
        k3s("kube-scheduler-arg: [v=2, config=/a=b.yaml]\n"), Wish(30, extender_url=URL), "k3s",
        "/etc/rancher/k3s/scheduler-gpushare-config.yaml", "/etc/rancher/k3s/config.yaml",
        [("kube-scheduler-arg", "config=/etc/rancher/k3s/scheduler-gpushare-config.yaml", True)],
        "/var/lib/rancher/k3s/server/cred/scheduler.kubeconfig", "systemctl restart k3s", has_process=False,
    ),
    "k0s": Kind(
        k0s(k0s()["/etc/k0s/k0s.yaml"].replace("{}", "{extraArgs: {config: /a=b.yaml}}")), Wish(30, extender_url=URL), "k0s",
        "/etc/k0s/scheduler-gpushare-config.yaml", "/etc/k0s/k0s.yaml",
        [("spec.scheduler.extraArgs.config", "/etc/k0s/scheduler-gpushare-config.yaml", False)],
        "/var/lib/k0s/pki/scheduler.conf", "systemctl restart k0scontroller",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_node_has_its_own_places(name: str) -> None:
    """The scheduler's file, the file that names it, the account, and the command that restarts the scheduler."""
    kind = KINDS[name]
    site = recognise(kind.files, replace(kind.wish, is_replacing=True))
    document = yaml.safe_load(site.text)

    assert (site.name, site.file, site.document, site.restart) == (kind.name, kind.file, kind.document, kind.restart)
    assert (site.has_process, site.is_by_hand) == (kind.has_process, kind.is_by_hand)
    assert [(".".join(map(str, one.at)), one.value, one.is_item) for one in site.entries] == kind.entries
    assert document.get("clientConnection", {"kubeconfig": ""}) == {"kubeconfig": kind.kubeconfig}
    assert document["extenders"][0]["urlPrefix"] == URL
    assert site.current == ({} if name == "RKE without its cluster.yml" else {site.flag: "/a=b.yaml"})


@pytest.mark.parametrize("name", SITES)
def test_a_second_installation_changes_nothing(name: str) -> None:
    """Once a node has what it has to have, no change is planned."""
    files, wish = SITES[name]
    new = after(files, wish)

    assert new != files
    assert installation(new, wish)[1] == []
    site = recognise(new, wish)
    assert new[site.file] == site.text
    assert node_faults(new, wish, [("kube-scheduler", site.argument)]) == []


@pytest.mark.parametrize("name", [name for name in SITES if not name.startswith("RKE") or name == "RKE2"])
def test_the_removal_gives_back_what_was_there(name: str) -> None:
    """An uninstall leaves what was there before the installation, also without a backup."""
    files, wish = SITES[name]
    new = after(files, wish)
    # The mounts for TLS go with the rest, also if the removal is not asked for with the same flags.
    _, changes = removal(new, replace(wish, extender_url=None, tls=None))
    assert {change.path: change.old for change in changes} == {change.path: new[change.path] for change in changes}
    left = new | {change.path: change.new for change in changes}

    assert {path: text for path, text in left.items() if text is not None} == files
    assert removal(files, wish)[1] == []


def test_rke_is_changed_by_its_owner_first() -> None:
    """The scheduler's file of RKE goes only if cluster.yml does not name it, since kube-scheduler would not start without it."""
    files, wish = SITES["RKE"]
    new = after(files, wish)

    for known in (new, {path: text for path, text in new.items() if path != CLUSTER_YML}):
        with pytest.raises(
            SetupRefusedError, match=r"RKE may still name .*\n  fix: change services.scheduler.extra_args.config"
        ):
            removal(known, Wish(20, rke_cluster=CLUSTER_YML if CLUSTER_YML in known else ""))
    _, changes = removal(new | {CLUSTER_YML: RKE_CLUSTER}, wish)
    assert [(change.path, change.new) for change in changes] == [(CONFIG, None)]


def test_a_file_of_an_older_release_is_written_again() -> None:
    """After an upgrade of Kubernetes the file that gpushare-setup wrote for the older one is replaced, and the pod restarted.

    --kubernetes wins over the image, because its tag may be a site's own.
    """
    files = after(kubeadm(24), Wish())
    files[MANIFEST] = files[MANIFEST].replace(":v1.24.", ":v1.29.")
    site, changes = installation(files, Wish())

    assert [(change.path, change.old) for change in changes] == [(CONFIG, files[CONFIG]), (MANIFEST, files[MANIFEST])]
    assert "kubescheduler.config.k8s.io/v1\n" in str(changes[0].new)
    assert (site.minor, installation(kubeadm(37), Wish(36))[0].minor) == (29, 36)


def test_an_edited_file_keeps_what_a_person_added() -> None:
    """An extender that was edited is written again, and every other field stays; --replace gives the whole file up."""
    files = after(kubeadm(), Wish())
    whole = files[CONFIG]
    files[CONFIG] += "percentageOfNodesToScore: 100\n"

    assert [change.path for change in installation(files, Wish())[1]] == [MANIFEST], "its digest, so that it is read"
    edited = files | {CONFIG: files[CONFIG].replace("ignorable: false", "ignorable: true")}
    assert after(edited, Wish())[CONFIG] == files[CONFIG]
    assert after(files, Wish(is_replacing=True))[CONFIG] == whole


OWN_TEXT = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}
profiles: [{schedulerName: default-scheduler, percentageOfNodesToScore: 100}]
"""
OWN_PATH = "/etc/kubernetes/scheduler.conf"


def test_a_persons_own_file_is_extended() -> None:
    """A file that kube-scheduler has already gets the extender and keeps all else; --replace puts another in its place."""
    files = kubeadm(flags=OWN.format("config")) | {OWN_PATH: OWN_TEXT}
    new = after(files, Wish())

    assert new[OWN_PATH].endswith(OWN_TEXT)
    assert CONFIG not in new
    site = recognise(new, Wish())
    assert node_faults(new, Wish(), [("kube-scheduler", "--config", OWN_PATH)]) == []
    assert installation(new, Wish())[1] == []
    assert site.is_extended
    assert installation(files | {OWN_PATH: new[OWN_PATH]}, Wish())[1] == [], "a person put it there"
    left = new | {change.path: change.new for change in removal(new, Wish())[1]}
    assert left == files
    text = after(files, Wish(is_replacing=True))[MANIFEST]
    assert text.count("--config=") == 1
    assert f"--config={CONFIG}\n" in text


def test_the_entry_of_the_original_becomes_ours() -> None:
    """kube-scheduler asks by the original's file after a switch by image; a change of that file keeps all but the entry."""
    entry = {
        "urlPrefix": "http://127.0.0.1:32766/gpushare-scheduler",
        "filterVerb": "filter",
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "managedResources": [{"name": "aliyun.com/gpu-mem", "ignoredByScheduler": False}],
    }
    for text in (f"extenders: [{json.dumps(entry)}]\n", f"{yaml.safe_dump({'extenders': [entry]})}# end\n"):
        files = kubeadm(flags=OWN.format("config")) | {OWN_PATH: OWN_TEXT + text}
        assert node_faults(files, Wish(), [("kube-scheduler", f"--config={OWN_PATH}")]) == []
        new = after(files, Wish(extender_url=URL))[OWN_PATH]
        (extender,) = yaml.safe_load(new)["extenders"]
        assert new.startswith(OWN_TEXT)
        assert (extender["urlPrefix"], extender["preemptVerb"]) == (URL, "preempt")


NODE_PORT = "http://127.0.0.1:32766/gpushare-scheduler"
NOT_SEEN = "no kube-scheduler that runs on this node has"


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("is_replacing", [False, True])
def test_the_url_that_is_there_stays(name: str, is_replacing: bool) -> None:
    """A check without flags finds no fault in it, an apply changes nothing, and one that puts something right keeps it."""
    files, wish = SITES[name]
    new = after(files, replace(wish, extender_url=NODE_PORT, tls=None))
    plain = replace(wish, extender_url=None, tls=None, is_replacing=is_replacing)
    site, changes = installation(new, plain)

    assert all(one.what.startswith(NOT_SEEN) for one in node_faults(new, plain, []))
    assert [change for change in changes if change.new != change.old] == []
    ignorable = re.sub(r'(ignorable"?: )false', r"\1true", new[site.file])
    damaged = new | {site.file: ignorable}
    assert node_faults(damaged, plain, [])[0].what.startswith(f"{site.file}: ignorable of the extender is True")
    assert NODE_PORT in recognise(damaged, plain).text
    if site.document in new and site.document != "cluster.yml":
        document = after(new | {site.document: files.get(site.document, "")}, plain)
        assert NODE_PORT in document[site.file]


def test_scores_that_are_there_stay_until_others_are_asked_for() -> None:
    """A later apply keeps the choice; a person's own profile is not edited."""
    files = after(kubeadm(30), Wish(scores="binpack"))
    again, back = installation(files, Wish())[1], after(files, Wish(scores="extender"))

    assert files[CONFIG] == scheduler_file(30, scores="binpack")
    assert again == []
    assert back[CONFIG] == scheduler_file(30)
    own = kubeadm(flags=OWN.format("config")) | {OWN_PATH: OWN_TEXT}
    assert refused(lambda: installation(own, Wish(scores="binpack"))) == (
        f"{OWN_PATH}: a profile's scores are not edited here",
        "change its pluginConfig of NodeResourcesFit by hand",
    )


def test_the_files_of_tls_that_are_there_stay() -> None:
    """Files of TLS stay with their URL, mounted each by itself or in a folder; another URL brings its own."""
    files, wish = SITES["kubeadm 1.30"]
    whole = Tls("/etc/g/ca.crt", "/etc/g/a.crt", "/etc/g/a.key")
    new = after(files | {"/etc/g/a.crt": "", "/etc/g/a.key": ""}, replace(wish, tls=whole))
    site, changes = installation(new, Wish())

    assert changes == []
    assert site.wish.tls == whole
    assert node_faults(new, Wish(), [("kube-scheduler", f"--config={CONFIG}")]) == []
    again = after(new | {MANIFEST: files[MANIFEST]}, Wish())
    assert again[MANIFEST] == new[MANIFEST]
    assert "tlsConfig" not in after(new, Wish(extender_url=NODE_PORT))[CONFIG]


def test_a_file_that_trusts_every_extender_is_a_fault() -> None:
    """The advice keeps the URL."""
    url = "https://10.0.0.9:12345/gpushare-scheduler"
    new = after(kubeadm(), Wish())
    new[CONFIG] = new[CONFIG].replace("http://127.0.0.1:12345/gpushare-scheduler", url)

    assert [(one.what, one.fix) for one in node_faults(new, Wish(), [])] == [
        (
            f"{CONFIG}: kube-scheduler trusts whatever answers at {url}, as the extender has no caFile",
            f"run gpushare-setup apply --extender-url={url} --extender-ca-file=FILE",
        )
    ]


def test_a_persons_file_loses_the_extender_at_its_url() -> None:
    """A removal needs no URL, and the advice to apply has the flags of the check."""
    files = kubeadm(flags=OWN.format("config")) | {OWN_PATH: OWN_TEXT}
    new = after(files, Wish(extender_url=NODE_PORT))
    left = new | {change.path: change.new for change in removal(new, Wish())[1]}
    wish = Wish(extender_url=URL, flags=f" --extender-url={URL}")
    fixes = {one.fix for one in node_faults(new, wish, [])}

    assert left == files
    assert fixes == {f"run gpushare-setup apply --extender-url={URL}"}
    replaced = after(new, Wish(is_replacing=True))
    assert NODE_PORT in replaced[CONFIG]


@pytest.mark.parametrize(
    ("files", "wish"),
    [
        (kubeadm(flags=OWN.format("config")), Wish()),
        (k3s("kube-scheduler-arg: [config=/own.yaml]\n"), Wish(30)),
        (k0s(k0s()["/etc/k0s/k0s.yaml"].replace("{}", "{extraArgs: {config: /own.yaml}}")), Wish(30)),
    ],
    ids=["kubeadm", "k3s", "k0s"],
)
def test_a_removal_takes_no_file_of_others_away(files: dict[str, str], wish: Wish) -> None:
    """A person's own file of kube-scheduler, under the same flag, is not taken away by an uninstall."""
    assert removal(files, wish)[1] == []


@pytest.mark.parametrize(
    ("files", "wish", "what", "fix"),
    [
        ({}, Wish(), "no kube-scheduler of a known kind is on this node", ELSEWHERE),
        (
            kubeadm() | {K0S_KUBECONFIG: ""}, Wish(),
            f"this node has the schedulers of several kinds of cluster: {MANIFEST}, {K0S_KUBECONFIG}",
            "remove what an earlier installation left behind",
        ),
        (
            {MANIFEST: kubeadm()[MANIFEST].replace("    - --kubeconfig=/etc/kubernetes/scheduler.conf\n", "")}, Wish(),
            f"{MANIFEST}: kube-scheduler has no --kubeconfig, so its account is unknown",
            "add --kubeconfig=/etc/kubernetes/scheduler.conf",
        ),
        ({MANIFEST: kubeadm()[MANIFEST].replace("v1.30.4", "latest")}, Wish(), UNNAMED, NAME_IT),
        (k3s(), Wish(), UNNAMED, NAME_IT),
        (rke("a: 1\n"), Wish(rke_cluster=CLUSTER_YML), UNNAMED, NAME_IT),
        (
            kubeadm(37), Wish(), "Kubernetes 1.37 is not known here (1.17 to 1.36)",
            "use a gpushare-setup of that release, or pass --kubernetes with a release whose file yours reads",
        ),
        (
            rke2(image="x:v1.18.2"), Wish(), "rke2 of Kubernetes 1.18 is not known here",
            "update the cluster to 1.19 or newer",
        ),
        (
            rke(), Wish(20, rke_cluster=CLUSTER_YML), f"{CLUSTER_YML} is not there",
            "name RKE's cluster.yml with --rke-cluster",
        ),
        (
            k0s("- a\n"), Wish(30), f"{K0S_CONFIG}: spec.scheduler.extraArgs.config is written in a form that is not edited here",
            'add to spec.scheduler.extraArgs.config by hand: "/etc/k0s/scheduler-gpushare-config.yaml"',
        ),
        (
            rke("- a\n"), Wish(20, rke_cluster=CLUSTER_YML),
            f"{CLUSTER_YML}: services.scheduler.extra_args.config is written in a form that is not edited here",
            f'add to services.scheduler.extra_args.config by hand: "{CONFIG}"',
        ),
        (
            k3s("- a\n"), Wish(30), f"{K3S_CONFIG}: kube-scheduler-arg is written in a form that is not edited here",
            'add to kube-scheduler-arg by hand: "config=/etc/rancher/k3s/scheduler-gpushare-config.yaml"',
        ),
        *(
            (
                rke2() | {f"{RKE2_CONFIG}.d/a.yaml": f"{name}: [a]\n"}, Wish(30),
                f"{RKE2_CONFIG}.d/a.yaml: sets {name}, which wins over {RKE2_CONFIG}",
                f"move its list of {name} to {RKE2_CONFIG}",
            )
            for name in ("kube-scheduler-arg", "kube-scheduler-extra-mount")
        ),
        # kube-scheduler ends if a file of TLS is not there.
        (
            kubeadm(), SITES["kubeadm 1.30"][1], "/etc/g/ca.crt is not on this node, and kube-scheduler would not start",
            "put it there first",
        ),
        # A Policy beside a configuration would win, or stop kube-scheduler.
        (
            kubeadm(22, flags=OWN.format("policy-config-file")), Wish(is_replacing=True),
            f"{MANIFEST}: kube-scheduler has --policy-config-file={OWN_PATH}, and of Kubernetes 1.22 it needs --config",
            "take --policy-config-file out, then run gpushare-setup apply",
        ),
        # An extender of another program is never taken away.
        *(
            (
                kubeadm(minor, flags=OWN.format(flag)) | {OWN_PATH: yaml.safe_dump(OTHER)}, Wish(is_replacing=True),
                f"{OWN_PATH}: kube-scheduler asks the extender of another program: http://127.0.0.1:8/other",
                f"add gpushare's extender to that file by hand; {MANIFEST} is not changed",
            )
            for minor, flag in ((18, "policy-config-file"), (30, "config"))
        ),
    ],
)  # fmt: skip
def test_what_would_be_a_guess_is_refused(files: dict[str, str], wish: Wish, what: str, fix: str) -> None:
    """A node that is not understood is not changed."""
    assert refused(lambda: installation(files, wish)) == (what, fix)


OWN_FILE = kubeadm(flags=OWN.format("config")) | {"/etc/kubernetes/scheduler.conf": "a: ["}


@pytest.mark.parametrize(
    ("files", "wish", "path"),
    [
        (kubeadm() | {MANIFEST: "a: ["}, Wish(), MANIFEST),
        (rke("a: ["), Wish(20, rke_cluster=CLUSTER_YML), CLUSTER_YML),
        (k3s() | {f"{K3S_CONFIG}.d/a.yaml": "a: ["}, Wish(30), f"{K3S_CONFIG}.d/a.yaml"),
        (k0s("a: ["), Wish(30), K0S_CONFIG),
        (kubeadm() | {CONFIG: "a: ["}, Wish(is_replacing=True), CONFIG),
        (OWN_FILE, Wish(), "/etc/kubernetes/scheduler.conf"),
    ],
)
def test_a_file_that_is_no_yaml_is_named(files: dict[str, str], wish: Wish, path: str) -> None:
    """A file that cannot be read is named, and nothing is changed."""
    assert refused(lambda: installation(files, wish)) == (
        f"{path}, line 1: no YAML: expected the node content, but found '<stream end>'",
        "fix the file, or restore it from a copy",
    )


def test_a_difference_names_what_is_not_there() -> None:
    """The difference of a file that comes or goes is against /dev/null, and a missing end of line is shown."""
    assert Change("/f", "a\nb\n", "a\nc\n").diff() == "--- /f\n+++ /f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    assert Change("/f", None, "a\n").diff() == "--- /dev/null\n+++ /f\n@@ -0,0 +1 @@\n+a\n"
    assert Change("/f", "a", None).diff() == "--- /f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\n"


def test_the_file_by_hand_is_taken_over() -> None:
    """A node that was installed by hand, by the README, gets what is missing and nothing twice."""
    files = kubeadm(36, flags=f"    - --config={CONFIG}\n") | {CONFIG: scheduler_file(36)}
    site, changes = installation(files, Wish())

    assert [change.path for change in changes] == [MANIFEST]
    assert str(changes[0].new).count("--config=") == 1
    assert site.current == {"config": CONFIG}
