"""Nodes and pods of a production trace, in the files of Alibaba's cluster-trace-gpu-v2023 (openb), or of the same columns.

A card is 1,000 units (``gpu_milli``). A pod has a part of one card, or ``num_gpu`` whole ones of one node; ``gpu_spec`` names the
models that it may have, ``|`` between them. The replay shows machines and pods to the extender as Kubernetes objects.
"""

from __future__ import annotations

import csv
import errno
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from gpushare import wire
from load.load_commands import LoadError

CARD_UNITS: Final = 1000
NAMESPACE: Final = "replay"
# A small synthetic trace.
SAMPLE: Final = Path(__file__).parent / "sample"
NODES_FILE: Final = "openb_node_list_gpu_node.csv"
_PODS_FILE: Final = "openb_pod_list_{}.csv"
# More than any machine has.
_MOST: Final = 10**12
_MOST_CARDS: Final = 64
_MODEL: Final = re.compile(r"[^,]*[A-Za-z0-9][^,]*")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Card:
    """A card of a machine; ``uuid`` where it matters."""

    units: int
    model: str
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class TraceNode:
    """A machine: milli-CPUs, MiB of memory, and its cards."""

    name: str
    cpu_milli: int
    memory_mib: int
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class TracePod:
    """The request of a pod: ``units`` of each of ``cards`` cards of one node, of one of ``models`` (empty: of any).

    ``wishes`` are annotations, name and value, of a pod that was recorded: all that it wishes, its models too.
    """

    name: str
    cpu_milli: int
    memory_mib: int
    cards: int
    units: int
    models: tuple[str, ...] = ()
    wishes: tuple[tuple[str, str], ...] = ()

    @property
    def demand(self) -> int:
        """Units of all its cards."""
        return self.cards * self.units


@dataclass(frozen=True, slots=True)
class Trace:
    """The machines, and the pods in the order of the file."""

    workload: str
    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]

    @property
    def capacity(self) -> int:
        """Units of all cards."""
        return sum(card.units for node in self.nodes for card in node.cards)


def read(folder: Path, workload: str) -> Trace:
    """The nodes with cards, and one of the lists of pods. Raises LoadError."""
    nodes, path = tuple(_rows(folder / NODES_FILE, _node)), pods_file(folder, workload)
    if not path.exists() and (names := workloads(folder)):
        raise LoadError(f"{path}: {os.strerror(errno.ENOENT)}; workloads of this folder: {', '.join(names)}")
    trace = checked(Trace(workload, nodes, tuple(_rows(path, _pod))), folder / NODES_FILE, path)
    if len({node.name for node in nodes}) < len(nodes):
        raise LoadError(f"{folder / NODES_FILE}: two nodes have the same name")
    return trace


def checked(trace: Trace, nodes: Path, pods: Path) -> Trace:
    """The trace. Raises LoadError where nothing can be replayed of what these files say."""
    if not trace.capacity:
        raise LoadError(f"{nodes}: no node has a card")
    if not any(pod.demand for pod in trace.pods):
        raise LoadError(f"{pods}: no pod asks for a card")
    return trace


def creation_times(folder: Path, workload: str) -> list[int]:
    """When the pods of a list came, in seconds. Raises LoadError."""
    times = list(_rows(pods_file(folder, workload), lambda row: _number(row, "creation_time", _MOST)))
    if not times:
        raise LoadError(f"{pods_file(folder, workload)}: no pod comes")
    return times


def pods_file(folder: Path, workload: str) -> Path:
    """Where the pods of a workload are."""
    return folder / _PODS_FILE.format(workload)


def workloads(folder: Path) -> list[str]:
    """Those that a folder has."""
    before, after = _PODS_FILE.split("{}")
    return sorted(path.name[len(before) : -len(after)] for path in folder.glob(_PODS_FILE.format("*")))


def _rows(path: Path, read_row: Callable[[Mapping[str, str]], _T]) -> Iterator[_T]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            for row in rows:
                try:
                    yield read_row(row)
                except ValueError as error:
                    raise LoadError(f"{path}, line {rows.line_num}: {error}") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LoadError(f"{path}: {reason}") from error


