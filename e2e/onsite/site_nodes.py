"""The nodes of a cluster: those that a validation may use, and the facts that a report names; and the programs under test."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from e2e.checkers.overcommit import is_over
from e2e.checkers.pod_requests import whole_number
from e2e.report.verdict_table import CardFacts, NodeFacts
from e2e.site.invariants import other_resources
from e2e.site.node_cards import UnreadableError, described
from e2e.site.picture import DEVICE_PLUGIN, Object, Picture, condition, labels_of

_COMPONENTS: Final = {DEVICE_PLUGIN: "device plugin", "gpushare-schd-extender": "extender"}
# Taints with this effect turn no pod away; the probe's pods tolerate the key.
_MILD: Final = "PreferNoSchedule"
_TOLERATED: Final = "nvidia.com/gpu"
# Our kind's workers, which have simulated cards, carry labels that begin so; the runtime of our stand-in kubelet is this one.
_SIMULATED: Final = "clusters.gpushare/"
_SIMULATED_RUNTIME: Final = "simulated://"
# The stand-in kubelet starts plain processes.
_NO_RUNTIME: Final = "none (processes)"
# A device plugin uses simulated cards only if this variable is set; its image, program and folder are named so in our manifests.
_STATE: Final = "FAKENVML_STATE"
_SIMULATED_NAME: Final = "-simulated"


def is_simulated(node: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> bool:
    """Are the node's cards simulated, by a cluster of ours or by the device plugin there?"""
    runtime = node.get("status", {}).get("nodeInfo", {}).get("containerRuntimeVersion", "")
    name = node["metadata"]["name"]
    return (
        runtime.startswith(_SIMULATED_RUNTIME)
        or any(label.startswith(_SIMULATED) for label in labels_of(node))
        or any(
            labels_of(pod).get("component") == DEVICE_PLUGIN and any(map(_uses_simulation, pod["spec"]["containers"]))
            for pod in pods
            if pod["spec"].get("nodeName") == name
        )
    )


def _uses_simulation(container: Mapping[str, Any]) -> bool:
    text = json.dumps(container)
    return _STATE in text or _SIMULATED_NAME in text


def programs(pods: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The images of the programs under test, as ``extender gpushare/extender:1.2``."""
    found = set()
    for pod in pods:
        name = _COMPONENTS.get(labels_of(pod).get("component", ""))
        if name:
            found |= {f"{name} {container['image']}" for container in pod["spec"]["containers"]}
    return tuple(sorted(found))


def node_facts(node: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> NodeFacts:
    """One node, as its Node object and the cluster's pods show it."""
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return NodeFacts(
        node["metadata"]["name"],
        kubelet=info.get("kubeletVersion", ""),
        runtime=info.get("containerRuntimeVersion", ""),
        kernel=info.get("kernelVersion", ""),
        system=info.get("osImage", ""),
        architecture=info.get("architecture", ""),
        cards=_cards(node),
        other_resources=tuple(other_resources(node)),
        are_cards_simulated=is_simulated(node, pods),
    )


def on_this_machine(node: NodeFacts, driver: str, are_simulated: bool) -> NodeFacts:  # a fact beside another
    """A node with a stand-in kubelet on this machine's cards: the machine's own facts."""
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        system = ""
    return msgspec.structs.replace(
        node,
        driver=driver,
        are_cards_simulated=are_simulated,
        kernel=platform.release(),
        system=system,
        runtime=_NO_RUNTIME,
    )


def _cards(node: Mapping[str, Any]) -> tuple[CardFacts, ...]:
    """The cards of the node's annotation; none if it cannot be read, which the invariants report."""
    try:
        found = described(node)
    except UnreadableError:
        return ()
    return tuple(
        CardFacts(card.index, card.uuid, card.model, card.mib) for card in (found.cards if found else {}).values()
    )


def names_of(text: str) -> list[str]:
    """The names in the value of ``--nodes``, which commas part."""
    return [name for name in text.split(",") if name]


def discovered(picture: Picture, names: Sequence[str]) -> list[str]:
    """The nodes to validate: those that are named, or all with a device plugin's labels. Raises ValueError for unknown ones."""
    known = picture.sharing_nodes
    if unknown := [name for name in names if name not in known]:
        raise ValueError(
            f"{', '.join(unknown)}: no node of that name shares cards; there are: {', '.join(known) or 'none'}"
        )
    return list(names) or [name for name, node in known.items() if not picture.lacking(node)]


def why_closed(node: Object, pods: Iterable[Object], wanted: int) -> str:
    """Why a node takes no pods of ours, "" if it does; a pod that waits there in vain might have others evicted."""
    taints = [
        str(one["key"])
        for one in node["spec"].get("taints") or ()
        if one["effect"] != _MILD and one["key"] != _TOLERATED
    ]
    if condition(node, "Ready") != "True":
        return "is not ready"
    if node["spec"].get("unschedulable"):
        return "is cordoned"
    if taints:
        return f"has a taint that keeps pods away: {', '.join(taints)}"
    there = sum(1 for pod in pods if pod["spec"].get("nodeName") == node["metadata"]["name"] and not is_over(pod))
    most = whole_number(node["status"].get("allocatable", {}).get("pods", there + wanted))
    return f"has {there} pods and takes {most}" if there + wanted > most else ""


def is_ready(pod: Object) -> bool:
    """Does the pod serve?"""
    return condition(pod, "Ready") == "True" and not pod["metadata"].get("deletionTimestamp")


def heartbeat(node: Object) -> str:
    """When the kubelet reported last; "" if it never did."""
    return str(max((one.get("lastHeartbeatTime") or "" for one in node["status"].get("conditions") or ()), default=""))
