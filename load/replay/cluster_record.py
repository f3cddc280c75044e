"""The machines and pods of one's own cluster, as kubectl tells of them, for a replay.

A folder with two files, each a ``List``, or objects one after the other as kubectl prints them with ``--watch``::

    kubectl get nodes -o json > DIR/nodes.json
    kubectl get pods -A -o json --watch > DIR/pods.json      # a snapshot, and the history until it is stopped

Machines are the nodes with cards, empty at first. Pods are those that asked for card memory, wherever they ran, and those without
that ran on such a node. The requests of DaemonSets and static pods are taken from each machine first. Units are the cluster's.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from gpushare import wire
from gpushare.errors import GpushareError
from gpushare.extender.core.accepted_state import booking_of
from gpushare.manifests import Container, Node, Pod
from gpushare.model.node import devices_of
from gpushare.model.pod import cpu_request, is_finished, request_of, worst_moment
from gpushare.model.quantity import parse_milli
from load.load_commands import LoadError
from load.replay.trace import Card, Trace, TraceNode, TracePod, checked

NODES_FILE: Final = "nodes.json"
PODS_FILE: Final = "pods.json"
# Owners of pods that are on a node because it is there.
_OF_EACH_NODE: Final = ("DaemonSet", "Node")
# The policy is the one that the replay compares: no pod has its own.
_WISHES: Final = (
    wire.WISH_MODEL,
    wire.WISH_MODEL_NOT,
    wire.WISH_UUID,
    wire.WISH_UUID_NOT,
    wire.WISH_SAME_CARD,
    wire.WISH_SPLIT,
)
_MIB: Final = 2**20
_MOST_NAME: Final = 63
_T = TypeVar("_T", Node, Pod)


def read(folder: Path) -> tuple[Trace, list[str]]:
    """The trace, and what of the cluster is not in it, in words. Raises LoadError."""
    told = {_identity(pod): (pod, raw) for pod, raw in _objects(folder / PODS_FILE, Pod)}
    nodes = {node.metadata.name: node for node, _ in _objects(folder / NODES_FILE, Node)}
    standing = _standing(pod for pod, _ in told.values())
    left_out: Counter[str] = Counter()
    cards = {
        name: of_node
        for name, node in sorted(nodes.items())
        if (of_node := _cards(node, standing.get(name, ()), left_out))
    }
    pods = []
    for pod, raw in told.values():
        if _is_of_its_node(pod):
            continue
        if (one := _pod(pod, left_out)) is not None and (one.demand or pod.spec.node_name in cards):
            pods.append(one)
            left_out["pods choose nodes by label or affinity, which is not played here"] += _chooses_nodes(raw)
    machines = tuple(
        TraceNode(name, *_room(nodes[name], standing.get(name, ())), of_node) for name, of_node in cards.items()
    )
    trace = checked(Trace(folder.resolve().name, machines, tuple(pods)), folder / NODES_FILE, folder / PODS_FILE)
    return trace, [f"{count} {what}" for what, count in left_out.items() if count]


def _identity(pod: Pod) -> str:
    """The uid, which distinguishes it from one that had its name before."""
    return pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}"


def _is_of_its_node(pod: Pod) -> bool:
    """Is it there because the node is?"""
    return any(owner.kind in _OF_EACH_NODE for owner in pod.metadata.owner_references or ())


def _standing(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """By node, what is there because the node is: of each owner the pod that was told of last, if it has not ended."""
    last = {
        (
            pod.spec.node_name or "",
            tuple((owner.kind, owner.uid or owner.name) for owner in pod.metadata.owner_references or ()),
        ): pod
        for pod in pods
        if _is_of_its_node(pod) and not is_finished(pod)
    }
    found: defaultdict[str, list[Pod]] = defaultdict(list)
    for (node, _), pod in last.items():
        found[node].append(pod)
    return found


def _objects(path: Path, kind: type[_T]) -> Iterator[tuple[_T, Mapping[str, Any]]]:
    """Each object of a file, as far as the extender reads it and as it is written; of the other kinds none."""
    number = 0
    for item in _documents(path):
        # A list, an event of a watch, or an object.
        found = item.get("items", item.get("object", item))
        for one in found if isinstance(found, list) else (found,):
            if not isinstance(one, dict) or one.get("kind", kind.__name__) != kind.__name__:
                continue
            number += 1
            try:
                yield msgspec.convert(one, kind), one
            except msgspec.ValidationError as error:
                raise LoadError(f"{path}: {kind.__name__} number {number}: {error}") from error


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"{path}: {error.strerror if isinstance(error, OSError) else error}") from error
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            found, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, at) + 1
            raise LoadError(f"{path}, line {line}: the object that begins here is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise LoadError(f"{path}, line {text.count(chr(10), 0, at) + 1}: no Kubernetes object ends here")
        yield found


def _cards(node: Node, standing: Sequence[Pod], left_out: Counter[str]) -> tuple[Card, ...]:
    """The part of its healthy cards that its DaemonSets' pods leave."""
    taken = Counter[int]()
    for pod in standing:
        for index, units in booking_of(pod)[0].shares:
            taken[index] += units
    devices = devices_of(node)
    left_out["cards are unhealthy"] += sum(not device.healthy for device in devices)
    return tuple(
        Card(device.total - taken[device.index], device.model, device.uuid)
        for device in devices
        if device.healthy and device.total > taken[device.index]
    )


def _room(node: Node, standing: Sequence[Pod]) -> tuple[int, int]:
    """Milli-CPUs and MiB that pods may have beside those that stand there anyway."""
    amounts = (node.status.allocatable if node.status else None) or {}
    cpu = parse_milli(amounts.get("cpu", 0)) - sum(map(cpu_request, standing))
    memory = parse_milli(amounts.get("memory", 0)) // (1000 * _MIB) - sum(map(_memory, standing))
    return max(cpu, 0), max(memory, 0)


def _pod(pod: Pod, left_out: Counter[str]) -> TracePod | None:
    metadata = pod.metadata
    try:
        request = request_of(pod)
    except GpushareError:
        left_out["pods ask for card memory in a way that no extender grants"] += 1
        return None
    wishes = {name: value for name, value in (metadata.annotations or {}).items() if name in _WISHES}
    if request.wishes.group:
        # All pods of a replay are in one namespace.
        wishes[wire.WISH_SAME_CARD] = hashlib.sha256(request.wishes.group.encode()).hexdigest()[:_MOST_NAME]
    name = f"{metadata.namespace}.{metadata.name}"
    return TracePod(
        name,
        cpu_request(pod),
        _memory(pod),
        int(request.units > 0),
        request.units,
        wishes=tuple(sorted(wishes.items())),
    )


def _memory(pod: Pod) -> int:
    """MiB that it asks for at its worst moment, rounded up."""

    def amount(container: Container) -> int:
        requests = (container.resources.requests if container.resources else None) or {}
        return parse_milli(requests.get("memory", 0))

    return -(-worst_moment(pod, amount) // (1000 * _MIB))


def _chooses_nodes(raw: Mapping[str, Any]) -> bool:
    spec = raw.get("spec") or {}
    return bool(spec.get("nodeSelector") or (spec.get("affinity") or {}).get("nodeAffinity"))
