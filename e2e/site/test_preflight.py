"""The preflight of a cluster: each fault is a wrong line, what cannot be seen is unknown, and a sound cluster is ok."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from clusters.api.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    Resource,
)
from clusters.deploy.render import FOLDER
from clusters.provider import Cluster
from e2e import spec
from e2e.commands import python
from e2e.site import default_ports
from e2e.site.preflight_admission import RIGHTS
from e2e.site.preflight_lines import as_text, is_wrong
from e2e.site.preflight_picture import MUTATING_WEBHOOKS, ClusterPicture, Right
from e2e.site.preflight_reading import LISTED, judge
from e2e.site.site_report import PreflightLine
from e2e.site.validation_namespace import NAMESPACE
from e2e.tenant import applied

_CONFIG: Final = "/etc/kubernetes/scheduler-gpushare-config.yaml"
_ALL_RIGHTS: Final[Mapping[Right, bool | str]] = dict.fromkeys(
    (right for wanted in RIGHTS.values() for right in wanted), True
)
_RIGHTS: Final = Path(__file__).parent / "preflight-rbac.yaml"


def node(name: str = "a1", *, labels: Mapping[str, str] | None = None, **status: Any) -> dict[str, Any]:
    """A sound node with two cards of the original's plugin."""
    amounts = {spec.RESOURCE_MEMORY: "28", spec.RESOURCE_COUNT: "2"}
    sound = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"kubeletVersion": "v1.34.1", "containerRuntimeVersion": "containerd://2.1.0"},
    }
    return {"metadata": {"name": name, "labels": labels or {"gpushare": "true"}}, "status": {**sound, **status}}


def pod(name: str, *, on: str = "a1", component: str = "", **container: Any) -> dict[str, Any]:
    """A pod of kube-system that is ready, with one container."""
    return {
        "metadata": {"name": name, "namespace": "kube-system", "labels": {"component": component}},
        "spec": {"nodeName": on, "hostNetwork": True, "containers": [{"name": "it", "image": "it:1", **container}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def plugin(**others: Any) -> dict[str, Any]:
    """The pod of a device plugin."""
    return pod("plugin-a1", component="gpushare-device-plugin", **others)


def scheduler(*, volume: Mapping[str, Any] | None = None, flag: str = f"--config={_CONFIG}") -> dict[str, Any]:
    """The static pod of kube-scheduler, as kubeadm makes it, with the file mounted."""
    mounts = [{"name": "file", "mountPath": _CONFIG}] if volume is not None else []
    made = pod("kube-scheduler-cp", on="cp", command=["kube-scheduler", flag], volumeMounts=mounts)
    made["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    made["spec"]["volumes"] = [{"name": "file", **(volume or {})}]
    return made


def deployment(replicas: int = 1, ready: int = 1) -> dict[str, Any]:
    """The extender's."""
    labels = {"component": "gpushare-schd-extender"}
    return {
        "metadata": {"name": "gpushare-schd-extender", "namespace": "kube-system", "labels": labels},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"args": ["--address=127.0.0.1"]}]}}},
        "status": {"readyReplicas": ready},
    }


def service(name: str, component: str, node_port: int = 0) -> dict[str, Any]:
    """A Service in front of a component."""
    ports = [{"port": 12345, "nodePort": node_port}] if node_port else [{"port": 12345}]
    metadata = {"name": name, "namespace": "kube-system"}
    return {"metadata": metadata, "spec": {"selector": {"component": component}, "ports": ports}}


_NODES: Final = [node(), node("cp", labels={"node-role.kubernetes.io/control-plane": ""}, capacity={})]
_PODS: Final = [
    plugin(),
    pod("extender", on="cp", component="gpushare-schd-extender"),
    scheduler(volume={"hostPath": {"path": _CONFIG}}),
]