def _node(row: Mapping[str, str]) -> TraceNode:
    return TraceNode(
        name=_text(row, "sn"),
        cpu_milli=_number(row, "cpu_milli", _MOST),
        memory_mib=_number(row, "memory_mib", _MOST),
        cards=(Card(CARD_UNITS, row.get("model") or ""),) * _number(row, "gpu", _MOST_CARDS),
    )


def _pod(row: Mapping[str, str]) -> TracePod:
    cards, units = _number(row, "num_gpu", _MOST_CARDS), _number(row, "gpu_milli", CARD_UNITS)
    if cards and not units:
        raise ValueError(f"num_gpu is {cards}, but gpu_milli 0")
    if cards > 1 and units != CARD_UNITS:
        raise ValueError(
            f"num_gpu is {cards}, and gpu_milli {units} instead of {CARD_UNITS}: several cards are whole ones"
        )
    models = tuple(filter(None, (row.get("gpu_spec") or "").split("|")))
    if not all(map(_MODEL.fullmatch, models)):
        raise ValueError(f"column gpu_spec is {row['gpu_spec'][:40]!r}, not models with | between them")
    return TracePod(
        name=_text(row, "name"),
        cpu_milli=_number(row, "cpu_milli", _MOST),
        memory_mib=_number(row, "memory_mib", _MOST),
        cards=cards,
        units=units if cards else 0,
        models=models,
    )


def _text(row: Mapping[str, str], column: str) -> str:
    text = row.get(column)
    if not text:
        raise ValueError(f"column {column} is missing or empty")
    return text


def _number(row: Mapping[str, str], column: str, most: int) -> int:
    text = _text(row, column)
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(most)) or int(text) > most:
        raise ValueError(f"column {column} is {text[:40]!r}, not a number from 0 to {most}")
    return int(text)


def node_object(node: TraceNode) -> dict[str, Any]:
    """With its cards published, as the device plugin does; a unit stands for whatever it is in the trace."""
    cards = [
        {
            "index": index,
            "uuid": card.uuid or f"GPU-{node.name}-{index}",
            "model": card.model,
            "mib": card.units,
            "units": card.units,
        }
        for index, card in enumerate(node.cards)
    ]
    published = {"v": 1, "mode": "ids", "unit": "MiB", "boot": "", "cards": cards}
    amounts = {
        "cpu": f"{node.cpu_milli}m",
        "memory": f"{node.memory_mib}Mi",
        "pods": "1000",
        wire.RESOURCE_COUNT: str(len(node.cards)),
        wire.RESOURCE_MEMORY: str(sum(card.units for card in node.cards)),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "uid": node.name,
            "annotations": {wire.ANNOTATION_CARDS: json.dumps(published)},
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def pod_object(pod: TracePod, number: int) -> dict[str, Any]:
    """The pod that came as the ``number``-th: one may come several times. Several cards are a wish for a split."""
    annotations = dict(pod.wishes)
    if pod.cards and pod.models:
        annotations[wire.WISH_MODEL] = ",".join(pod.models)
    if pod.cards > 1:
        annotations[wire.WISH_SPLIT] = ",".join([str(pod.units)] * pod.cards)
    requests = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    limits = {wire.RESOURCE_MEMORY: str(pod.demand)} if pod.demand else {}
    name = f"{pod.name}-{number}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "annotations": annotations},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.k8s.io/pause",
                    "resources": {"requests": requests | limits, "limits": limits},
                }
            ]
        },
    }


def bound(pod: dict[str, Any], node: str, shares: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """The pod as the API server shows it when it was bound there with these cards."""
    written: dict[str, str] = {}
    if len(shares) == 1:
        written[wire.ANNOTATION_INDEX] = str(shares[0][0])
    elif shares:
        written[wire.ANNOTATION_ALLOCATION] = json.dumps({"0": {str(index): units for index, units in shares}})
    metadata = pod["metadata"] | {"annotations": pod["metadata"]["annotations"] | written}
    return pod | {"metadata": metadata, "spec": pod["spec"] | {"nodeName": node}}
