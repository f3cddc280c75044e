"""Nodes and pods of a simulated cluster as objects, as an API server takes them, and as large as one sends them. Pure.

A pod that is sent is about 6 kB of JSON, a node about 3 kB; what makes them so large is encoded once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from gpushare import wire
from gpushare.model.cards import CARDS_VERSION, MODE_IDS, CardFacts, NodeCards, encode_cards

_TIME: Final = "2026-01-01T00:00:00Z"
# Filling for an object up to the usual size: managed fields, and a pod's environment.
_FIELDS: Final[dict[str, Any]] = {f"f:field-{number}": {".": {}, "f:value": {}} for number in range(60)}
_MANAGED: Final = msgspec.Raw(
    msgspec.json.encode(
        [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": _TIME, "fieldsV1": _FIELDS}]
    )
)
_VARIABLES: Final = msgspec.Raw(
    msgspec.json.encode([{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(40)])
)
_RUNNING: Final = {
    "phase": "Running",
    "startTime": _TIME,
    "conditions": [{"type": kind, "status": "True", "lastTransitionTime": _TIME} for kind in ("Ready", "PodScheduled")],
    "containerStatuses": [
        {
            "name": "main",
            "image": "nobody/starts:it",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": _TIME}},
        }
    ],
}
NAMESPACE: Final = "load"


class Node(NamedTuple):
    """A node: a number of equal cards of ``card_units`` each. ``model`` is "" if it is not published (a node of the Go plugin).

    The cards are at ``numa`` NUMA nodes.
    """

    name: str
    cards: int
    card_units: int
    model: str = ""
    card_mib: int = 0
    labels: Mapping[str, str] = {}  # of a NamedTuple: shared, and never changed
    numa: int = 1


class Pod(NamedTuple):
    """A pod of one container. ``node`` and ``card`` are its place; a pod that waits has no node.

    ``card`` is None if the extender that bound the pod wrote no index.
    """

    name: str
    units: int
    node: str = ""
    card: int | None = 0
    card_units: int = 0


class Cards:
    """The cards of all nodes, and in ``used`` the units that pods have on each, by node and index.

    The index None stands for all cards of the node.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self.used = Counter[tuple[str, int | None]]()

    def use(self, pod: Pod, units: int) -> None:
        """The pod adds these units to its card and node."""
        for card in {None, pod.card}:
            self.used[pod.node, card] += units

    def size(self, node: str, card: int | None) -> int:
        """The units of a card, or of all cards of the node: 0 for one that is not there."""
        found = self._nodes.get(node)
        if found is None or card is None:
            return found.cards * found.card_units if found is not None else 0
        return found.card_units if card < found.cards else 0


@dataclass(frozen=True, slots=True)
class World:
    """All that a simulated API server shows at first. ``sizes``: the units of pods that come later, each with its weight."""

    nodes: tuple[Node, ...]
    running: tuple[Pod, ...]
    sizes: Mapping[int, float] = field(default_factory=lambda: {1: 1.0})

    def size_for(self, share: float) -> int:
        """The size of a pod that fits as nearly as can be on this share of the nodes: of several the largest; for 0 on none."""
        rooms = self.rooms()
        sizes = range(1, max(rooms) + 2)
        if not share:
            return sizes[-1]
        hold = {units: sum(room >= units for room in rooms) / len(rooms) for units in sizes}
        return min(sizes, key=lambda units: (abs(hold[units] - share), -units))

    def rooms(self) -> list[int]:
        """The free units on the emptiest card of each node."""
        free = {node.name: [node.card_units] * node.cards for node in self.nodes}
        for pod in self.running:
            if pod.card is not None:
                free[pod.node][pod.card] -= pod.units
        return [max(cards) for cards in free.values()]


def needed_by_pods() -> Iterator[dict[str, Any]]:
    """Their namespace, and the account without which no pod is taken."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}, "status": {"phase": "Active"}}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}}


def node_document(node: Node) -> dict[str, Any]:
    """Ready, with its cards as our plugin publishes them if their model is known."""
    amounts = {
        "cpu": "64",
        "memory": "512Gi",
        "pods": "500",
        wire.RESOURCE_MEMORY: str(node.cards * node.card_units),
        wire.RESOURCE_COUNT: str(node.cards),
    }
    ready = {"type": "Ready", "status": "True", "reason": "Simulated", "message": "there is no kubelet"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": {"gpushare": "true", "kubernetes.io/hostname": node.name, **node.labels},
            "annotations": {wire.ANNOTATION_CARDS: published_cards(node)} if node.model else {},
        },
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def published_cards(node: Node) -> str:
    """As our device plugin writes them on its node."""
    cards = tuple(
        CardFacts(
            index=index,
            uuid=f"GPU-{node.name}-{index}",
            model=node.model,
            mib=node.card_mib,
            units=node.card_units,
            numa=index * node.numa // node.cards,
        )
        for index in range(node.cards)
    )
    return encode_cards(NodeCards(CARDS_VERSION, MODE_IDS, "GiB", "", cards))


def pod_document(pod: Pod) -> dict[str, Any]:
    """On its node, with its card if the extender that bound it wrote one; or waiting for both."""
    annotations = {
        wire.ANNOTATION_INDEX: str(pod.card),
        wire.ANNOTATION_POD_UNITS: str(pod.units),
        wire.ANNOTATION_DEVICE_UNITS: str(pod.card_units),
        wire.ANNOTATION_ASSIGNED: "true",
    }
    amounts = {wire.RESOURCE_MEMORY: str(pod.units), "cpu": "100m"}
    resources = {"limits": amounts, "requests": amounts}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": NAMESPACE,
            "annotations": annotations if pod.node and pod.card is not None else {},
        },
        "spec": {
            **({"nodeName": pod.node} if pod.node else {}),
            "containers": [{"name": "main", "image": "nobody/starts:it", "resources": resources}],
            # Nodes without a kubelet are tainted.
            "tolerations": [{"operator": "Exists"}],
        },
    }


def node_object(node: Node, version: int) -> bytes:
    """A node as it is sent."""
    return _sent(node_document(node), version)


def pod_object(pod: Pod, version: int) -> bytes:
    """A pod as it is sent: one that runs, or one that has no node yet."""
    document = pod_document(pod)
    document["spec"]["containers"][0]["env"] = _VARIABLES
    document["status"] = _RUNNING if pod.node else {"phase": "Pending"}
    return _sent(document, version)


def _sent(document: dict[str, Any], version: int) -> bytes:
    metadata = document["metadata"]
    metadata |= {
        "uid": f"uid-{metadata['name']}",
        "resourceVersion": str(version),
        "creationTimestamp": _TIME,
        "managedFields": _MANAGED,
    }
    return msgspec.json.encode(document)
