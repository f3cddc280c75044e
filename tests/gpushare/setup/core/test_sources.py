"""The sources of kube-scheduler's file, as k3s, RKE2, kops and others leave them: the file that counts, or why that is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpushare.setup.core.faults import SetupRefusedError
from gpushare.setup.core.plan import installation, node_faults, removal
from gpushare.setup.core.scheduler_files import scheduler_file
from gpushare.setup.core.sites import MANIFEST, MANIFESTS, Wish, named_files, recognise
from tests.gpushare.setup.node_trees import k0s, k3s, kubeadm, rke2

OWN = "/own.yaml"
FILE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
K3S = "/etc/rancher/k3s/config.yaml"
RKE2 = "/etc/rancher/rke2/config.yaml"
K3S_FILE = "/etc/rancher/k3s/scheduler-gpushare-config.yaml"
RKE2_FILE = "/etc/rancher/rke2/scheduler-gpushare-config.yaml"
UNIT = "/etc/systemd/system/k3s.service"
ARG = "--kube-scheduler-arg"
OUR_ARG = f"kube-scheduler-arg: [config={K3S_FILE}]\n"


def unit(*lines: str, start: str = "/usr/local/bin/k3s server") -> str:
    """A unit with a command and more of the section Service."""
    rest = "".join(f"{line}\n" for line in lines)
    return f"[Unit]\nExecStart=/no\n[Service]\nType=notify\n{rest}ExecStart={start}\n[Install]\na=b\n"


def started(words: str, *lines: str) -> dict[str, str]:
    """A server of k3s with a unit that passes these words."""
    return k3s() | {UNIT: unit(*lines, start=f"/usr/local/bin/k3s server {words}")}


def pod(
    command: str,
    args: str = "null",
    name: str = "kube-scheduler",
    image: str = "registry.k8s.io/kube-scheduler:v1.30.1",
) -> str:
    """A static pod that sees every file of the node."""
    return (
        f"metadata:\n  name: {name}\nspec:\n  containers:\n  - command: {command}\n    args: {args}\n    image: {image}\n"
        "    volumeMounts: [{name: all, mountPath: /own.yaml}]\n  volumes: [{name: all, hostPath: {path: /own.yaml}}]\n"
    )


SCRIPT = '[sh, -c, "exec kube-scheduler --v=2 {} --kubeconfig=/k >>/log 2>&1"]'
OPENRC = "command=\"/usr/local/bin/k3s\"\ncommand_args=\"server \\\n  '{}' 'config={}' \\\n >>${{LOG_FILE}} 2>&1\"\n"
SCRIPTED = OPENRC.format(ARG, OWN)
SERVER = "k3s server"
GIVEN, NOT = f"{ARG} config={OWN}", f"{ARG} config=/no"
IN_FILE, NOT_IN_FILE = f"kube-scheduler-arg: [config={OWN}]\n", "kube-scheduler-arg: [config=/no]\n"
APPENDED = "kube-scheduler-arg+: [{}]\n"
MORE = f"{K3S}.d/a.yaml"
DROP_IN, PACKAGE = f"{UNIT}.d/10.conf", "/usr/lib/systemd/system/k3s.service"
VARIABLES = "EnvironmentFile="
ANOTHER = unit("ExecStart=", start=f"{SERVER} {GIVEN}")
KUBELET = "/var/lib/kubelet/config.yaml"
BY_ENV = unit(start=f"env K3S_CONFIG_FILE=/c {SERVER}")
OF_RKE2 = unit("Environment=RKE2_CONFIG_FILE=/c", start="rke2 server")
OF_K0S = unit(start="/usr/local/bin/k0s controller --config=/k.yaml")
IN_K0S = f"spec: {{scheduler: {{extraArgs: {{config: {OWN}}}}}}}\n"
OWN_FLAG = f"[--config={OWN}]"
RUN = f"[kube-scheduler, --config={OWN}]"
# The files of a node, and the file of its kube-scheduler that counts.
READ: dict[str, tuple[dict[str, str], str]] = {
    "nothing is named": (k3s(), K3S_FILE),
    "two words": (started(GIVEN), OWN),
    "one word": (started(f"'{ARG}=config={OWN}'"), OWN),
    "the last of two": (started(f"{NOT} {GIVEN}"), OWN),
    "lines that go on, with a comment": (started(f"\\\n  # {NOT}\n  '{ARG}' \\\n  'config={OWN}' \\\n"), OWN),
    "the unit over config.yaml": (started(GIVEN) | {K3S: OUR_ARG}, OWN),
    "a drop-in that sets the command again": (started(NOT) | {DROP_IN: ANOTHER}, OWN),
    "a drop-in of another folder is masked": (
        started("") | {DROP_IN: ANOTHER, f"{PACKAGE}.d/10.conf": unit("ExecStart=", start=f"{SERVER} {NOT}")},
        OWN,
    ),
    "the unit of a package is masked": (started("") | {PACKAGE: unit(start=f"{SERVER} {NOT}")}, K3S_FILE),
    "a shell in the unit": (k3s() | {UNIT: unit(start=f"/bin/sh -c 'exec {SERVER} {GIVEN}'")}, OWN),
    "variables of the unit": (started("$ARGS ${NONE}", f'Environment="ARGS={GIVEN}" A=b'), OWN),
    "variables that are reset": (started("$ARGS", f'Environment="ARGS={NOT}"', "Environment="), K3S_FILE),
    "no variables": (k3s() | {UNIT: unit("Environment=A=/no", start=f":{SERVER} {ARG} config=${{A}}")}, "${A}"),
    "a file of variables": (started("$ARGS", f"{VARIABLES}-/e/%N") | {"/e/k3s": f'# ARGS=no\nARGS="{GIVEN}"\n'}, OWN),
    "a file that is reset": (started("$ARGS", f"{VARIABLES}/no", VARIABLES) | {"/no": f'ARGS="{NOT}"\n'}, K3S_FILE),
    "another file, by a variable": (
        started("-c /no.yaml", f"{VARIABLES}-/e") | {"/e": "K3S_CONFIG_FILE=/c.yaml", "/c.yaml": IN_FILE},
        OWN,
    ),
    "another file, by a flag": (started("--config=/c.yaml") | {"/c.yaml": IN_FILE, K3S: NOT_IN_FILE}, OWN),
    "another file, by a variable in the command": (k3s() | {UNIT: BY_ENV, "/c": IN_FILE}, OWN),
    "the folder beside another file": (
        started("-c /c.yaml") | {"/c.yaml.d/a.yaml": f"kube-scheduler-arg: config={OWN}\n", MORE: OUR_ARG},
        OWN,
    ),
    "a key that replaces": (k3s(NOT_IN_FILE) | {MORE: IN_FILE}, OWN),
    "a key that appends": (k3s(NOT_IN_FILE) | {MORE: APPENDED.format(f"config={OWN}")}, OWN),
    "a key that appends another flag": (k3s(IN_FILE) | {MORE: APPENDED.format("v=2")}, OWN),
    "files that set other things": (k3s() | {MORE: "node-label: [a=b]\n", f"{K3S}.d/b.yaml": ""}, K3S_FILE),
    "an agent is no server": (k3s() | {f"{UNIT[:-8]}-agent.service": unit(start=f"k3s agent {NOT}")}, K3S_FILE),
    "OpenRC": (k3s() | {"/etc/init.d/k3s": SCRIPTED}, OWN),
    "OpenRC with a variable": (
        k3s()
        | {"/etc/init.d/k3s": 'command=k3s\ncommand_args="server"\n', "/c.yaml": IN_FILE}
        | {"/etc/rancher/k3s/k3s.env": "export K3S_CONFIG_FILE='/c.yaml'"},
        OWN,
    ),
    "data elsewhere": ({UNIT: unit("Environment=K3S_DATA_DIR=/data", start=f"{SERVER} --disable traefik")}, K3S_FILE),
    "RKE2, a drop-in that appends": (rke2("") | {f"{RKE2}.d/a.yaml": "kube-scheduler-arg+:\n- v=2\n"}, RKE2_FILE),
    "RKE2, a mount under another path": (
        rke2(f"kube-scheduler-arg: [config=/in]\nkube-scheduler-extra-mount: ['{OWN}:/in:ro']\n"),
        OWN,
    ),
    "RKE2, a folder that is mounted": (
        rke2("kube-scheduler-arg: [config=/in/s/a.yaml]\nkube-scheduler-extra-mount: ['/no:/in', '/srv:/in/s']\n"),
        "/srv/a.yaml",
    ),
    "RKE2, a variable": (rke2() | {"/usr/local/lib/systemd/system/rke2-server.service": OF_RKE2, "/c": IN_FILE}, OWN),
    "k0s, another file": (k0s() | {"/etc/systemd/system/k0scontroller.service": OF_K0S, "/k.yaml": IN_K0S}, OWN),
    "a pod, a value as a word of its own": ({MANIFEST: pod(f"[kube-scheduler, --config, {OWN}]")}, OWN),
    "a pod, the last of two": ({MANIFEST: pod(f"[kube-scheduler, --config=/no, --config={OWN}]")}, OWN),
    "a pod, arguments": ({MANIFEST: pod("[/usr/local/bin/kube-scheduler]", OWN_FLAG)}, OWN),
    "a pod, a shell": ({MANIFEST: pod(SCRIPT.format(f"--config={OWN}"))}, OWN),
    "a pod, a wrapper": (
        {f"{MANIFESTS}/s.manifest": pod("[/go-runner]", f"[--also-stdout, kube-scheduler, --config={OWN}]")},
        OWN,
    ),
    "a pod, hyperkube": ({MANIFEST: pod(f"[A=b, /hyperkube, scheduler, --config={OWN}]")}, OWN),
    "a pod in another folder": ({"/srv/pods/s.json": pod(RUN), KUBELET: "staticPodPath: /srv/pods/\n"}, OWN),
    "a pod in a folder that a flag names": (
        {"/srv/s": pod(RUN), "/lib/systemd/system/kubelet.service": unit(start="kubelet --pod-manifest-path /srv")},
        OWN,
    ),
}


def test_a_service_is_restarted_by_its_name() -> None:
    """The name is that of the unit, whichever of its files has the command."""
    files = started("") | {f"{UNIT}.d/10.conf": unit("ExecStart=", start="k3s server")}
    assert recognise(files, Wish(30)).restart == "systemctl restart k3s"


@pytest.mark.parametrize("name", READ)
def test_the_file_that_counts_is_found(name: str) -> None:
    """Whatever names the file last is followed: it gets the extender, check agrees, and an uninstall gives back what was there."""
    files, path = READ[name]
    files = files | ({} if path.startswith("/etc/rancher") else {path: FILE})
    wish = Wish(30)
    site, changes = installation(files, wish)

    assert site.file == path
    assert path in named_files(files, wish)
    new = files | {one.path: one.new or "" for one in changes}
    assert site.argument.endswith(path) or "/in" in site.argument
    assert node_faults(new, wish, [("kube-scheduler", site.argument)]) == []
    assert node_faults(files, wish, [("kube-scheduler", site.argument)]) != [], "no node is good before"
    left: dict[str, str | None] = {**new, **{one.path: one.new for one in removal(new, wish)[1]}}
    assert {one: text for one, text in left.items() if text} == {one: text for one, text in files.items() if text}


BY_HAND = f"{MANIFEST}: it runs {{}} | configure that"
KOPS = pod("[kube-scheduler, --authentication-kubeconfig=/var/lib/kube-scheduler/k]", OWN_FLAG)
DYNAMIC = 'command=k0s\ncommand_args="controller --enable-dynamic-config"\n'
BINDS_TOO = f"{FILE}extenders: [{{urlPrefix: 'http://a/b', bindVerb: bind}}]\n"
MICROK8S = "/var/snap/microk8s/current/args/kube-scheduler"
TALOS = "/system/config/kubernetes/kube-scheduler/scheduler-config.yaml"
SERVICE = "/etc/systemd/system/kube-scheduler.service"
DISABLED = "disable-scheduler is set | run gpushare-setup on"
# The files of a node, and with what it is refused: the beginnings of the fault and of what to do.
REFUSED: dict[str, tuple[Mapping[str, str], str]] = {
    "the unit passes arguments": (
        started(f"{ARG} v=2"),
        f"{UNIT}: sets kube-scheduler-arg, which wins over {K3S} | move its list of kube-scheduler-arg to {K3S}",
    ),
    "the file of the unit is gone": (
        started(f"{ARG} config=/gone"),
        f"{UNIT}: kube-scheduler has --config=/gone, which is not on this node | write that file",
    ),
    "two services": (
        started("") | {"/etc/init.d/k3s": SCRIPTED},
        "several services start a server of k3s | remove those",
    ),
    "quotes of the unit": (started("'"), f"{UNIT}:  | close the quotes there"),
    "quotes of the script": (
        k3s() | {"/etc/init.d/k3s": 'command=k3s\ncommand_args="server \'a"\n'},
        "/etc/init.d/k3s: command_args | close the quotes there",
    ),
    "a file of the net": (
        started("-c https://c/x"),
        f"{UNIT}: k3s reads its configuration from https://c/x | add kube-scheduler's file",
    ),
    "no scheduler, by a flag": (started("--disable-scheduler"), f"{UNIT}: {DISABLED}"),
    "no scheduler, by the file": (k3s("disable-scheduler: true\n"), f"{K3S}: {DISABLED}"),
    "k0s keeps it in the cluster": (
        k0s() | {"/etc/init.d/k0scontroller": DYNAMIC},
        "k0s reads spec.scheduler from the cluster | kubectl edit clusterconfig",
    ),
    "kops": (
        {f"{MANIFESTS}/kube-scheduler.manifest": KOPS, OWN: FILE},
        f"{OWN}: it is changed by another program | kops writes it again from the cluster spec",
    ),
    "another scheduler": ({MANIFEST: pod("[/scheduler, --name, kube-scheduler]")}, BY_HAND.format("/scheduler")),
    "the image's own program": (
        {MANIFEST: pod("null", "[--v=2]")},
        f"{MANIFEST}: it runs what the image registry.k8s.io/ | configure",
    ),
    "a shell's other program": ({MANIFEST: pod('[sh, -ec, "sleep 1\\n/other; true"]')}, BY_HAND.format("sh")),
    "a shell without quotes": (
        {MANIFEST: pod('[sh, -c, "kube-scheduler \'"]')},
        f"{MANIFEST}: no pod that runs kube-scheduler | compare",
    ),
    "a shell without a script": ({MANIFEST: pod("[sh]")}, BY_HAND.format("sh")),
    "no container": ({MANIFEST: "metadata: {name: a}\nspec: {containers: []}\n"}, BY_HAND.format("nothing")),
    "a shell without the flag": (
        {MANIFEST: pod(SCRIPT.format(""))},
        f"{MANIFEST}: a shell's script starts | add --config=",
    ),
    "flags of a variable": (
        {MANIFEST: pod("[kube-scheduler, $(ARGS)]")},
        f"{MANIFEST}: '$(ARGS)' is no flag | write each flag",
    ),
    "a file of the image": (
        {MANIFEST: pod("[kube-scheduler, --config=/in/image]")},
        f"{MANIFEST}: --config=/in/image of | mount it",
    ),
    "a file of an old version": (
        started(GIVEN) | {OWN: FILE.replace("/v1", "/v1beta1")},
        f"{OWN}: Kubernetes 1.30 does not read | change it by hand",
    ),
    "another extender that binds": (
        started(GIVEN) | {OWN: BINDS_TOO},
        f"{OWN}: another extender binds too | change it by hand",
    ),
    "the kubelet reads another folder": (
        kubeadm() | {KUBELET: "staticPodPath: /srv/pods\n"},
        f"{MANIFEST}: kube-scheduler is started | the kubelet reads /srv/pods",
    ),
    "MicroK8s": ({MICROK8S: ""}, f"{MICROK8S}:  | these are MicroK8s'"),
    "Talos": ({TALOS: ""}, "/system/config/ | Talos writes it"),
    "a service of its own": (
        {SERVICE: unit(start=f"/usr/bin/kube-scheduler --config={OWN}")},
        f"{SERVICE}:  | a service of its own",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_recognised_is_named_and_left(name: str) -> None:
    """The file that was found is named, nothing is taken away, and check does not call the node good."""
    files, expected = REFUSED[name]
    what, _, fix = expected.partition(" | ")
    with pytest.raises(SetupRefusedError) as refused:
        installation(files, Wish(30))

    assert refused.value.fault.what.startswith(what)
    assert refused.value.fault.fix.startswith(fix)
    assert "kubeadm init" not in refused.value.fault.fix
    assert node_faults(files, Wish(30), []) != []


def test_a_file_that_another_source_names_is_not_taken_away() -> None:
    """An uninstall leaves a file that a unit names, since kube-scheduler would not start; no flag is taken out of a unit."""
    files = started(f"{ARG} config={K3S_FILE}") | {K3S_FILE: scheduler_file(30)}
    with pytest.raises(SetupRefusedError, match=rf"{UNIT}: it names {K3S_FILE}"):
        removal(files, Wish(30))
    with pytest.raises(SetupRefusedError, match=rf"{UNIT}: it names {OWN}, in a form that is not edited here"):
        installation(started(f"{ARG} config={OWN}") | {OWN: FILE}, Wish(30, is_replacing=True))
    assert not recognise(files, Wish(30)).runs_with_it(("kube-scheduler", "word"))


def test_kubeadms_name_comes_before_others() -> None:
    """A second manifest of kube-scheduler is a copy, and one that cannot be read is named by its file alone."""
    copy = f"{MANIFESTS}/a-copy.yaml"
    files = kubeadm() | {
        copy: kubeadm()[MANIFEST],
        f"{MANIFESTS}/b.yaml": "kube-scheduler: [",
        f"{MANIFESTS}/c.yaml": "# kube-scheduler\n",
    }

    assert recognise(files, Wish()).document == MANIFEST
    assert node_faults(files, Wish(), [])[0].what.startswith(f"{copy}: the kubelet runs a copy too")


def test_a_node_of_no_known_kind_has_static_pods_to_look_at() -> None:
    """The kubelet's folder is read before anything is known of the node."""
    assert f"{MANIFESTS}/[!.]*" in named_files({}, Wish())