def lines(
    changes: Mapping[Resource, Any] | None = None,
    *,
    version: str = "v1.36.0",
    rights: Mapping[Right, bool | str] = _ALL_RIGHTS,
) -> list[PreflightLine]:
    """The lines of a sound cluster with gpushare, except for ``changes`` to what is listed."""
    listed: dict[Resource, Any] = {
        NODES: _NODES,
        PODS: _PODS,
        DEPLOYMENTS: [deployment()],
        NAMESPACES: [{"metadata": {"name": "kube-system"}}],
        VALIDATING_ADMISSION_POLICIES: [{"metadata": {"name": "gpushare-x"}}],
        VALIDATING_ADMISSION_POLICY_BINDINGS: [{"spec": {"policyName": "gpushare-x"}}],
    }
    now, nothing = datetime(2026, 1, 1, tzinfo=UTC), dict[Resource, Any].fromkeys(LISTED, ())
    return judge(
        ClusterPicture(now, version, {**nothing, **listed, **(changes or {})}, rights, frozenset({"gpushare-x"}))
    )


def only(name: str, changes: Mapping[Resource, Any]) -> PreflightLine:
    """The one line of that name."""
    (line,) = [one for one in lines(changes) if one.name == name]
    return line


def bad(found: list[PreflightLine]) -> list[tuple[str, str, str]]:
    """Name, subject and judgement of what is not ok; each of them has what to do."""
    worse = [line for line in found if line.judgement != "ok"]
    assert all(line.text and line.todo for line in worse)
    return [(line.name, line.subject, line.judgement) for line in worse]


ODD: dict[str, Any] = {
    "status": {"status": "gone"},
    "taints": {"spec": {"taints": [{"value": "x"}]}},
    "labels": {"metadata": {"name": "odd", "labels": ["gpushare"]}},
    "annotations": {"metadata": {"name": "odd", "labels": {"gpushare": "true"}, "annotations": 4}},
}


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_node_alone_is_not_judged(kind: str) -> None:
    """By the rules that it ends; all others judge it, and it changes no other line. The log has the traceback."""
    odd = {**node("odd"), **ODD[kind]}
    seen = lines({NODES: [*_NODES, odd]})
    unseen = [line for line in seen if line.subject == "node odd" and "not judged" in line.text]
    names = {line.name for line in unseen}
    of_others = [line for line in seen if line.subject != "node odd"]

    assert names
    assert of_others == lines()
    assert {line.judgement for line in unseen} == {"unknown"}
    assert re.fullmatch(
        r"not judged: an unexpected error ended the check \(\w+Error: .*\); \S+\.log has the details", unseen[0].text
    )
    assert "Traceback" in Path(unseen[0].text.split("; ")[-1].split(" ")[0]).read_text()
    assert unseen[0].text in as_text(seen)


def test_an_odd_pod_hides_only_its_node() -> None:
    """A rule about pods cannot judge that node; one that waits is named itself."""
    metadata = {"name": "odd", "namespace": "d"}
    of_node = lines({NODES: [*_NODES, node("b1")], PODS: [*_PODS, {"metadata": metadata, "spec": {"nodeName": "b1"}}]})
    waiting = lines({PODS: [*_PODS, {"metadata": metadata}]})

    assert {line.subject for line in of_node if "not judged" in line.text} == {"node b1"}
    assert {line.subject for line in waiting if "not judged" in line.text} == {"pod d/odd"}
    assert ("other plugins", "node a1", "ok") in [line[:3] for line in map(msgspec.structs.astuple, of_node)]


def test_an_odd_service_ends_no_other_rule() -> None:
    """The rule that it ends has one line, of the whole cluster."""
    seen = lines({SERVICES: [{"metadata": {}}]})

    assert {line.subject for line in seen if "not judged" in line.text} == {"cluster"}
    assert [line for line in seen if line.name == "cards"] == [line for line in lines() if line.name == "cards"]


