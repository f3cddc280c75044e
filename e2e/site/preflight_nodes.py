"""Judges nodes before an installation or a validation. Pure; a rule is one function, its lines have the name in NODE_RULES."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from clusters.api.resources import NODES, PODS
from e2e import spec
from e2e.site import node_invariants
from e2e.site.node_cards import amount, described, offers
from e2e.site.picture import Object, Picture, annotations_of, as_arguments, condition, labels_of, name_of
from e2e.site.preflight_lines import Rule, Seen, ok, unknown, wrong
from e2e.site.preflight_picture import DEVICE_PLUGIN, INSTALL, ClusterPicture, has_ended, minor_of

# From Kubernetes 1.28 on a kubelet may be three minors older than its API server, before two; it may never be newer.
_SKEW_SINCE: Final = 28
_OTHER_PROGRAMS: Final = (
    "nvidia-device-plugin",
    "nvidia/k8s-device-plugin",
    "hami-device-plugin",
    "projecthami/",
    "volcano-device-plugin",
    "volcano-vgpu-device-plugin",
    "gpu-manager",
    "nvidia-dra-driver-gpu",
    "k8s-dra-driver-gpu",
)


def labels(picture: ClusterPicture) -> Iterator[Seen]:
    """Nodes that share cards have the label that places the device plugin."""
    yield from _each(picture, partial(_label_of, picture.sharing))
    for name, lacking in picture.sharing.left_out.items():
        if name not in picture.sharing.sharing_nodes:
            todo = f"kubectl label node {name} {lacking}, or leave it out if other programs use its cards"
            yield unknown(_node(name), f"it has NVIDIA cards and lacks {lacking}: no device plugin comes to it", todo)
    if not picture.sharing.sharing_nodes:
        wanted = as_arguments(picture.sharing.placing_labels[0])
        text = f"none of {len(picture.all(NODES))} nodes has the label {wanted}"
        todo = f"kubectl label node NODE {wanted} for each node with cards, before the device plugin is installed"
        yield unknown("cluster", text, todo)


def readiness(picture: ClusterPicture) -> Iterator[Seen]:
    """They are ready, and pods may come."""
    yield from _each(picture, _readiness_of)


def versions(picture: ClusterPicture) -> Iterator[Seen]:
    """The kubelet's version fits the API server's; what else the node runs is named."""
    yield from _each(picture, partial(_versions_of, picture))


def device_plugin(picture: ClusterPicture) -> Iterator[Seen]:
    """One device plugin is ready on each node that shares cards."""
    pods = picture.programs(DEVICE_PLUGIN)
    yield from _each(picture, partial(_plugin_of, picture, pods))


def cards(picture: ClusterPicture) -> Iterator[Seen]:
    """A node offers what its annotation describes, and pods may have it."""
    rules = (node_invariants.cards_annotation, node_invariants.capacity, node_invariants.sick_cards)
    faults: dict[str, list[Seen]] = {}
    for finding in (one for rule in rules for one in rule(picture.sharing)):
        # ``node a1`` or ``node a1 card 0``.
        name = finding.subject.split(" ")[1]
        faults.setdefault(name, []).append(wrong(finding.subject, finding.text, finding.todo))
    for name, node in picture.sharing.sharing_nodes.items():
        yield from faults.get(name) or (_of_cards(picture, name, node),)


def other_plugins(picture: ClusterPicture) -> Iterator[Seen]:
    """No other plugin gives out the same cards."""
    others = [pod for pod in picture.all(PODS) if not has_ended(pod) and _is_other(pod)]
    for name, node in picture.sharing.sharing_nodes.items():
        resources = node_invariants.other_resources(node)
        here = [name_of(pod) for pod in others if pod["spec"].get("nodeName") == name]
        if resources or here:
            seen = [f"it offers {', '.join(resources)}"] if resources else []
            seen += [f"{', '.join(here)} run on it"] if here else []
            text = f"{' and '.join(seen)}: pods of both plugins may get the same card"
            yield wrong(_node(name), text, "keep the other plugin off nodes with the label gpushare=true")
        else:
            yield ok(_node(name), "none is there")


def _each(picture: ClusterPicture, judge: Callable[[Object, str, str], Seen]) -> Iterator[Seen]:
    """The judgement of each node that shares cards, with its name and the subject of its line."""
    return (judge(node, name, _node(name)) for name, node in picture.sharing.sharing_nodes.items())


def _label_of(picture: Picture, node: Object, name: str, subject: str) -> Seen:
    lacking = picture.lacking(node)
    if not lacking:
        placing = next(labels for labels in picture.placing_labels if labels_of(node).items() >= labels.items())
        return ok(subject, as_arguments(placing))
    if offers(node, spec.RESOURCE_MEMORY):
        text = f"it offers {spec.RESOURCE_MEMORY} and lacks the label {lacking}, which places the device plugin"
        return wrong(subject, text, f"kubectl label node {name} {lacking}")
    todo = f"kubectl label node {name} {lacking}, or remove the annotation {spec.NODE_CARDS}"
    return wrong(subject, f"its cards are described, it offers none and lacks the label {lacking}", todo)


def _readiness_of(node: Object, name: str, subject: str) -> Seen:
    ready, spec_of = condition(node, "Ready"), node.get("spec") or {}
    pressures = [kind for kind in ("MemoryPressure", "DiskPressure", "PIDPressure") if condition(node, kind) == "True"]
    taints = [
        f"{taint['key']}:{taint['effect']}"
        for taint in spec_of.get("taints") or ()
        if taint["effect"] != "PreferNoSchedule" and not taint["key"].startswith("node.kubernetes.io/")
    ]
    if ready != "True":
        todo = f"kubectl describe node {name}: look at its conditions, then at the kubelet's log"
        return wrong(subject, f"its condition Ready is {ready or 'not there'}", todo)
    if spec_of.get("unschedulable"):
        return wrong(subject, "it is cordoned: no pod comes to it", f"kubectl uncordon {name}")
    if pressures:
        return wrong(subject, f"it is under {', '.join(pressures)}", "free what it lacks; it evicts pods")
    if taints:
        text = f"ready, and only pods that tolerate {', '.join(taints)} come to it"
        return unknown(subject, text, "give pods that share cards the tolerations")
    return ok(subject, "ready and schedulable")


def _versions_of(picture: ClusterPicture, node: Object, _: str, subject: str) -> Seen:
    server = picture.minor
    info = (node.get("status") or {}).get("nodeInfo") or {}
    kubelet = str(info.get("kubeletVersion", ""))
    parts = (info.get(key) or "" for key in ("containerRuntimeVersion", "kernelVersion", "osImage", "architecture"))
    text = ", ".join([f"kubelet {kubelet or 'of unknown version'}", *(part for part in parts if part)])
    minor = minor_of(kubelet)
    if not minor or not server:
        todo = "compare kubectl version with kubectl get nodes yourself"
        return unknown(subject, f"{text}: the versions cannot be compared", todo)
    if minor > server:
        return wrong(subject, f"{text}: the kubelet is newer for API server {picture.version}", "update the API server")
    if minor < server - (3 if server >= _SKEW_SINCE else 2):
        return wrong(subject, f"{text}: the kubelet is too old for API server {picture.version}", "update the kubelet")
    return ok(subject, text)


def _plugin_of(picture: ClusterPicture, pods: list[Object], node: Object, name: str, subject: str) -> Seen:
    here = [pod for pod in pods if pod["spec"].get("nodeName") == name]
    if len(here) > 1:
        names = ", ".join(map(name_of, here))
        return wrong(subject, f"{len(here)} device plugins are on it: {names}", "remove all DaemonSets of it but one")
    if here:
        return _of_plugin(name, here[0])
    missing = f"no pod with the label component={DEVICE_PLUGIN} is on it"
    if offers(node, spec.RESOURCE_MEMORY, "allocatable"):
        todo = "check the program that registers its cards yourself"
        return unknown(subject, f"it offers cards, and {missing}", todo)
    if picture.is_installed():
        return wrong(subject, missing, "kubectl --namespace kube-system describe daemonset gpushare-device-plugin-ds")
    return unknown(subject, "the device plugin is not installed", INSTALL)


def _of_plugin(node: str, pod: Object) -> Seen:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    images = ", ".join(str(container.get("image", "")) for container in pod["spec"]["containers"])
    restarts = sum(int(status.get("restartCount", 0)) for status in statuses)
    text = f"{name_of(pod)} of {images}" + (f", restarted {restarts} times" if restarts else "")
    if condition(pod, "Ready") == "True":
        return ok(_node(node), f"{text} is ready")
    waits = [state.get("reason", "") for status in statuses for state in (status.get("state") or {}).values()]
    reason = ", ".join(filter(None, waits)) or (pod.get("status") or {}).get("phase") or "no status"
    namespace, _, name = name_of(pod).partition("/")
    return wrong(_node(node), f"{text} is not ready: {reason}", f"kubectl --namespace {namespace} logs {name}")


def _of_cards(picture: ClusterPicture, name: str, node: Object) -> Seen:
    units, count = amount(node, spec.RESOURCE_MEMORY), amount(node, spec.RESOURCE_COUNT)
    if not units:
        if not picture.is_installed():
            return unknown(_node(name), f"no {spec.RESOURCE_MEMORY}: the device plugin is not installed", INSTALL)
        todo = (
            f"look at the log of its device plugin: kubectl --namespace kube-system logs -l component={DEVICE_PLUGIN}"
        )
        return wrong(_node(name), f"it offers no {spec.RESOURCE_MEMORY}", todo)
    text = f"{units} units on {count} card{'s' * (count != 1)}"
    if (free := amount(node, spec.RESOURCE_MEMORY, "allocatable")) != units:
        return wrong(_node(name), f"{text}, pods may have {free} of them", "restart the node's device plugin")
    if spec.NODE_CARDS not in annotations_of(node):
        return ok(_node(name), f"{text}, no annotation {spec.NODE_CARDS}: equal cards are assumed")
    found = described(node)
    assert found is not None
    return ok(_node(name), f"{text}, described in mode {found.mode}")


def _is_other(pod: Object) -> bool:
    """Is it of a plugin that hands out NVIDIA's cards in its own way?"""
    owners = (owner.get("name", "") for owner in pod["metadata"].get("ownerReferences") or ())
    images = (container.get("image", "") for container in pod["spec"]["containers"])
    return any(word in text for text in (*owners, *images) for word in _OTHER_PROGRAMS)


def _node(name: str) -> str:
    return f"node {name}"


NODE_RULES: Final[Mapping[str, Rule[ClusterPicture]]] = {
    "node label": labels,
    "node readiness": readiness,
    "node versions": versions,
    "device plugin": device_plugin,
    "cards": cards,
    "other plugins": other_plugins,
}
