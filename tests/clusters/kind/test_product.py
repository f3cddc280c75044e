"""Promises of clusters.kind.product."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from clusters.kind.product import PLUGIN_LABEL, PluginSet, fitted, is_in_images, plugin_sets, scheduler_of
from clusters.provider import ClusterError, NodeSpec
from clusters.targets import Target, load_target

DAEMON_SET: dict[str, Any] = {
    "kind": "DaemonSet",
    "metadata": {"name": "gpushare-device-plugin-ds"},
    "spec": {
        "selector": {"matchLabels": {"app": "gpushare", "name": "gpushare-device-plugin-ds"}},
        "template": {
            "metadata": {"labels": {"app": "gpushare", "name": "gpushare-device-plugin-ds"}},
            "spec": {
                "nodeSelector": {"gpushare": "true"},
                "containers": [
                    {"name": "gpushare", "command": ["gpushare-device-plugin"], "args": ["--memory-unit=GiB"]}
                ],
            },
        },
    },
}
DEPLOYMENT: dict[str, Any] = {
    "kind": "Deployment",
    "metadata": {"name": "gpushare-schd-extender"},
    "spec": {"template": {"spec": {"containers": [{"name": "e", "args": ["--address=127.0.0.1"]}]}}},
}
ACCOUNT: dict[str, Any] = {"kind": "ServiceAccount", "metadata": {"name": "gpushare-device-plugin"}}
MANIFESTS = [ACCOUNT, DEPLOYMENT, DAEMON_SET]


def fit(*sets: PluginSet, target: str = "gpushare") -> dict[str, dict[str, Any]]:
    """The objects by name."""
    return {item["metadata"]["name"]: item for item in fitted(MANIFESTS, load_target(target), sets)}


def pod_of(item: dict[str, Any]) -> dict[str, Any]:
    """The pod's spec of a workload."""
    spec: dict[str, Any] = item["spec"]["template"]["spec"]
    return spec


def test_nodes_with_the_same_arguments_share_a_daemon_set() -> None:
    """In the order of the cluster's file; a node without cards is in none."""
    nodes = [
        NodeSpec("a", "t4x1"),
        NodeSpec("b", "t4x2", plugin_arguments=("--usage",)),
        NodeSpec("c", "mixed"),
        NodeSpec("cpu"),
    ]

    assert plugin_sets(nodes) == [
        PluginSet("gpushare-device-plugin-ds", (), ("a", "c")),
        PluginSet("gpushare-device-plugin-ds-2", ("--usage",), ("b",)),
    ]


def test_each_daemon_set_takes_its_own_nodes_and_pods() -> None:
    """By a label of the node, and by its own name among the pods' labels."""
    first, second = PluginSet("gpushare-device-plugin-ds", (), ("a",)), PluginSet("other", ("--usage",), ("b",))
    objects = fit(first, second)

    for name in (first.name, second.name):
        item = objects[name]
        assert pod_of(item)["nodeSelector"] == {"gpushare": "true", PLUGIN_LABEL: name}
        assert item["spec"]["selector"]["matchLabels"]["name"] == name
        assert item["spec"]["template"]["metadata"]["labels"]["name"] == name


def test_arguments_of_target_and_node_follow_the_manifests() -> None:
    """The last value of a flag counts for a program; braces become the container's values. The image names the program."""
    name = "gpushare-device-plugin-ds"
    (container,) = pod_of(fit(PluginSet(name, ("--proc-root={proc_root}",), ("a",)), target="gpushare-slots")[name])[
        "containers"
    ]

    assert container["args"] == [
        *("--memory-unit=GiB", "--mode", "slots"),
        *("--device-plugin-path", "/var/lib/kubelet/device-plugins"),
        *("--pod-resources-socket", "/var/lib/kubelet/pod-resources/kubelet.sock"),
        *("--sys-root", "/var/lib/gpushare-simulated/state.sys"),
        "--proc-root=/proc",
    ]


def test_the_extender_gets_the_words_of_the_target() -> None:
    """The target's arguments follow those of the manifest, even if they are equal."""
    (container,) = pod_of(fit()["gpushare-schd-extender"])["containers"]

    assert container["args"] == ["--address=127.0.0.1", "--address", "127.0.0.1"]


@pytest.mark.parametrize(("arguments", "expected"), [((), False), (("--usage", "--usage-interval=1s"), True)])
def test_plugin_that_watches_use_sees_its_nodes_processes(arguments: tuple[str, ...], expected: bool) -> None:
    """No other does."""
    pod = pod_of(fit(PluginSet("ds", arguments, ("a",)))["ds"])

    assert pod.get("hostPID", False) is expected


def test_the_manifests_stay_as_they_were() -> None:
    """Fitting leaves the manifests as they are, because they are fitted again when a node comes later."""
    before = copy.deepcopy(MANIFESTS)
    objects = fit(PluginSet("ds", ("--usage",), ("a",)))

    assert before == MANIFESTS
    assert objects["gpushare-device-plugin"] == ACCOUNT


def test_manifests_without_a_program_are_refused_by_name() -> None:
    """A renamed DaemonSet would be deployed as it is, to no node of ours."""
    with pytest.raises(ClusterError, match="gpushare-device-plugin-ds"):
        fitted([ACCOUNT, DEPLOYMENT], load_target("gpushare"), [])


@pytest.mark.parametrize(
    ("target", "expected"),
    [("gpushare", True), ("gpushare-slots", True), ("rival", False), ("original-dialect", False)],
)
def test_images_hold_our_programs_alone(target: str, expected: bool) -> None:
    """Other programs would be given the flags of ours, and end."""
    assert is_in_images(load_target(target)) is expected


def test_a_scheduler_without_an_extender_gets_no_file() -> None:
    """A target of no programs leaves kube-scheduler as it is."""
    assert scheduler_of(Target(name="nothing")) == ""


def test_a_scheduler_asks_a_foreign_extender_as_its_target_says() -> None:
    """Verbs that the target does not declare are not asked for, and the scheduler finds its own kubeconfig."""
    configuration = yaml.safe_load(scheduler_of(load_target("rival")))
    (extender,) = configuration["extenders"]

    assert extender["urlPrefix"] == "http://127.0.0.1:12345/gpushare-scheduler"
    assert ("prioritizeVerb" in extender, "preemptVerb" in extender) == (True, False)
    assert configuration["clientConnection"] == {"kubeconfig": "/etc/kubernetes/scheduler.conf"}
