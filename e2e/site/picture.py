"""A cluster as its API server shows it at one moment. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from e2e import spec
from e2e.checkers.overcommit import is_over
from e2e.checkers.pod_requests import gpu_containers
from e2e.site.node_cards import offers

Object = Mapping[str, Any]

# The label of a node that shares its cards, as the original's manifests have it.
_LABEL: Final = {"gpushare": "true"}
DEVICE_PLUGIN: Final = "gpushare-device-plugin"
KUBE_SYSTEM: Final = "kube-system"
# Signs of NVIDIA's cards on a node: what NVIDIA's plugin offers, and labels of its feature discovery and of Kubernetes' own.
_OTHER_RESOURCE: Final = "nvidia.com/gpu"
_SIGNS: Final = re.compile(
    r"nvidia\.com/gpu\.(present|count|product)|feature\.node\.kubernetes\.io/pci-(\w+_)?10de.*\.present"
)


@dataclass(frozen=True)
class Picture:
    """Nodes and pods of the whole cluster, or of a part of it that can be judged alone."""

    nodes: Sequence[Object]
    pods: Sequence[Object]

    def parts(self) -> Mapping[str, Picture]:
        """By its subject, as ``node a1``: a node with its pods, or a pod without a node that is known.

        No form of an object is taken for granted.
        """
        nodes = {f"node {_field(node, 'metadata', 'name')}": node for node in self.nodes}
        pods: dict[str, list[Object]] = {subject: [] for subject in nodes}
        for pod in self.pods:
            name = "/".join(filter(None, (_field(pod, "metadata", "namespace"), _field(pod, "metadata", "name"))))
            of_node = f"node {_field(pod, 'spec', 'nodeName')}"
            pods.setdefault(of_node if of_node in nodes else f"pod {name}", []).append(pod)
        return {
            subject: Picture([nodes[subject]] if subject in nodes else [], there) for subject, there in pods.items()
        }

    @cached_property
    def sharing_nodes(self) -> Mapping[str, Object]:
        """The nodes that share cards, by name: by the label, by what they offer, or by what they are annotated with."""
        return {node["metadata"]["name"]: node for node in self.nodes if not self.lacking(node) or _shares(node)}

    @cached_property
    def placing_labels(self) -> Sequence[Mapping[str, str]]:
        """The labels of nodes by which each installation places device plugins; the original's if no device plugin is there."""
        plugins = (pod for pod in self.pods if labels_of(pod).get("component") == DEVICE_PLUGIN)
        selectors = [pod["spec"].get("nodeSelector") or {} for pod in plugins]
        # The kubelet sets labels like kubernetes.io/os itself.
        found = [{key: one[key] for key in one if not key.startswith("kubernetes.io/")} for one in selectors]
        return list(filter(None, found)) or [_LABEL]

    def lacking(self, node: Object) -> str:
        """Those that the node lacks, as arguments of ``kubectl label``; "" if a device plugin is placed there."""
        has = labels_of(node).items()
        if any(has >= labels.items() for labels in self.placing_labels):
            return ""
        return as_arguments(dict(self.placing_labels[0].items() - has))

    @cached_property
    def left_out(self) -> Mapping[str, str]:
        """The nodes with cards on which the installation places no device plugin, by name; the labels that they lack."""
        lacking = {node["metadata"]["name"]: self.lacking(node) for node in self.nodes if _has_cards(node)}
        return {name: labels for name, labels in lacking.items() if labels}

    @cached_property
    def sharing_pods(self) -> Sequence[Object]:
        """The pods that ask for card memory and have not ended, bound or not."""
        return [pod for pod in self.pods if gpu_containers(pod) and not is_over(pod)]

    @cached_property
    def bound_pods(self) -> Mapping[str, Sequence[Object]]:
        """Those of them that are bound, by the name of their node."""
        found: dict[str, list[Object]] = defaultdict(list)
        for pod in self.sharing_pods:
            found[pod["spec"].get("nodeName") or ""].append(pod)
        return found


def _field(item: Object, *names: str) -> str:
    found: Any = item
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return str(found or "")


def name_of(pod: Object) -> str:
    """``namespace/name``."""
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def annotations_of(item: Object) -> Mapping[str, str]:
    """An object's annotations, which it may lack."""
    return item["metadata"].get("annotations") or {}


def names_card(pod: Object) -> bool:
    """Does an annotation of the pod name its card, or its cards?"""
    return spec.POD_INDEX in annotations_of(pod) or spec.POD_ALLOCATION in annotations_of(pod)


def labels_of(item: Object) -> Mapping[str, str]:
    """An object's labels, which it may lack."""
    return item["metadata"].get("labels") or {}


def as_arguments(labels: Mapping[str, str]) -> str:
    """Labels as ``kubectl label`` takes them."""
    return " ".join(f"{key}={value}" for key, value in sorted(labels.items()))


def condition(item: Object, kind: str) -> str:
    """The status of a condition of a node or pod: True, False or Unknown; "" without it."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    return next((str(one.get("status")) for one in conditions if one.get("type") == kind), "")


def words_of(container: Object) -> list[str]:
    """The command line of a container, as far as its manifest has it."""
    return [*map(str, container.get("command") or ()), *map(str, container.get("args") or ())]


def _shares(node: Object) -> bool:
    # A kubelet goes on to write 0 for a resource after its plugin has left.
    return (
        labels_of(node).items() >= _LABEL.items()
        or offers(node, spec.RESOURCE_MEMORY)
        or spec.NODE_CARDS in annotations_of(node)
    )


def _has_cards(node: Object) -> bool:
    return (
        offers(node, spec.RESOURCE_MEMORY)
        or spec.NODE_CARDS in annotations_of(node)
        or offers(node, _OTHER_RESOURCE)
        or any(_SIGNS.fullmatch(key) and value not in ("false", "0") for key, value in labels_of(node).items())
    )
