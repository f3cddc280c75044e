"""The extender's answers to a scheduler against the messages of Kubernetes, and its choices against the API. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from e2e import spec
from e2e.checkers.card_choice import cards_of, fits, group_of, members_of, rooms_of, texts_of
from e2e.checkers.extender_answers import book_adds_up, book_differs
from e2e.checkers.history import Asked, Entry, Finding, Object, State, name_of
from e2e.checkers.overcommit import holds_a_node, is_marked, shares_or_none, shows_running
from e2e.checkers.pod_requests import gpu_containers, units_of

REFUSED: Final = "refused with room"
# A program reads a change some time after it was written; on a busy machine that takes longer.
LAG_SECONDS: Final = 2.0
# Programs that stood still read a whole list before they know the changes.
STILL_SECONDS: Final = 10.0
# An extender that read the end of a pod's move and not its steps may book both cards, until it has compared its book with the API.
CONFLICT_SECONDS: Final = 40.0
_HIGHEST_SCORE: Final = 10
# The longest text of a wish that is judged, in characters.
_LONGEST: Final = 200
_CARD: Final = (spec.POD_INDEX, spec.POD_ALLOCATION)


class _Question(msgspec.Struct, rename="pascal"):
    pod: dict[str, Any]
    node_names: list[str]


class _Nodes(msgspec.Struct):
    items: list[dict[str, Any]] | None = None


class _Filtered(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    """k8s.io/kube-scheduler/extender/v1, ExtenderFilterResult."""

    nodes: _Nodes | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""

    @property
    def passed(self) -> list[str]:
        """The names of the nodes that may hold the pod."""
        if self.node_names is not None:
            return self.node_names
        return [one["metadata"]["name"] for one in (self.nodes and self.nodes.items) or ()]


class _Score(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    """HostPriority there."""

    host: str
    score: int


class _Bound(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    """ExtenderBindingResult there."""

    error: str = ""


class _Victims(msgspec.Struct, rename="pascal"):
    pods: list[dict[str, Any]] | None = None


class _Preempt(msgspec.Struct, rename={"whole": "NodeNameToVictims", "meta": "NodeNameToMetaVictims"}):
    whole: dict[str, _Victims] | None = None
    meta: dict[str, _Victims] | None = None


_ANSWERS: Final[Mapping[str, Any]] = {spec.FILTER: _Filtered, spec.PRIORITIZE: list[_Score], spec.BIND: _Bound}


def sound_messages(_: State, entry: Entry) -> Iterator[Finding]:
    """An answer has the fields of its message, each node that was asked about has one answer, and a score is from 0 to 10."""
    if not isinstance(entry, Asked) or entry.status != 200 or entry.path not in _ANSWERS:
        return
    question = _read(entry.question, _Question)
    if question is None and entry.path != spec.BIND:
        # A stranger's, or one with whole nodes.
        return
    try:
        answer = msgspec.convert(entry.answer, _ANSWERS[entry.path])
    except msgspec.ValidationError as error:
        yield Finding("message", entry.at, f"the extender's answer to {entry.path} is none of Kubernetes: {error}")
        return
    if (given := _answers(answer)) is not None and question is not None:
        yield from _not_once(entry, Counter(question.node_names), given)
    for one in answer if isinstance(answer, list) else ():
        if not 0 <= one.score <= _HIGHEST_SCORE:
            yield Finding("message", entry.at, f"its score is {one.score}", node=one.host)


def _not_once(entry: Asked, asked: Counter[str], given: Counter[str]) -> Iterator[Finding]:
    for node in sorted(asked | given):
        # A name that was asked about twice may be answered once.
        if not bool(asked[node]) <= given[node] <= asked[node]:
            text = f"{entry.path} has {given[node]} answers about it, {asked[node]} are expected"
            yield Finding("message", entry.at, text, node=node)


def _answers(answer: Any) -> Counter[str] | None:
    """How many answers there are about each node; None for a refusal as a whole, and for a bind."""
    match answer:
        case _Filtered(error=""):
            return Counter(
                [*answer.passed, *(answer.failed_nodes or ()), *(answer.failed_and_unresolvable_nodes or ())]
            )
        case list():
            return Counter(one.host for one in answer)
    return None


def right_choices(state: State, entry: Entry) -> Iterator[Finding]:
    """A node passes the filter if a card of it that the pod wishes for has room by the API, and only then.

    Not judged are nodes that have just changed, and nodes with a pod of which the API does not show the card.
    """
    if not isinstance(entry, Asked) or entry.path != spec.FILTER or entry.status != 200:
        return
    question, answer = _read(entry.question, _Question), _read(entry.answer, _Filtered)
    if question is None or answer is None or answer.error or not _is_plain(question.pod, state, entry):
        return
    pods_of: dict[str, list[Object]] = defaultdict(list)
    for pod in state.pods.values():
        pods_of[pod["spec"].get("nodeName", "")].append(pod)
    group = group_of(question.pod, state.pods.values())
    for name in sorted(set(question.node_names)):
        node = state.nodes.get(name)
        if node is None or not _is_settled(state, name, entry):
            continue
        banned = state.banned.get(name, frozenset())
        if (has_room := _has_room(question.pod, node, pods_of[name], banned, group)) is not None:
            why = "" if has_room else _misjudged(question.pod, node, answer, banned, group)
            yield from _choice(question.pod, node, answer, entry.at, has_room=has_room, why=why)


def _choice(pod: Object, node: Object, answer: _Filtered, at: float, *, has_room: bool, why: str) -> Iterator[Finding]:
    name, asks = node["metadata"]["name"], f"{units_of(pod)} units of {name_of(pod)}"
    if has_room and name not in answer.passed:
        text = (answer.failed_nodes or {}).get(name) or (answer.failed_and_unresolvable_nodes or {}).get(name)
        yield Finding(REFUSED, at, f"a card has room for the {asks}: {text}", node=name)
    elif name in answer.passed and not has_room:
        yield Finding("passed without room", at, f"no card has room for the {asks}", node=name)
    elif why:
        yield Finding("wrong refusal", at, why, node=name)


def kept_victims(state: State, entry: Entry) -> Iterator[Finding]:
    """The victims of an answer are pods of their node, with all proposed ones that have no card memory.

    The scheduler proposed those because of other resources.
    """
    if not isinstance(entry, Asked) or entry.path != spec.PREEMPT or entry.status != 200:
        return
    proposed, kept = victims_of(entry.question), victims_of(entry.answer)
    for node, uids in sorted(kept.items()):
        asked = proposed.get(node, set())
        others = {uid for uid in asked if uid in state.pods and not gpu_containers(state.pods[uid])}
        # A pod that is being bound has no node yet.
        strangers = {uid for uid in uids & state.pods.keys() if state.pods[uid]["spec"].get("nodeName", node) != node}
        if wrong := strangers | (others - uids):
            text = f"not of the node, or without card memory and left out: {', '.join(sorted(wrong))}"
            yield Finding("victims", entry.at, text, node=node)


def right_victims(state: State, entry: Entry) -> Iterator[Finding]:
    """Without an answer's victims, all less important than the pod, a card has room; a node that is left out has no such pods.

    Not judged are the nodes and pods that ``right_choices`` leaves out.
    """
    if not isinstance(entry, Asked) or entry.path != spec.PREEMPT or entry.status != 200:
        return
    pod = entry.question.get("Pod") if isinstance(entry.question, Mapping) else None
    if not isinstance(pod, dict) or not _is_plain(pod, state, entry):
        return
    proposed, kept = victims_of(entry.question), victims_of(entry.answer)
    group = group_of(pod, state.pods.values())
    for name in sorted(proposed.keys() & state.nodes.keys()):
        if _is_settled(state, name, entry):
            for text in _wrong_victims(state, pod, name, kept.get(name), group):
                yield Finding("victims", entry.at, text, node=name)


def _wrong_victims(
    state: State, pod: Object, name: str, kept: set[str] | None, group: frozenset[tuple[str, int]] | None
) -> Iterator[str]:
    node, banned, priority = state.nodes[name], state.banned.get(name, frozenset()), priority_of(pod)
    pods = [one for one in state.pods.values() if one["spec"].get("nodeName") == name]
    ended = [one for one in pods if one["metadata"]["uid"] in (kept or ())]
    important = [one for one in pods if priority_of(one) >= priority]
    if unfair := [name_of(one) for one in ended if one in important]:
        yield f"as important as the pod: {', '.join(unfair)}"
    if kept is not None and _has_room(pod, node, [one for one in pods if one not in ended], banned, group) is False:
        yield "no card has room when they have ended"
    # A pod that holds a card after its end, or by hand, makes every number uncertain.
    if kept is None and all(map(_is_certain, pods)) and _has_room(pod, node, important, banned, group):
        yield "left out, though the end of less important pods makes room"


def priority_of(pod: Object) -> int:
    """0 for a pod without one."""
    return int(pod["spec"].get("priority") or 0)


def victims_of(message: Any) -> dict[str, set[str]]:
    """The uids on each node, of a question or an answer with uids or with whole pods."""
    read = _read(message, _Preempt)
    if read is None:
        return {}
    whole = {node: {pod["metadata"]["uid"] for pod in one.pods or ()} for node, one in (read.whole or {}).items()}
    return whole | {node: {pod["UID"] for pod in one.pods or ()} for node, one in (read.meta or {}).items()}


def settled_book(state: State, entry: Entry) -> Iterator[Finding]:
    """Every answer with the book is the API's for each node that has not just changed."""
    if isinstance(entry, Asked) and entry.path == spec.INSPECT and state.nodes:
        for one in (*book_adds_up(state, entry), *book_differs(state, entry)):
            pods = [pod for pod in state.pods.values() if pod["spec"].get("nodeName") == one.node]
            if one.rule == "book adds up" or (_is_settled(state, one.node, entry) and all(map(_is_certain, pods))):
                yield one


