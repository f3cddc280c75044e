"""The writes of the programs under test, by their accounts: what others wrote stays, and their own is true. Pure.

docs/troubleshooting.md has each event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from clusters.api.exchanges import Written
from clusters.provider import DEVICE_PLUGIN, EXTENDER
from e2e import spec
from e2e.checkers.card_choice import cards_of, group_of, members_of
from e2e.checkers.history import Entry, Finding, Object, Rule, State, name_of
from e2e.checkers.overcommit import holds_a_node, shares_or_none
from e2e.checkers.pod_requests import gpu_containers, slots_of, units_of

# The words that a name of ours has: of an annotation, a resource, a condition.
_OURS: Final = ("aliyun.com/", "ALIYUN_COM_GPU_MEM", spec.POD_ALLOCATION, spec.NODE_HEALTHY, spec.NODE_LIMITS)
# The index and the size of a pod's card, and the units of the pod.
_BOOKED: Final = (spec.POD_INDEX, spec.POD_DEVICE_UNITS, spec.POD_UNITS, spec.POD_ALLOCATION)
_RESERVATIONS: Final = "aliyun.com/gpushare-reservations"
_NOWHERE: Final[Object] = {"spec": {}, "status": {}}
_Several = dict[str, dict[int, int]]
_SERVER: Final = ("resourceVersion", "generation", "managedFields")
# The beginning of the reasons of our events.
_REASONS: Final = "GPUShare"
_COMPONENTS: Final = {DEVICE_PLUGIN: "gpushare-device-plugin", EXTENDER: "gpushare-extender"}
_NORMAL: Final = (spec.EVENT_CARD_RECOVERED, spec.EVENT_MEMORY_OVERUSE_ENDED)
_NODE: Final = re.compile(r" of node (\S+)")


def foreign_stays(accounts: Mapping[str, str]) -> Rule:
    """A rule about these users, each with the name of its program: they change nothing of another's.

    Of a pod the extender may set the node once, and of both kinds of object each may change entries with our names. The plugin may
    end a pod, and write the status of one that a kubelet refused.
    """

    def foreign_write(_: State, entry: Entry) -> Iterator[Finding]:
        if not isinstance(entry, Written) or entry.kind not in ("pods", "nodes") or entry.user not in accounts:
            return
        program = accounts[entry.user]
        if entry.old is None or entry.new is None:
            if program != DEVICE_PLUGIN or entry.kind == "nodes" or entry.old is None:
                verb = "created" if entry.old is None else "removed"
                yield _finding(entry, f"the {program} {verb} it")
            return
        for path in changed(entry.old, entry.new):
            if not _may_change(program, entry.kind, path, entry.old):
                yield _finding(entry, f"the {program} changed {'.'.join(path)}")

    return foreign_write


class _Reservation(msgspec.Struct):
    units: int
    cards: dict[int, int]
    slots: int = 1


class _Guard(msgspec.Struct):
    pods: dict[str, _Reservation] = {}


def sound_bookings(accounts: Mapping[str, str]) -> Rule:
    """A rule about these users: the annotations that they write on a bound pod are true of the pod and of its card."""

    def unsound_booking(state: State, entry: Entry) -> Iterator[Finding]:
        if not isinstance(entry, Written) or entry.kind != "pods" or entry.user not in accounts or entry.new is None:
            return
        old, new = (_annotations(one) for one in (entry.old or {}, entry.new))
        if not holds_a_node(entry.new) or all(old.get(name) == new.get(name) for name in _BOOKED):
            return
        if not holds_a_node(entry.old or _NOWHERE) and new.get(spec.POD_REPAIR):
            text = f"the {accounts[entry.user]} bound it, and left its author's mark of a repair"
            yield _finding(entry, text, "untrue booking")
        for wrong in _wrong(entry.new, new, _sizes(state, entry.new["spec"]["nodeName"])):
            yield _finding(entry, f"the {accounts[entry.user]} wrote {wrong}", "untrue booking")

    return unsound_booking


def shared_cards(accounts: Mapping[str, str]) -> Rule:
    """A rule about these users: a pod that they bind gets a card of those with which it wishes to share one.

    The end of such a pod may be seen late, and so may its other card: pods with that wish are not judged after it.
    """
    changing: set[str] = set()

    def other_card(state: State, entry: Entry) -> Iterator[Finding]:
        if not isinstance(entry, Written) or entry.kind != "pods":
            return
        old, new = entry.old or {"metadata": {}, **_NOWHERE}, entry.new
        if holds_a_node(old):
            if new is None or not holds_a_node(new) or shares_or_none(new) != shares_or_none(old):
                changing.update(one["metadata"]["uid"] for one in members_of(old, state.pods.values()))
        elif new is not None and holds_a_node(new) and entry.user in accounts:
            others = [one for one in members_of(new, state.pods.values()) if one != new]
            mine = {(new["spec"]["nodeName"], card) for card in shares_or_none(new) or ()}
            place = group_of(new, others)
            if place is not None and not mine <= place and not changing & {one["metadata"]["uid"] for one in others}:
                yield _finding(
                    entry, f"its cards {sorted(mine)} are none of its group's {sorted(place)}", "shared card"
                )

    return other_card


def sound_reservations(state: State, entry: Entry) -> Iterator[Finding]:
    """A guard reserves for each pod the units and the slots that it asks for."""
    if not isinstance(entry, Written) or entry.kind != "leases" or entry.new is None:
        return
    text = _annotations(entry.new).get(_RESERVATIONS)
    for uid, one in msgspec.json.decode(text, type=_Guard).pods.items() if text else ():
        pod = state.pods.get(uid)
        if pod is None:
            continue
        asked = (units := units_of(pod)), units, slots_of(pod)
        if (reserved := (one.units, sum(one.cards.values()), one.slots)) != asked:
            text = f"a guard reserves (units, units on cards, slots) {reserved} for it, it asks for {asked}"
            yield Finding("untrue booking", entry.at, text, name_of(pod))


def true_transitions(accounts: Mapping[str, str]) -> Rule:
    """A rule about these users: the time of a condition's transition changes only with its status."""

    def untrue_transition(_: State, entry: Entry) -> Iterator[Finding]:
        if not isinstance(entry, Written) or entry.user not in accounts or not entry.old or not entry.new:
            return
        before, after = (_by_type((one.get("status") or {}).get("conditions") or []) for one in (entry.old, entry.new))
        for kind in sorted(before.keys() & after.keys()):
            changes = [before[kind].get(field) != after[kind].get(field) for field in ("status", "lastTransitionTime")]
            if changes == [False, True]:
                text = f"the {accounts[entry.user]} moved the transition of {kind}, and its status stays"
                yield _finding(entry, text, "untrue transition")

    return untrue_transition