def test_a_sound_cluster_is_ok() -> None:
    """Every line is ok, and each rule has one."""
    found = lines()
    assert bad(found) == []
    assert {"API server", "rights", "cards", "device plugin", "extender", "scheduler", "ports"} < {
        line.name for line in found
    }


def test_before_an_installation_nothing_is_wrong() -> None:
    """Missing programs are unknown, with what to do; the exit code stays 0."""
    bare = node(capacity={}, allocatable={})
    changes = {NODES: [bare], PODS: [scheduler(flag="-v=2")], DEPLOYMENTS: [], VALIDATING_ADMISSION_POLICIES: []}
    found = lines(changes)
    assert not is_wrong(found)
    assert {name for name, _, _ in bad(found)} == {
        "admission policies",
        "device plugin",
        "cards",
        "extender",
        "scheduler",
    }


@pytest.mark.parametrize(
    ("changed", "name", "judgement"),
    [
        (node(labels={"x": ""}), "node label", "wrong"),
        (node(conditions=[{"type": "Ready", "status": "Unknown"}]), "node readiness", "wrong"),
        (node() | {"spec": {"unschedulable": True}}, "node readiness", "wrong"),
        (node() | {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}, "node readiness", "unknown"),
        (node(nodeInfo={"kubeletVersion": "v1.37.0"}), "node versions", "wrong"),
        (node(nodeInfo={"kubeletVersion": "v1.32.9"}), "node versions", "wrong"),
        (node(nodeInfo={}), "node versions", "unknown"),
        (node(allocatable={spec.RESOURCE_MEMORY: "14"}), "cards", "wrong"),
        (node(capacity={}), "cards", "wrong"),
        (node(capacity={spec.RESOURCE_MEMORY: "many"}), "cards", "wrong"),
        (node(allocatable={spec.RESOURCE_MEMORY: "many"}), "cards", "wrong"),
    ],
)
def test_a_fault_of_a_node_is_its_line(changed: dict[str, Any], name: str, judgement: str) -> None:
    """One fault is one line that is not ok, and names the node."""
    assert bad(lines({NODES: [changed]})) == [(name, "node a1", judgement)]


def test_a_card_that_is_sick_is_wrong() -> None:
    """The cards of a node are judged by the invariants of observe."""
    sick = node(capacity={spec.RESOURCE_MEMORY: "14", spec.RESOURCE_COUNT: "1"})
    card = {"index": 0, "uuid": "GPU-x", "units": 14, "healthy": False}
    sick["metadata"]["annotations"] = {spec.NODE_CARDS: json.dumps({"v": 1, "mode": "ids", "cards": [card]})}
    assert bad(lines({NODES: [sick]})) == [("cards", "node a1 card 0", "wrong")]


def test_a_plugin_that_is_not_ready_is_wrong() -> None:
    """A plugin that waits, two on one node, and none at all."""
    ended = plugin()
    ended["status"]["conditions"] = []
    line = only("device plugin", {PODS: [ended]})
    assert (line.judgement, line.subject) == ("wrong", "node a1")
    assert only("device plugin", {PODS: [plugin(), plugin()]}).text.startswith("2 device plugins")
    assert only("device plugin", {PODS: []}).judgement == "unknown"


def test_other_plugins_of_the_cards_are_named() -> None:
    """By what the node offers, and by the pods on it."""
    amounts = {
        spec.RESOURCE_MEMORY: "28",
        spec.RESOURCE_COUNT: "2",
        "nvidia.com/gpu": "2",
        "nvidia.com/mig-1g.5gb": "0",
    }
    other = pod("nvidia-x", image="nvcr.io/nvidia/k8s-device-plugin:v0.17.0")
    line = only("other plugins", {NODES: [node(capacity=amounts)], PODS: [plugin(), other]})
    assert line.text.startswith("it offers nvidia.com/gpu and kube-system/nvidia-x run on it")


