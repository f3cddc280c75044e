"""Promises of gpushare.setup.core.plan and of the sites below it."""

from __future__ import annotations

import json

import pytest
import yaml

from gpushare.setup.core.faults import SetupRefusedError
from gpushare.setup.core.plan import Change, installation, named_files, node_faults, removal
from gpushare.setup.core.scheduler_files import Tls, scheduler_file
from gpushare.setup.core.sites import K0S_KUBECONFIG, MANIFEST, RANCHER_CONFIG, Wish, recognise
from tests.gpushare.setup.node_trees import CLUSTER_YML, RKE_CLUSTER, k0s, k3s, kubeadm, rke, rke2

CONFIG = "/etc/kubernetes/scheduler-gpushare-config.yaml"
POLICY = "/etc/kubernetes/scheduler-gpushare-policy.json"
OWN = "    - --{}=/etc/kubernetes/scheduler.conf\n"
OTHER = {"kind": "KubeSchedulerConfiguration", "extenders": [{"urlPrefix": "http://127.0.0.1:8/other"}]}


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
    _, changes = removal(new, wish)
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
    """After an upgrade of Kubernetes the file that gpushare-setup wrote for the older one is replaced, and the pod restarted."""
    files = after(kubeadm(24), Wish())
    files[MANIFEST] = files[MANIFEST].replace(":v1.24.", ":v1.29.")
    site, changes = installation(files, Wish())

    assert [change.path for change in changes] == [CONFIG, MANIFEST]
    assert "kubescheduler.config.k8s.io/v1\n" in str(changes[0].new)
    assert site.minor == 29


def test_an_edited_file_stays_unless_it_is_given_up() -> None:
    """A field that a person added is not lost without a word."""
    files = after(kubeadm(), Wish())
    files[CONFIG] += "percentageOfNodesToScore: 100\n"

    with pytest.raises(
        SetupRefusedError, match=r"was edited after .*\n  fix: write it again: run gpushare-setup apply --replace"
    ):
        installation(files, Wish())
    assert [change.path for change in installation(files, Wish(is_replacing=True))[1]] == [CONFIG]


def test_another_configuration_stays_unless_it_is_given_up() -> None:
    """A scheduler that has a file already keeps it, until a person lets it go; the flag is then the one that changes."""
    files = kubeadm(flags=OWN.format("config"))

    with pytest.raises(
        SetupRefusedError, match=r"already has --config=/etc/kubernetes/scheduler.conf, which gpushare-setup did not"
    ):
        installation(files, Wish())
    text = after(files, Wish(is_replacing=True))[MANIFEST]
    assert text.count("--config=") == 1
    assert f"--config={CONFIG}\n" in text


@pytest.mark.parametrize("minor", [18, 30])
def test_an_extender_of_another_program_is_never_taken_away(minor: int) -> None:
    """A configuration that names another program's extender is left alone, whatever is asked for."""
    flag = "policy-config-file" if minor == 18 else "config"
    files = kubeadm(minor, flags=OWN.format(flag)) | {"/etc/kubernetes/scheduler.conf": yaml.safe_dump(OTHER)}

    assert "/etc/kubernetes/scheduler.conf" in named_files(files, Wish())
    with pytest.raises(SetupRefusedError, match="asks the extender of another program: http://127.0.0.1:8/other"):
        installation(files, Wish(is_replacing=True))


def test_the_flag_of_another_release_has_to_go_first() -> None:
    """A Policy beside a configuration would win or stop kube-scheduler."""
    with pytest.raises(SetupRefusedError, match=r"has --policy-config-file=.*of Kubernetes 1\.22 it needs --config"):
        installation(kubeadm(22, flags=OWN.format("policy-config-file")), Wish(is_replacing=True))


def test_a_policy_is_written_for_old_releases() -> None:
    """Kubernetes 1.17 gets a Policy and its flag."""
    files = after(kubeadm(17), Wish())

    assert json.loads(files[POLICY])["kind"] == "Policy"
    assert f"    - --policy-config-file={POLICY}\n" in files[MANIFEST]


