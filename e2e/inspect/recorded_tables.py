"""Tables that the original printed (``recorded_tables.yaml``), and the objects of the cluster that each is about."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from clusters.provider import read_yaml
from e2e import spec
from e2e.builders import NO_SCHEDULER, gpu_pod

_FILE: Final = Path(__file__).with_suffix(".yaml")
# The lines around the pods of a node, in the table with details.
_BEFORE_PODS: Final = "NAME  "
_BEHIND_PODS: Final = "Allocated :"


class RecordedPod(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pod on the node."""

    name: str
    units: tuple[int, ...]
    """Those of each of its containers."""
    namespace: str = "default"
    card: int | None = None
    allocation: str = ""
    """The annotation of several cards."""
    phase: str = "Running"
    leaves: bool = False
    """It is being deleted."""

    def manifest(self, node: str) -> dict[str, Any]:
        """The pod on that node."""
        annotations = (
            {} if self.card is None else {spec.POD_INDEX: str(self.card), spec.POD_UNITS: str(sum(self.units))}
        )
        if annotations:
            annotations |= {spec.POD_ASSIGNED: "true", spec.POD_ASSUME_TIME: "1700000000000000000"}
        if self.allocation:
            annotations[spec.POD_ALLOCATION] = self.allocation
        pod = gpu_pod(self.name, *self.units, bound_to=node, scheduler=NO_SCHEDULER, annotations=annotations)
        pod["metadata"]["namespace"] = self.namespace
        pod["spec"]["tolerations"] = [{"operator": "Exists"}]
        return pod


class RecordedNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The one node; without ``units`` it has no cards."""

    name: str
    address: str
    units: int | None = None
    cards: int = 0

    def manifest(self) -> dict[str, Any]:
        """The node, with the label of nodes that share cards."""
        amounts = {"cpu": "8", "memory": "64Gi", "pods": "110"}
        if self.units is not None:
            amounts |= {spec.RESOURCE_MEMORY: str(self.units), spec.RESOURCE_COUNT: str(self.cards)}
        addresses = [{"type": "InternalIP", "address": self.address}, {"type": "Hostname", "address": self.name}]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": {"gpushare": "true"}},
            "status": {"capacity": amounts, "allocatable": amounts, "addresses": addresses},
        }


class RecordedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cluster, and both tables of it."""

    name: str
    shows: str
    node: RecordedNode
    summary: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    details: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    pods: tuple[RecordedPod, ...] = ()

    def output(self, *, details: bool) -> str:
        """Its text, to the byte."""
        return "".join(f"{line}\n" for line in (self.details if details else self.summary))


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tables: list[RecordedTable]


def load() -> list[RecordedTable]:
    """All of them."""
    return read_yaml(_FILE, _File, "recorded tables").tables


def in_one_order(text: str) -> str:
    """The text with the pods of each node by name; the original's order of pods is that of a Go map, which is random."""
    lines: list[str] = []
    first = 0
    for line in text.split("\n"):
        if first and line.startswith(_BEHIND_PODS):
            lines[first:] = sorted(lines[first:])
            first = 0
        lines.append(line)
        if line.startswith(_BEFORE_PODS) and "NAMESPACE" in line:
            first = len(lines)
    return "\n".join(lines)
