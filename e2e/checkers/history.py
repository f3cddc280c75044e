"""A cluster as it was seen, entry after entry, the state after each, and its judgement by rules. Pure.

A history is a list of entries. A watch gives a ``Change`` for each event, one look gives ``Listed``; both are one form, so that
rules need not know which it was. Times are seconds on one clock.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from clusters.api.exchanges import Injected, Limited, StoodStill, Written
from clusters.kubelet.plugin_client import Place, PluginCall
from e2e import spec
from e2e.checkers import UnknownError

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Listed:
    """All pods and all nodes."""

    at: float
    pods: Sequence[Object]
    nodes: Sequence[Object] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """An event of a watch of pods or of nodes: ADDED, MODIFIED or DELETED."""

    at: float
    kind: str
    item: Object
    of: Literal["pods", "nodes"] = "pods"


@dataclass(frozen=True, slots=True)
class Card:
    """One card, as it reports itself."""

    units: int
    uuid: str = ""
    held_mib: int = 0
    """The memory of the processes on it."""


@dataclass(frozen=True, slots=True)
class Cards:
    """The cards of a node, by the index that annotations use."""

    at: float
    node: str
    cards: Mapping[int, Card]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to the extender (``path`` is below its root), and its answer."""

    at: float
    path: str
    question: Any
    answer: Any
    status: int = 200
    begun: float = 0.0
    """When it was asked, if that is known."""


@dataclass(frozen=True, slots=True)
class Told:
    """The variables of each container with card memory of a pod, in the order of its manifest, init containers first."""

    at: float
    uid: str
    containers: Sequence[Mapping[str, str]]


Entry = Listed | Change | Cards | Asked | Told | PluginCall | Written | Injected | StoodStill | Limited