def _wrong(pod: Object, annotations: Mapping[str, str], sizes: Mapping[int, int]) -> Iterator[str]:
    """The annotations about a card that are not true of the pod."""
    if not gpu_containers(pod) or shares_or_none(pod) is None:
        return
    if (units := annotations.get(spec.POD_UNITS)) and units != str(units_of(pod)):
        yield f"{units} units of the pod, which asks for {units_of(pod)}"
    if several := annotations.get(spec.POD_ALLOCATION):
        asked = dict(enumerate(units_of({"spec": {"containers": [one]}}) for one in pod["spec"]["containers"]))
        given = {int(key): sum(one.values()) for key, one in msgspec.json.decode(several, type=_Several).items()}
        if given != {index: units for index, units in asked.items() if units}:
            yield f"units by container {given}, they ask for {asked}"
        return
    index, size = (annotations.get(name) for name in (spec.POD_INDEX, spec.POD_DEVICE_UNITS))
    if index is not None and size and sizes and str(sizes.get(int(index))) != size:
        yield f"{size} units of card {index}, which has {sizes.get(int(index))}"


def _sizes(state: State, node: str) -> dict[int, int]:
    """The units of a node's cards by its annotation; empty if there is none, or if another plugin than its writer has the cards."""
    cards = cards_of(state.nodes[node]) if node in state.nodes else None
    return {index: card.units for index, card in cards.cards.items()} if cards is not None and cards.mode else {}


def _annotations(item: Object) -> Mapping[str, str]:
    return (item.get("metadata") or {}).get("annotations") or {}


