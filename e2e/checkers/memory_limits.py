"""Each container has the limit of card memory that its share makes right, and its node reports the limits that there are. Pure.

The limits are read from the table of the simulated driver, and from nothing that the program under test reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from clusters.api.exchanges import Limited
from e2e import spec
from e2e.checkers.history import Entry, Finding, Object, Rule, State, name_of
from e2e.checkers.overcommit import holds_a_node, shares_or_none
from e2e.checkers.pod_requests import GpuContainer, gpu_containers
from e2e.site.node_cards import UnreadableError, described

MIB: Final = 1024 * 1024
ENFORCED, NONE, LOOSE, TIGHT, UNKNOWN = "enforced", "none", "loose", "tight", "unknown"
# The worst first: a container counts once, by this one.
_WORST: Final = (NONE, LOOSE, TIGHT, UNKNOWN, ENFORCED)
_EVENTS: Final = {NONE: spec.EVENT_NOT_LIMITED, LOOSE: spec.EVENT_LIMIT_LOOSE, TIGHT: spec.EVENT_LIMIT_TIGHT}
# One limit as a pod shows it: the container, the index of the card, the state and the MiB in force (0 for none and unknown).
_Shown = tuple[str, int, str, int]


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit that the driver enforces for a control group on one card, in bytes; ``hard`` None: none."""

    soft: int
    hard: int | None


@dataclass(frozen=True, slots=True)
class LimitedNode:
    """A node that should limit, at rest. ``mib`` has the size of each card by index, ``lost`` those of which no limit can be read.

    ``table`` has the driver's limits by container id and card. ``reason`` is why the node cannot limit, "" if it can. ``set``
    has by pod and container the limit that something else than its share makes, None for none.
    """

    name: str
    mib: Mapping[int, int]
    table: Mapping[tuple[str, int], Limit]
    mib_per_unit: int = spec.MIB_PER_UNIT
    slack: str = "0"
    reason: str = ""
    set: Mapping[tuple[str, str], Limit | None] | None = None
    lost: Collection[int] = ()
    is_exact: bool = False
    """Each card of a container has a number of its own."""


@dataclass(frozen=True, slots=True)
class Held:
    """A running container on one of its cards: the limit that is ``right`` there, and the one that is ``due``."""

    pod: Object
    container: str
    index: int
    right: int
    due: Limit | None
    limit: Limit | None
    is_lost: bool

    @property
    def mib(self) -> int | None:
        """The limit in force, rounded down."""
        return None if self.limit is None or self.limit.hard is None else self.limit.hard // MIB

    @property
    def state(self) -> str:
        """As it should be published."""
        if self.is_lost:
            return UNKNOWN
        hard = None if self.limit is None else self.limit.hard
        if hard is None:
            return NONE
        if self.limit is not None and self.limit.soft:
            return LOOSE
        return ENFORCED if hard == self.right * MIB else LOOSE if hard > self.right * MIB else TIGHT

    @property
    def shown(self) -> _Shown:
        """As its pod should show it."""
        return self.container, self.index, self.state, 0 if self.is_lost else self.mib or 0


def held_cards(pods: Iterable[Object], node: LimitedNode) -> list[Held]:
    """All cards of all running containers of the node's pods."""
    found = []
    for pod in pods:
        if not holds_a_node(pod) or pod["spec"]["nodeName"] != node.name or not shares_or_none(pod):
            continue
        for container, at in _running(pod):
            right = {card: _with_slack(mib, node, card) for card, mib in _shares(pod, container, node).items()}
            for card, mib in right.items():
                whole = None if node.reason else _due(pod, container, node, right, card)
                due = None if whole is None else Limit(0, whole * MIB)
                due = (node.set or {}).get((pod["metadata"]["name"], container.name), due)
                found.append(Held(pod, container.name, card, mib, due, node.table.get((at, card)), card in node.lost))
    return found


def _running(pod: Object) -> Iterator[tuple[GpuContainer, str]]:
    """Its containers that run, with their ids."""
    status, known = pod["status"], {one.name: one for one in gpu_containers(pod)}
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        if "running" in (one.get("state") or {}) and one.get("containerID") and one["name"] in known:
            yield known[one["name"]], one["containerID"].rpartition("://")[2]


def _shares(pod: Object, container: GpuContainer, node: LimitedNode) -> dict[int, int]:
    """A container's MiB of each card, at most the card. A pod on several cards has one container, which has all of them."""
    shares = shares_or_none(pod) or {}
    units = {next(iter(shares)): container.units} if len(shares) == 1 else shares
    return {card: min(amount * node.mib_per_unit, node.mib.get(card, 0)) for card, amount in units.items() if amount}


def _with_slack(mib: int, node: LimitedNode, card: int) -> int:
    """The share with the slack, ``10%`` of it or ``256MiB``, at most the card."""
    number = int(node.slack.rstrip("%MiB"))
    more = mib * number // 100 if node.slack.endswith("%") else number
    return min(mib + more, node.mib.get(card, 0))


def _due(pod: Object, container: GpuContainer, node: LimitedNode, right: Mapping[int, int], card: int) -> int | None:
    """By variables there is one number for all cards: that of the largest share, which no card of them may be smaller than."""
    if node.is_exact:
        return right[card]
    smallest = min((node.mib.get(card, 0) for card in right), default=0)
    if not right or max(_shares(pod, container, node).values()) > smallest:
        return None
    return min(max(right.values()), smallest)