@dataclass(slots=True)
class State:
    """The state after the entries so far."""

    pods: dict[str, Object] = field(default_factory=dict)
    """By uid."""
    nodes: dict[str, Object] = field(default_factory=dict)
    cards: dict[str, Mapping[int, Card]] = field(default_factory=dict)
    """By node."""
    told: dict[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    """By the pod's uid."""
    banned: dict[str, frozenset[int]] = field(default_factory=dict)
    """The cards of each node that a ConfigMap of the original's form bans."""
    touched: dict[str, float] = field(default_factory=dict)
    """When the API server last wrote a node's cards or amounts, or one of its pods."""
    stood_still: float = -math.inf
    """When programs last went on that had been stopped."""
    moved: dict[str, float] = field(default_factory=dict)
    """When a bound pod of a node was last written on another card."""
    binds: list[Asked] = field(default_factory=list)
    streams: set[Place] = field(default_factory=set)
    """Those of whose plugin the stream of lists is open."""
    announced: dict[Place, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    """The ids of a plugin's lists, and since when each is not announced as healthy."""
    injected: dict[Path, list[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(list))
    """The commands to a node's simulated cards since all were announced as healthy again, by the node's folder."""
    used: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The nodes that the pods of each namespace have used so far."""

    def take(self, entry: Entry) -> None:
        """The next entry."""
        match entry:
            case Listed():
                self.pods = {pod["metadata"]["uid"]: pod for pod in entry.pods}
                self.nodes = {node["metadata"]["name"]: node for node in entry.nodes}
                self._note_nodes(entry.pods)
            case Change(of="nodes"):
                _change(self.nodes, entry.item["metadata"]["name"], entry)
            case Change():
                _change(self.pods, entry.item["metadata"]["uid"], entry)
                self._note_nodes([entry.item])
            case Cards():
                self.cards[entry.node] = entry.cards
            case Told():
                self.told[entry.uid] = entry.containers
            case Asked(path=spec.BIND):
                self.binds.append(entry)
            case Written() | PluginCall() | Injected() | StoodStill():
                self._take_event(entry)

    def _take_event(self, entry: Written | PluginCall | Injected | StoodStill) -> None:
        match entry:
            case StoodStill():
                self.stood_still = entry.at
            case Injected():
                self.injected[entry.folder].append(entry.words)
            case PluginCall(method="ListAndWatch"):
                self._take_list(entry)
            case Written(kind="configmaps"):
                self._take_ban(entry)
            case Written(kind="pods"):
                self._take_pod(entry)
            case Written(kind="nodes"):
                self._write(self.nodes, "name", entry)
                if _cards_of(entry.old) != _cards_of(entry.new):
                    self._touch(entry, lambda node: node["metadata"]["name"], self.touched)

    def _take_pod(self, entry: Written) -> None:
        self._write(self.pods, "uid", entry)
        self._touch(entry, _node_of, self.touched)
        if "" != _index_of(entry.old) != _index_of(entry.new) != "":
            self._touch(entry, _node_of, self.moved)

    def _take_ban(self, entry: Written) -> None:
        name = (entry.new or entry.old or {})["metadata"]["name"]
        if (node := name.removeprefix("unhealthy-gpu-")) != name:
            self.touched[node] = entry.at
            self.banned[node] = cards_in(((entry.new or {}).get("data") or {}).get("gpus", ""))

    def _write(self, known: dict[str, Object], key: str, entry: Written) -> None:
        if entry.old is not None:
            known.pop(entry.old["metadata"][key], None)
        if entry.new is not None:
            known[entry.new["metadata"][key]] = entry.new

    def _touch(self, entry: Written, place: Callable[[Object], str], times: dict[str, float]) -> None:
        times.update({place(item): entry.at for item in (entry.old, entry.new) if item is not None})

    def _take_list(self, entry: PluginCall) -> None:
        place = entry.place
        if entry.answer is None:
            self.streams.discard(place)
            return
        self.streams.add(place)
        healthy = {device.ID for device in entry.answer.devices if device.health == "Healthy"}
        known = self.announced[place]
        # In slots mode the list of memory is healthy throughout.
        if len(healthy) == len(entry.answer.devices) and any(since < math.inf for since in known.values()):
            self.injected.pop(place[0].parent, None)
        ids = known.keys() | {device.ID for device in entry.answer.devices}
        known.update({one: math.inf if one in healthy else min(known.get(one, entry.at), entry.at) for one in ids})

    def _note_nodes(self, pods: Iterable[Object]) -> None:
        for pod in pods:
            if node := pod["spec"].get("nodeName"):
                self.used[pod["metadata"].get("namespace", "")].add(node)


def _change(known: dict[str, Object], key: str, change: Change) -> None:
    if change.kind == "DELETED":
        known.pop(key, None)
    else:
        known[key] = change.item


def _node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _index_of(pod: Object | None) -> str:
    """ "" for a pod that is not bound."""
    if pod is None or not _node_of(pod):
        return ""
    return str((pod["metadata"].get("annotations") or {}).get(spec.POD_INDEX, ""))


def _cards_of(node: Object | None) -> tuple[Any, ...]:
    if node is None:
        return ()
    status = node.get("status", {})
    return node["metadata"].get("annotations"), status.get("capacity"), status.get("allocatable")


def cards_in(text: str) -> frozenset[int]:
    """The cards in a list between commas; a word that is no number names none, and blanks count for nothing."""
    return frozenset(int(word) for word in map(str.strip, text.split(",")) if word.isdecimal())


def name_of(pod: Object) -> str:
    """``namespace/name``."""
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


@dataclass(frozen=True, slots=True, repr=False)
class Finding:
    """One thing that is wrong: against which rule, when it was first seen, and on which pod (``namespace/name``), node and card."""

    rule: str
    at: float
    text: str
    pod: str = ""
    node: str = ""
    card: int | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for the same trouble at another time: that of a card stays, although pods and numbers change."""
        return (
            (self.rule, self.node, self.card) if self.card is not None else (self.rule, self.pod, self.node, self.text)
        )

    def __repr__(self) -> str:
        """One line."""
        card = "" if self.card is None else f"card {self.card}"
        place = " of ".join(filter(None, (card, self.node)))
        subject = ", ".join(filter(None, (self.pod, place)))
        return f"{self.at:.1f} s, {': '.join(filter(None, (self.rule, subject, self.text)))}"

    __str__ = __repr__


Rule = Callable[[State, Entry], Iterable[Finding]]


class Judge:
    """Takes entry after entry; ``findings`` are those of all rules, each once."""

    def __init__(self, *rules: Rule) -> None:
        self.state = State()
        self.findings: list[Finding] = []
        self._rules = rules
        self._known: set[tuple[object, ...]] = set()

    def take(self, entry: Entry) -> None:
        """The next entry. Raises UnknownError if a rule fails in itself."""
        self.state.take(entry)
        for rule in self._rules:
            try:
                found = list(rule(self.state, entry))
            except Exception as error:
                name = getattr(rule, "__name__", str(rule))
                raise UnknownError(f"the rule {name} failed at {entry.at:.1f} s: {error!r}") from error
            for one in found:
                if one.key not in self._known:
                    self._known.add(one.key)
                    self.findings.append(one)

    def forgive(self, finding: Finding) -> None:
        """Let a finding count as not seen yet."""
        self._known.discard(finding.key)

    def about(self, namespace: str, nodes: Collection[str] = ()) -> list[Finding]:
        """The findings about pods of the namespace, about nodes (those that its pods have used, and these), or about neither."""
        used = self.state.used[namespace].union(nodes)
        return [
            one
            for one in self.findings
            if one.pod.startswith(f"{namespace}/") or one.node in used or not (one.pod or one.node)
        ]


def judge(entries: Iterable[Entry], *rules: Rule, namespace: str = "", nodes: Collection[str] = ()) -> list[Finding]:
    """The findings of these rules in a history: all, or those about one namespace and its nodes. Raises UnknownError."""
    judge = Judge(*rules)
    for entry in entries:
        judge.take(entry)
    return judge.about(namespace, nodes) if namespace else judge.findings
