"""The facts of a cluster that a report names: its nodes, and the programs under test. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from e2e import spec
from e2e.site.picture import annotations_of
from e2e.site.site_report import CardFacts, NodeFacts

# Our kind's workers, which have simulated cards, carry labels that begin so; the runtime of our stand-in kubelet is this one.
_SIMULATED: Final = "clusters.gpushare/"
_SIMULATED_RUNTIME: Final = "simulated://"
_COMPONENTS: Final[Mapping[str, str]] = {
    "gpushare-schd-extender": "extender",
    "gpushare-device-plugin": "device plugin",
}
# Resources of other plugins that give out NVIDIA's cards begin so.
_OTHERS: Final = ("nvidia.com/", "volcano.sh/", "4pd.io/", "hami.io/")


def is_simulated(node: Mapping[str, Any]) -> bool:
    """Are the node's cards simulated by a cluster of ours?"""
    runtime = node.get("status", {}).get("nodeInfo", {}).get("containerRuntimeVersion", "")
    labels = node["metadata"].get("labels") or {}
    return runtime.startswith(_SIMULATED_RUNTIME) or any(label.startswith(_SIMULATED) for label in labels)


def programs(pods: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The images of the programs under test, as ``extender gpushare/extender:1.2``."""
    found = set()
    for pod in pods:
        name = _COMPONENTS.get((pod["metadata"].get("labels") or {}).get("component", ""))
        if name:
            found |= {f"{name} {container['image']}" for container in pod["spec"]["containers"]}
    return tuple(sorted(found))


def node_facts(node: Mapping[str, Any]) -> NodeFacts:
    """One node, as its Node object shows it."""
    status = node.get("status") or {}
    info = status.get("nodeInfo") or {}
    others = sorted(name for name in status.get("capacity") or {} if name.startswith(_OTHERS))
    return NodeFacts(
        node["metadata"]["name"],
        kubelet=info.get("kubeletVersion", ""),
        runtime=info.get("containerRuntimeVersion", ""),
        kernel=info.get("kernelVersion", ""),
        system=info.get("osImage", ""),
        architecture=info.get("architecture", ""),
        cards=_cards(annotations_of(node).get(spec.NODE_CARDS, "")),
        other_resources=tuple(others),
    )


def _cards(text: str) -> tuple[CardFacts, ...]:
    """The cards of an annotation; none if it cannot be read, which the invariants report."""
    try:
        cards = json.loads(text or "{}").get("cards", [])
        return tuple(CardFacts(card["index"], card["uuid"], card["model"], card["mib"]) for card in cards)
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()