def test_the_files_of_tls_are_mounted() -> None:
    """With TLS the files that kube-scheduler reads are in its pod, and the extender's entry names them."""
    files, wish = SITES["kubeadm 1.30"]
    new = after(files, wish)

    assert "  - hostPath:\n      path: /etc/g/ca.crt\n      type: File\n    name: gpushare-ca\n" in new[MANIFEST]
    assert yaml.safe_load(new[CONFIG])["extenders"][0]["tlsConfig"] == {"caFile": "/etc/g/ca.crt"}


def test_a_removal_needs_no_flags_of_the_installation() -> None:
    """The mounts for TLS go with the rest, also if the removal is not asked for with the same flags."""
    files, wish = SITES["kubeadm 1.30"]
    _, changes = removal(after(files, wish), Wish())

    assert changes[0].new == files[MANIFEST]


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


def test_a_file_of_tls_has_to_be_there() -> None:
    """kube-scheduler ends if a file of TLS is not there, so nothing is changed before."""
    with pytest.raises(SetupRefusedError, match=r"/etc/g/ca\.crt is not on this node"):
        installation(kubeadm(), SITES["kubeadm 1.30"][1])


@pytest.mark.parametrize(
    ("files", "wish", "what"),
    [
        ({}, Wish(), "no kube-scheduler of a known kind"),
        (
            kubeadm() | {K0S_KUBECONFIG: ""},
            Wish(),
            "the schedulers of several kinds of cluster: /etc/kubernetes/manifests/kube-sch.*k0s",
        ),
        (
            {MANIFEST: kubeadm()[MANIFEST].replace("    - --kubeconfig=/etc/kubernetes/scheduler.conf\n", "")},
            Wish(),
            "no --kubeconfig",
        ),
        ({MANIFEST: kubeadm()[MANIFEST].replace("v1.30.4", "latest")}, Wish(), "do not name the release"),
        (kubeadm(37), Wish(), r"1\.37 is not known here"),
        (rke2(image="x:v1.18.2"), Wish(), r"rke2 of Kubernetes 1\.18 is not known here"),
        (rke(), Wish(20, rke_cluster=CLUSTER_YML), f"{CLUSTER_YML} is not there"),
        (k0s("- a\n"), Wish(30), "spec.scheduler.extraArgs.config is written in a form"),
    ],
)
def test_what_would_be_a_guess_is_refused(files: dict[str, str], wish: Wish, what: str) -> None:
    """A node that is not understood is not changed."""
    with pytest.raises(SetupRefusedError, match=what):
        installation(files, wish)


def test_a_release_that_a_person_names_counts() -> None:
    """--kubernetes wins over the image, because its tag may be a site's own."""
    assert installation(kubeadm(37), Wish(36))[0].minor == 36


def test_a_file_of_k3s_that_sets_other_things_is_no_obstacle() -> None:
    """Only a file that sets the same lists wins over config.yaml."""
    extra = {
        f"{RANCHER_CONFIG.format('k3s')}.d/a.yaml": "node-label: [a=b]\n",
        f"{RANCHER_CONFIG.format('k3s')}.d/b.yaml": "",
    }

    assert installation(k3s() | extra, Wish(30))[0].name == "k3s"


def test_a_difference_names_what_is_not_there() -> None:
    """The difference of a file that comes or goes is against /dev/null, and a missing end of line is shown."""
    assert Change("/f", None, "a\n").diff() == "--- /dev/null\n+++ /f\n@@ -0,0 +1 @@\n+a\n"
    assert Change("/f", "a", None).diff() == "--- /f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\n"


def test_the_file_by_hand_is_taken_over() -> None:
    """A node that was installed by hand, by the README, gets what is missing and nothing twice."""
    files = kubeadm(36, flags=f"    - --config={CONFIG}\n") | {CONFIG: scheduler_file(36)}
    site, changes = installation(files, Wish())

    assert [change.path for change in changes] == [MANIFEST]
    assert str(changes[0].new).count("--config=") == 1
    assert site.current == {"config": CONFIG}
