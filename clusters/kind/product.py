"""The manifests that we ship, fitted to one cluster: a DaemonSet for each list of arguments of a device plugin. Pure.

The target's arguments of a program (the words behind the command) come before those of the manifests; all else is the manifests'.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from clusters.provider import ClusterError, NodeSpec
from clusters.targets import Program, Target

Object = dict[str, Any]

EXTENDER: Final = "gpushare-schd-extender"
DEVICE_PLUGIN: Final = "gpushare-device-plugin-ds"
NAMESPACE: Final = "kube-system"
# As in the manifests.
EXTENDER_PORT: Final = 12345
# kubeadm's place.
_SCHEDULERS_KUBECONFIG: Final = "/etc/kubernetes/scheduler.conf"
# The programs that our images start: extender, then device plugin.
_IN_IMAGES: Final = ("gpushare-extender", "gpushare-device-plugin")
# Says which DaemonSet has a node; without it none has, and the node's plugin is down.
PLUGIN_LABEL: Final = "clusters.gpushare/device-plugin"
# Seen from inside a plugin's container; the words in braces of targets and of nodes.
_INSIDE: Final[Mapping[str, str]] = {
    "device_plugin_path": "/var/lib/kubelet/device-plugins",
    "pod_resources_socket": "/var/lib/kubelet/pod-resources/kubelet.sock",
    "proc_root": "/proc",
    "cgroup_root": "/host/sys/fs/cgroup",
    # Beside the state file of the simulated cards, as their overlay mounts it.
    "sys_root": "/var/lib/gpushare-simulated/state.sys",
}
# With it a plugin looks at the processes of its node.
_USAGE: Final = "--usage"


@dataclass(frozen=True, slots=True)
class PluginSet:
    """The nodes whose device plugins get the same arguments; ``name`` is their DaemonSet's."""

    name: str
    arguments: tuple[str, ...]
    nodes: tuple[str, ...]


def is_in_images(target: Target) -> bool:
    """Are the target's extender and device plugin the programs that our images start?"""
    programs = target.extender_or_none, target.device_plugin_or_none
    return tuple(program and program.argv[0] for program in programs) == _IN_IMAGES


def scheduler_of(target: Target) -> str:
    """The text of the target's KubeSchedulerConfiguration, for the control plane's node; "" if it asks for none."""
    if target.extender_or_none is None and not target.scheduler:
        return ""
    path = target.extender_or_none.path if target.extender_or_none is not None else ""
    configuration = target.scheduler_configuration(f"http://127.0.0.1:{EXTENDER_PORT}{path}")
    return yaml.safe_dump({**configuration, "clientConnection": {"kubeconfig": _SCHEDULERS_KUBECONFIG}})


def plugin_sets(nodes: Iterable[NodeSpec]) -> list[PluginSet]:
    """One set for each list of arguments; nodes without cards are in none."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for node in nodes:
        if node.box != "none":
            groups.setdefault(node.plugin_arguments, []).append(node.name)
    return [
        PluginSet(DEVICE_PLUGIN if number == 1 else f"{DEVICE_PLUGIN}-{number}", arguments, tuple(names))
        for number, (arguments, names) in enumerate(groups.items(), start=1)
    ]


def fitted(manifests: Sequence[Object], target: Target, sets: Sequence[PluginSet]) -> list[Object]:
    """The objects to create. Raises ClusterError if the manifests lack a program, or a target's word is unknown."""
    found = {item["metadata"]["name"] for item in manifests if item["kind"] in ("Deployment", "DaemonSet")}
    missing = {EXTENDER, DEVICE_PLUGIN} - found
    if missing:
        raise ClusterError(f"the manifests have no {', '.join(sorted(missing))}")
    objects: list[Object] = []
    for item in manifests:
        if item["kind"] == "DaemonSet" and item["metadata"]["name"] == DEVICE_PLUGIN:
            objects += [_daemon_set(item, target.device_plugin, one) for one in sets]
        elif item["kind"] == "Deployment" and item["metadata"]["name"] == EXTENDER:
            objects.append(_deployment(item, target.extender))
        else:
            objects.append(item)
    return objects


def _deployment(manifest: Object, program: Program) -> Object:
    """The port and the kubeconfig are the manifests' business."""
    copied = copy.deepcopy(manifest)
    _say(_container(copied), program.command(port="", kubeconfig="")[0])
    return copied


def _daemon_set(manifest: Object, program: Program, plugins: PluginSet) -> Object:
    copied = copy.deepcopy(manifest)
    copied["metadata"]["name"] = plugins.name
    template = copied["spec"]["template"]
    for labels in (copied["spec"]["selector"]["matchLabels"], template["metadata"]["labels"]):
        labels["name"] = plugins.name
    template["spec"].setdefault("nodeSelector", {})[PLUGIN_LABEL] = plugins.name
    program = Program((*program.argv, *plugins.arguments), program.environment)
    _say(_container(copied), program.command(**_INSIDE, node="", kubeconfig="")[0])
    if _USAGE in plugins.arguments:
        # As components/usage does.
        template["spec"]["hostPID"] = True
    return copied


def _container(workload: Object) -> Object:
    """The one that runs the program."""
    container: Object = workload["spec"]["template"]["spec"]["containers"][0]
    return container


def _say(container: Object, argv: Sequence[str]) -> None:
    """The target's words behind the manifest's: the last one counts. Which program an image has is for the manifest to say."""
    container["args"] = [*container.get("args", []), *argv[1:]]