def changed(old: Any, new: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """The paths of all fields and entries that differ; conditions go by their type."""
    old, new = _by_type(old), _by_type(new)
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        if old != new:
            yield path
        return
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            # A map that is not there has no entries.
            sides = [side.get(key, {} if isinstance(other.get(key), Mapping | list) else None)
                     for side, other in ((old, new), (new, old))]  # fmt: skip
            yield from changed(*sides, *path, key)


def _by_type(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(one, Mapping) and "type" in one for one in value):
        return {one["type"]: one for one in value}
    return value


def _may_change(program: str, kind: str, path: tuple[str, ...], old: Object) -> bool:
    match path:
        case ("metadata", field, *_) if field in _SERVER:
            return True
        case ("metadata", "annotations", name):
            return _is_ours(name)
        case ("status", "capacity" | "allocatable" | "conditions", name, *_) if kind == "nodes":
            return program == DEVICE_PLUGIN and _is_ours(name)
        case ("spec", "nodeName"):
            return program == EXTENDER and not old["spec"].get("nodeName")
        case ("status", "nominatedNodeName") | ("status", "conditions", "PodScheduled", *_):
            # A Binding writes both.
            return program == EXTENDER
        case ("metadata", "deletionTimestamp" | "deletionGracePeriodSeconds") | ("status", *_):
            return program == DEVICE_PLUGIN and kind == "pods"
    return False


def _is_ours(name: str) -> bool:
    return any(word in name for word in _OURS)


def _finding(entry: Written, text: str, rule: str = "foreign write") -> Finding:
    item = entry.new or entry.old or {}
    is_pod = entry.kind == "pods"
    node = item["spec"].get("nodeName", "") if is_pod else item["metadata"]["name"]
    return Finding(rule, entry.at, text, name_of(item) if is_pod else "", node)


def true_events(accounts: Mapping[str, str]) -> Rule:
    """A rule about these users, each with the name of its program: their events are about what was there, and true of it."""
    known: dict[tuple[str, str], dict[str, str]] = {}

    def untrue_event(_: State, entry: Entry) -> Iterator[Finding]:
        if not isinstance(entry, Written):
            return
        if entry.kind in ("pods", "nodes") and (item := entry.new or entry.old):
            is_pod = entry.kind == "pods"
            node = item["spec"].get("nodeName", "") if is_pod else item["metadata"]["name"]
            known.setdefault(("Pod" if is_pod else "Node", name_of(item)), {})[item["metadata"]["uid"]] = node
        event = entry.new if entry.kind == "events" and entry.user in accounts else None
        if event is None or not event.get("reason", "").startswith(_REASONS):
            return
        about = event["involvedObject"]
        name = f"{about.get('namespace', '')}/{about.get('name', '')}"
        node = known.get((about.get("kind", ""), name), {}).get(about.get("uid", ""), None)
        if node is None:
            wrong = [f"there was no such {about.get('kind')} with uid {about.get('uid')!r}"]
        else:
            wrong = list(_wrong_fields(accounts[entry.user], event, entry.old, node))
        for text in wrong:
            yield Finding("untrue event", entry.at, f"{event['reason']}: {text}: {event.get('message')}", name)

    return untrue_event


def _wrong_fields(program: str, event: Object, old: Object | None, node: str) -> Iterator[str]:
    about, before = event["involvedObject"], (old or {}).get("count", 0)
    given = {field: event.get(field) for field in ("source", "type")}
    # A program sends a write again if its answer was lost.
    given["is counted"] = event.get("count") in (before + 1, before or 1)
    given |= {"namespace": event["metadata"]["namespace"], "apiVersion": about.get("apiVersion")}
    given["nodes"] = {*_NODE.findall(event.get("message", "")), node}
    right = {
        "source": {"component": _COMPONENTS[program], **({"host": node} if program == DEVICE_PLUGIN else {})},
        "type": "Normal" if event["reason"] in _NORMAL else "Warning",
        "is counted": True,
        "namespace": about.get("namespace") or "default",
        "apiVersion": "v1",
        "nodes": {node},
    }
    yield from (f"{field} is {given[field]}, should be {one}" for field, one in right.items() if given[field] != one)
