"""The facts of a cluster that a report names: its nodes, and the programs under test."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from e2e.report.verdict_table import CardFacts, NodeFacts
from e2e.site.invariants import COMPONENTS
from e2e.site.node_cards import UnreadableError, described
from e2e.site.node_invariants import other_resources
from e2e.site.picture import DEVICE_PLUGIN, labels_of, words_of

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
    variables = [one["name"] for one in container.get("env") or ()]
    mounts = [one["mountPath"] for one in container.get("volumeMounts") or ()]
    return _STATE in variables or any(
        _SIMULATED_NAME in word for word in (container["image"], *words_of(container), *mounts)
    )


def programs(pods: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The images of the programs under test, as ``extender gpushare/extender:1.2``."""
    found = set()
    for pod in pods:
        name = COMPONENTS.get(labels_of(pod).get("component", ""))
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