def exact_limits(arguments: Mapping[str, Sequence[str]]) -> Rule:
    """A rule about nodes with these arguments of their plugin: a container that starts with a limit has the one that is due.

    Only a look at rest can tell whether one without a limit should have one.
    """

    def inexact_limit(state: State, entry: Entry) -> Iterator[Finding]:
        if not isinstance(entry, Limited) or entry.is_other:
            return
        pod = state.pods.get(entry.uid)
        container = next((one for one in (gpu_containers(pod) if pod else ()) if one.name == entry.container), None)
        if pod is None or container is None or not shares_or_none(pod):
            return
        name = pod["spec"]["nodeName"]
        unit = _mib_per_unit(state.nodes.get(name))
        if not unit:
            return
        options = dict(one.removeprefix("--").partition("=")[::2] for one in arguments.get(name, ()))
        is_exact, slack = "memory-limit-hook" in options, options.get("memory-limit-slack", "0")
        node = LimitedNode(name, entry.mib, {}, unit, slack, is_exact=is_exact)
        right = {card: _with_slack(mib, node, card) for card, mib in _shares(pod, container, node).items()}
        for card in right.keys() & entry.rows.keys():
            (soft, hard), due = entry.rows[card], _due(pod, container, node, right, card)
            if due is None or (soft, hard) != (0, due * MIB):
                text = f"{entry.container} starts with the limits {soft} and {hard}, should have {due} MiB"
                yield Finding("inexact limit", entry.at, text, name_of(pod), name, card)

    return inexact_limit


def _mib_per_unit(node: Object | None) -> int:
    """By the node's annotation; 0 without one that can be read."""
    try:
        cards = described(node) if node is not None else None
        return cards.mib_per_unit if cards is not None else 0
    except UnreadableError:
        return 0


def wrong_limits(held: Iterable[Held]) -> Iterator[str]:
    """The limits that the driver does not enforce as it should, to the byte, and guarantees."""
    for one in held:
        limit = one.limit if one.limit is not None and one.limit.hard is not None else None
        if limit != one.due:
            yield f"{name_of(one.pod)}: {one.container} has {limit} of card {one.index}, should have {one.due}"


def wrong_annotations(held: Sequence[Held]) -> Iterator[str]:
    """The pods that show other limits of their running containers than the driver has. Containers that have ended may stay."""
    for pod in {one.pod["metadata"]["uid"]: one.pod for one in held}.values():
        due = sorted(one.shown for one in held if one.pod is pod)
        running = {container for container, *_ in due}
        shown = sorted(one for one in _annotation(pod) if one[0] in running)
        if shown != due:
            yield f"{name_of(pod)}: shows the limits {shown}, should show {due}"


def _annotation(pod: Object) -> list[_Shown]:
    text = (pod["metadata"].get("annotations") or {}).get(spec.POD_LIMITS) or "[]"
    try:
        return msgspec.json.decode(text, type=list[_Shown])
    except msgspec.DecodeError:
        return [(text, 0, "unreadable", 0)]


def counts(held: Iterable[Held]) -> Counter[str]:
    """The containers by their worst state."""
    worst = dict[tuple[str, str], str]()
    for one in held:
        key = one.pod["metadata"]["uid"], one.container
        worst[key] = min(worst.get(key, ENFORCED), one.state, key=_WORST.index)
    return Counter({state: list(worst.values()).count(state) for state in _WORST})


def wrong_condition(held: Iterable[Held], node: LimitedNode, item: Object) -> Iterator[str]:
    """The condition of a Node that does not show which limits there are."""
    count = counts(held)
    bad, unsure = count[NONE] + count[LOOSE], count[UNKNOWN]
    due = ("False", "SomeNotLimited") if bad else ("Unknown", "NotVerified") if unsure else ("True", "Enforced")
    due = ("False", node.reason) if node.reason else due
    conditions = item["status"].get("conditions") or ()
    shown = [(one["status"], one["reason"]) for one in conditions if one["type"] == spec.NODE_LIMITS]
    if shown != [due]:
        yield f"{node.name}: has the condition {shown}, should have {due}"


def wrong_events(
    held: Sequence[Held], node: LimitedNode, events: Iterable[Object], before: Mapping[str, Collection[str]]
) -> Iterator[str]:
    """The pods without an event about a limit that is not right, and those with one about a state that they never had.

    ``before`` has by uid the states of earlier looks. The Node itself has the reason why it cannot limit.
    """
    reasons = {uid: set[str]() for uid in (one.pod["metadata"]["uid"] for one in held)}
    for event in events:
        uid = event["involvedObject"].get("uid")
        if uid in reasons and event["reason"] in _EVENTS.values():
            reasons[uid].add(event["reason"])
    for uid, shown in reasons.items():
        now = {one.state for one in held if one.pod["metadata"]["uid"] == uid} - ({NONE} if node.reason else set())
        due = {_EVENTS[state] for state in now if state in _EVENTS}
        may = due | {_EVENTS[state] for state in before.get(uid, ()) if state in _EVENTS}
        if not due <= shown <= may:
            yield f"{uid}: has the events {sorted(shown)}, should have {sorted(due)}"


def wrong_gauge(held: Iterable[Held], node: LimitedNode, series: Mapping[Any, float]) -> Iterator[str]:
    """The number of containers by state that the plugin publishes, if it is another."""
    shown = {
        dict(labels)["state"]: value for (name, labels), value in series.items() if name == "gpushare_container_limits"
    }
    if shown != (due := dict(counts(held))):
        yield f"{node.name}: counts the containers {shown}, should be {due}"