@pytest.mark.parametrize(
    ("pods", "judgement", "words"),
    [
        ([scheduler(flag="-v=2")], "wrong", "has no --config"),
        ([scheduler()], "wrong", "is not mounted"),
        ([], "unknown", "no pod of kube-scheduler is visible"),
        ([scheduler(volume={"configMap": {"name": "named"}})], "ok", "names an extender"),
        ([scheduler(volume={"configMap": {"name": "other"}})], "wrong", "names no extender"),
    ],
)
def test_a_scheduler_is_judged_by_its_config(pods: list[Any], judgement: str, words: str) -> None:
    """It has a configuration, which is mounted, and which names the extender if it can be seen."""
    contents = {"named": spec.RESOURCE_MEMORY, "other": "profiles: []"}
    maps = [
        {"metadata": {"name": name, "namespace": "kube-system"}, "data": {"x": text}} for name, text in contents.items()
    ]
    line = only("scheduler", {PODS: [plugin(), *pods], CONFIG_MAPS: maps})
    assert (line.judgement, words in line.text) == (judgement, True), line.text


def test_a_second_scheduler_may_be_the_one_with_a_config() -> None:
    """The control plane's own is unknown then: pods must name the other one."""
    second = scheduler(volume={"hostPath": {}})
    second["metadata"] |= {"name": "mine", "annotations": {}}
    found = lines({PODS: [plugin(), scheduler(flag="-v=2"), second]})
    judged = {line.subject: line.judgement for line in found if line.name == "scheduler"}
    assert judged == {"pod kube-system/kube-scheduler-cp": "unknown", "pod kube-system/mine": "ok"}


def test_a_node_that_shares_no_longer_has_no_line() -> None:
    """Its label and its description are gone, and its kubelet shows that it has 0 of the memory."""
    former = node("former", labels={"x": ""}, capacity={spec.RESOURCE_MEMORY: "0"})
    assert not any("former" in line.subject for line in lines({NODES: [node(), former]}))


def test_a_second_scheduler_needs_no_service() -> None:
    """Kube-scheduler calls the extender on the loopback of the pod that both are in."""
    both = pod("extender", on="a1", component="gpushare-schd-extender")
    both["spec"] |= {"hostNetwork": False}
    assert only("extender service", {PODS: [plugin(), both]}).judgement == "wrong"

    both["spec"]["containers"] += [{"name": "kube-scheduler", "image": "it:1", "command": ["kube-scheduler"]}]
    assert only("extender service", {PODS: [plugin(), both]}).judgement == "ok"


@pytest.mark.parametrize(
    ("changed", "words"), [(deployment(2, 2), "do not know of each other"), (deployment(ready=0), "0 of 1 are ready")]
)
def test_an_extender_that_is_not_right_is_wrong(changed: dict[str, Any], words: str) -> None:
    """Two without a guard, and one that is not ready."""
    found = lines({DEPLOYMENTS: [changed]})
    assert bad(found) == [("extender", "deployment kube-system/gpushare-schd-extender", "wrong")]
    assert words in as_text(found)


def test_ports_of_others_are_conflicts() -> None:
    """A Service with our node port, and a pod with our port on a control plane; our own Service is no conflict."""
    ours = service("ours", "gpushare-schd-extender", default_ports.NODE_PORT)
    theirs = service("theirs", "x", default_ports.NODE_PORT)
    stranger = pod("stranger", on="cp", ports=[{"containerPort": default_ports.EXTENDER}])
    elsewhere = pod("elsewhere", on="a1", ports=[{"containerPort": default_ports.EXTENDER}])
    found = lines({SERVICES: [ours, theirs], PODS: [plugin(), stranger, elsewhere]})
    subjects = [line.subject for line in found if line.name == "ports" and line.judgement == "wrong"]
    assert subjects == ["service kube-system/theirs", "pod kube-system/stranger"]