def _is_settled(state: State, node: str, asked: Asked) -> bool:
    """Had the extender the time to read all changes of the node before it was asked?"""
    begun, moved = asked.begun or asked.at, state.moved.get(node, -math.inf)
    if moved - state.stood_still < STILL_SECONDS and begun - moved < CONFLICT_SECONDS:
        return False
    return begun - state.touched.get(node, -LAG_SECONDS) >= LAG_SECONDS and begun - state.stood_still >= STILL_SECONDS


def _has_room(
    pod: Object,
    node: Object,
    pods: list[Object],
    banned: frozenset[int],
    group: frozenset[tuple[str, int]] | None = None,
) -> bool | None:
    """Has a card of the node room for the pod? None if the API does not show it."""
    if spec.NODE_OVERUSE in (node["metadata"].get("annotations") or {}) or not all(map(_is_certain, pods)):
        return None
    rooms = rooms_of(pod, node, pods, banned, group)
    return None if rooms is None else fits(pod, (room.free for room in rooms.values()))


def _misjudged(
    pod: Object, node: Object, answer: _Filtered, banned: frozenset[int], group: frozenset[tuple[str, int]] | None
) -> str:
    """How an extender that knows both refusals has chosen the wrong one, for a full node."""
    cards, name = cards_of(node), node["metadata"]["name"]
    if cards is None or answer.failed_and_unresolvable_nodes is None:
        return ""
    helps = fits(pod, (room.size for room in (rooms_of(pod, node, (), banned, group) or {}).values()))
    if helps != (name in answer.failed_and_unresolvable_nodes):
        return ""
    said = "no" if helps else "some"
    return f"its refusal of {units_of(pod)} units says that the end of {said} pods helps, which is not so"


def _is_plain(pod: Object, state: State, asked: Asked) -> bool:
    """Does the pod ask for card memory, without a card yet, and do the pods that share its card have one for certain?

    Wishes of long texts are not judged: programs may have bounds.
    """
    try:
        known = state.pods.get(pod["metadata"].get("uid", ""), pod)
        annotations = {**(pod["metadata"].get("annotations") or {}), **(known["metadata"].get("annotations") or {})}
        asks = units_of(pod) > 0 and not any(len(text) > _LONGEST for text in texts_of(pod).values())
        members = members_of(pod, state.pods.values())
    except (ValueError, TypeError, KeyError, AttributeError):
        # A stranger's.
        return False
    if not asks or any(name in annotations for name in _CARD) or known["spec"].get("nodeName"):
        return False
    return all(_is_certain(one) and _is_settled(state, one["spec"].get("nodeName", ""), asked) for one in members)


def _is_certain(pod: Object) -> bool:
    """Does the API show which card the pod holds? It does not for one by hand or in a repair, nor for a failed one that runs."""
    if not gpu_containers(pod):
        return True
    return bool(shares_or_none(pod)) and not is_marked(pod) if holds_a_node(pod) else not shows_running(pod)


def _read(value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None