def test_ports_are_those_of_the_manifests() -> None:
    """The preflight looks for the ports that clusters/deploy asks for."""
    text = "\n".join(path.read_text() for path in FOLDER.rglob("*.yaml"))
    for port in (*default_ports.CONTROL_PLANE, *default_ports.SHARING):
        assert f"containerPort: {port}" in text
    assert f"nodePort: {default_ports.NODE_PORT}" in text


def test_a_right_that_lacks_is_wrong() -> None:
    """It is named; no answer makes it unknown, and so does the right to make a thing that may be there already."""
    classes = Right("create", "priorityclasses", group="scheduling.k8s.io")
    denied = (Right("create", "namespaces"), classes, Right("create", "pods", namespace=NAMESPACE))
    rights = {**_ALL_RIGHTS, **dict.fromkeys(denied, False), Right("list", "events", namespace=NAMESPACE): "no answer"}
    found = lines(rights=rights)
    assert bad(found) == [
        ("rights", "pods", "wrong"),
        ("rights", "events", "unknown"),
        ("rights", "namespaces", "unknown"),
        ("rights", "priorityclasses", "unknown"),
    ]


def test_admission_that_stands_in_the_way_is_named() -> None:
    """A policy without its binding, a webhook that changes pods, and a namespace that refuses the programs."""
    rule = {"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}
    hook = {"metadata": {"name": "mesh"}, "webhooks": [{"name": "inject", "rules": [rule]}, {"name": "idle"}]}
    strict = {"metadata": {"name": "kube-system", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    found = lines({VALIDATING_ADMISSION_POLICY_BINDINGS: [], MUTATING_WEBHOOKS: [hook], NAMESPACES: [strict]})
    assert bad(found) == [
        ("admission policies", "cluster", "wrong"),
        ("webhooks", "webhook mesh/inject", "unknown"),
        ("pod security", "namespace kube-system", "wrong"),
    ]


def test_what_may_not_be_listed_is_unknown() -> None:
    """Without any right no line is wrong, and none is missing."""
    refused = "cannot list resource"
    kinds = LISTED.keys() - {CONFIG_MAPS, VALIDATING_ADMISSION_POLICY_BINDINGS}
    found = lines(dict.fromkeys(kinds, refused))
    assert not is_wrong(found)
    unknown = {line.name for line in found if line.judgement == "unknown"}
    assert unknown == {line.name for line in found} - {"API server", "rights"}


def test_an_api_server_that_is_too_old_is_wrong() -> None:
    """So is none of a version that can be read."""
    assert bad(lines(version="v1.24.1"))[0] == ("API server", "cluster", "wrong")
    assert bad(lines(version="x"))[0] == ("API server", "cluster", "unknown")


async def test_preflight_of_a_running_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """With the rights of its file it sees everything, and finds only what a validation may not do with them."""
    # As kubectl does it: a file of $KUBECONFIG that is not there is passed over.
    named = os.pathsep.join([str(tmp_path / "none"), str(await applied(cluster, _RIGHTS))])
    code, output, errors = await python("-m", "e2e", "preflight", "-o", "json", variables={"KUBECONFIG": named})
    found = [PreflightLine(**line) for line in json.loads(output)["lines"]]
    assert code == 3, errors
    assert {line.name for line in found if line.judgement == "wrong"} == {"rights"}
    assert not [line for line in found if "cannot be listed" in line.text]
    assert [line.judgement for line in found if line.name == "cards"]
    assert {line.judgement for line in found if line.name in ("cards", "admission policies")} == {"ok"}


async def test_preflight_without_an_api_server_fails(tmp_path: Path) -> None:
    """The exit code is 1 with a line that names the server or the file, and 2 for a wrong call."""
    done = await python("-m", "e2e", "preflight", "--kubeconfig", str(tmp_path / "none"))
    assert (done.code, done.errors.startswith("preflight: there is no kubeconfig at")) == (1, True)
    assert (await python("-m", "e2e", "preflight", "--root", "/x")).code == 2
