"""The state that a burst leaves: pods that a restart refused, pods that have a step before them, and rules for the rest. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from e2e import spec
from e2e.bursts.burst_plan import ENDS_LABEL, POD_LABEL
from e2e.checkers.card_choice import fits
from e2e.checkers.history import Asked, Card, Cards, Entry, Finding, Listed, State, name_of
from e2e.checkers.overcommit import Sizes, booked_in_api, held_on, holds_a_node, slots_taken
from e2e.checkers.pod_requests import units_of
from e2e.site.node_cards import amount, described

# The plugin's words for ids that the kubelet does not give back yet; it is asked first if other cards have ids.
_KEPT: Final = "the kubelet keeps"
_TOLD_WRONGLY: Final = "the amount of another pod's container"
# The reasons with which a kubelet turns a pod away while its device plugin, or it itself, restarts.
_TURNED_AWAY: Final = (
    "no healthy devices present",
    "unknown Device Plugin",
    "has been stopped",
    "code = Unavailable",
    "code = Canceled",
    "requested number of devices unavailable",
    _KEPT,
)
# The reason with which the plugin's last guard refuses a pod that has no room on its card.
_NO_ROOM: Final = "units left for the"


def is_turned_away(pod: Mapping[str, Any], restarted: frozenset[str]) -> bool:
    """Did the pod fail because its node's kubelet or plugin was restarting? Its owner would replace it."""
    status = pod["status"]
    if status.get("phase") != "Failed" or pod["spec"].get("nodeName") not in restarted:
        return False
    message = status.get("message", "")
    return status.get("reason", "").startswith("OutOf") or any(reason in message for reason in _TURNED_AWAY)


def is_without_room(pod: Mapping[str, Any], kubelets: frozenset[str]) -> bool:
    """Did the plugin refuse it for want of room, on a node whose kubelet has cause for that? Its owner would replace it.

    A kubelet that restarted admits what it finds by age, of one second in any order; ends pods between two of their containers; and
    keeps the ids of pods that have ended until it has looked at all. So the plugin takes one pod for another, and
    if their sizes differ and the cards are full the annotations cannot all follow: a pod is refused, and no card over-booked.
    The same happens if a kubelet admits equal pods in any order and the annotations of several are exchanged: an extender may bind
    a pod to a card just as another pod gets the ids of that card. A real kubelet that asks for a pod which the API server has
    removed has cause, too: the plugin takes its calls for those of another pod (seen once).
    """
    message = pod["status"].get("message", "") if pod["status"].get("phase") == "Failed" else ""
    return pod["spec"].get("nodeName") in kubelets and _NO_ROOM in message and _KEPT not in message


def is_told_wrongly(pod: Mapping[str, Any], kubelets: frozenset[str]) -> bool:
    """Does a container wait for good, as its plugin took it for another pod's? An administrator would delete the pod.

    Slots show no amounts: of equal slots a kubelet that restarted asks for in any order, and what a container was told stays.
    """
    statuses = [*(pod["status"].get("initContainerStatuses") or ()), *(pod["status"].get("containerStatuses") or ())]
    messages = [status["state"].get("waiting", {}).get("message") or "" for status in statuses]
    return pod["spec"].get("nodeName") in kubelets and any(_TOLD_WRONGLY in message for message in messages)


def is_kept_out(pod: Mapping[str, Any]) -> bool:
    """Was it refused because the kubelet did not offer ids of pods that had ended? Its owner would replace it.

    A kubelet looks at what is free, and then asks the plugin, which lists the pods: one that ends between the two has its
    ids no more by the API, and has them still by the kubelet's offer, which cannot be asked for again (kubernetes, device
    manager, ``devicesToAllocate``). Seen on real kubelets once in some hundred bursts, with pods that were deleted as they
    were admitted.
    """
    status = pod["status"]
    return status.get("phase") == "Failed" and _KEPT in status.get("message", "")


def is_running(pod: Mapping[str, Any]) -> bool:
    """Do all its containers run? So they do if it is not known whether they do."""
    statuses = pod["status"].get("containerStatuses") or []
    return (
        pod["status"].get("phase") in ("Running", "Unknown")
        and bool(statuses)
        and all(one.get("ready") for one in statuses)
    )


def leaves(pod: Mapping[str, Any]) -> bool:
    """Is it being deleted?"""
    return "deletionTimestamp" in pod["metadata"]


def all_run(pods: Sequence[Mapping[str, Any]]) -> bool:
    """Are there pods, of which each runs and stays?"""
    return bool(pods) and all(is_running(pod) and not leaves(pod) for pod in pods)


def unsettled(pods: Sequence[Mapping[str, Any]], expected: frozenset[str], sizes: Sizes) -> list[str]:
    """Pods that have a step before them: run if they are bound, be bound if a card has room, or be gone."""
    names = {pod["metadata"]["labels"][POD_LABEL] for pod in pods}
    findings = [f"{name}: is not there" for name in sorted(expected - names)]
    findings += [f"{pod['metadata']['name']}: is still there" for pod in pods if _should_be_gone(pod, expected)]
    booked = booked_in_api(pods)
    free = [
        sorted((units - booked.get((node, card), 0) for card, units in cards.items()), reverse=True)
        for node, cards in sizes.items()
    ]
    for pod in pods:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        if node and not (_has_ended(pod) if ENDS_LABEL in pod["metadata"]["labels"] else is_running(pod)):
            findings.append(f"{name}: bound to {node}, but {pod['status'].get('phase')}: {why(pod)}")
        elif not node and (room := [cards for cards in free if fits(pod, cards)]):
            findings.append(f"{name}: waits for {units_of(pod)} units, but the cards of a node have {room[0]}")
    return findings


def why(pod: Mapping[str, Any]) -> str:
    """The pod's status, of itself and of its containers."""
    status = pod["status"]
    texts = [status.get("message", "")]
    for one in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        for state, of in (one.get("state") or {}).items():
            if state != "running":
                texts.append(f"{one['name']} {state} {of.get('reason', '')} {of.get('message', '')}".strip())
    return "; ".join(text for text in texts if text)


def started_again(state: State, entry: Entry) -> Iterator[Finding]:
    """No container of a running pod ended and was started again: its card would be fuller than the book shows."""
    for pod in entry.pods if isinstance(entry, Listed) else ():
        if is_running(pod) and any(one.get("restartCount") for one in pod["status"].get("containerStatuses") or ()):
            yield Finding("started again", entry.at, why(pod), name_of(pod), pod["spec"]["nodeName"])


def held_memory(state: State, entry: Entry) -> Iterator[Finding]:
    """The processes on each card are those of the running pods that have it, or use it without a booking, to the MiB."""
    if not isinstance(entry, Cards):
        return
    expected: dict[int, int] = defaultdict(int)
    for pod in state.pods.values():
        if is_running(pod) and pod["spec"]["nodeName"] == entry.node:
            for index, mib in held_on(pod).items():
                expected[index] += mib
    for index in sorted(entry.cards.keys() | expected.keys()):
        held = entry.cards[index].held_mib if index in entry.cards else 0
        if held != expected[index]:
            text = f"processes hold {held} MiB, its pods {expected[index]}"
            yield Finding("held memory", entry.at, text, node=entry.node, card=index)


def book_is_whole(state: State, entry: Entry) -> Iterator[Finding]:
    """The extender's book has each card that a node has."""
    if isinstance(entry, Asked):
        shown = {node["name"]: {device["id"] for device in node["devs"] or ()} for node in entry.answer["nodes"] or ()}
        for node, cards in state.cards.items():
            for card in sorted(cards.keys() - shown.get(node, set())):
                yield Finding("book is whole", entry.at, "it is not in the extender's book", node=node, card=card)


def wrong_rows(
    table: str, pods: Sequence[Mapping[str, Any]], nodes: Sequence[Mapping[str, Any]], sizes: Sizes
) -> list[str]:
    """Each row of the table has the node's first internal address, and of each card as much in use as the API, and its size."""
    rows = {cells[0]: cells[1:] for line in table.splitlines() if len(cells := line.split()) > 2}
    booked, findings = booked_in_api(pods), list[str]()
    for node in nodes:
        name = node["metadata"]["name"]
        address = next(one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP")
        cards = [f"{booked.get((name, card), 0)}/{size}" for card, size in sorted(sizes[name].items())]
        if (shown := rows.get(name, [])[: len(cards) + 1]) != [address, *cards]:
            findings.append(f"{name}: its row in the table is {shown}, should be {[address, *cards]}")
    return findings


def wrong_node(
    node: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], cards: Mapping[int, Card], reasons: Mapping[int, str]
) -> list[str]:
    """The parts of a Node that are not those of its cards, of which some are unhealthy for ``reasons``, and of its pods.

    Of an unhealthy card the units, or slots, that its pods hold are offered. Slots mode takes slots away, and no memory.
    """
    name, found = node["metadata"]["name"], described(node)
    shown = {
        index: (card.uuid, card.units, card.healthy, card.reason)
        for index, card in (found.cards if found else {}).items()
    }
    due = {
        index: (card.uuid, card.units, index not in reasons, reasons.get(index, "")) for index, card in cards.items()
    }
    wrong = [f"{name} shows cards {shown}, should be {due}"] if shown != due else []
    units, slots = {index: card.units for index, card in cards.items()}, found.slots // len(cards) if found else 0
    held = (
        slots_taken(pods, name)
        if slots
        else {index: units for (on, index), units in booked_in_api(pods).items() if on == name}
    )
    amounts = {(spec.RESOURCE_COUNT, of): len(cards) for of in ("capacity", "allocatable")}
    amounts |= {(spec.RESOURCE_MEMORY, of): sum(units.values()) for of in ("capacity", "allocatable")}
    resource, whole = (spec.RESOURCE_SLOT, dict.fromkeys(cards, slots)) if slots else (spec.RESOURCE_MEMORY, units)
    amounts[resource, "allocatable"] = sum(held.get(one, 0) if one in reasons else whole[one] for one in cards)
    for (resource, of), number in amounts.items():
        if (there := amount(node, resource, of)) != number:
            wrong.append(f"{name} has {there} {resource} {of}, should be {number}")
    status = next(
        (one["status"] for one in node["status"].get("conditions") or () if one["type"] == spec.NODE_HEALTHY), "no"
    )
    if status != str(not reasons):
        wrong.append(f"{name} has {status} condition {spec.NODE_HEALTHY}, should be {not reasons}")
    if spec.NODE_RECOVERED in (node["metadata"].get("annotations") or {}):
        wrong.append(f"{name} has the annotation {spec.NODE_RECOVERED} yet")
    return wrong


def _has_ended(pod: Mapping[str, Any]) -> bool:
    """Has it ended in its planned phase, without a reason of the kubelet?"""
    status = pod["status"]
    return status.get("phase") == pod["metadata"]["labels"][ENDS_LABEL] and not status.get("reason")


def is_held(pod: Mapping[str, Any]) -> bool:
    """Has it ended, or never been bound, and does only the finalizer of another program keep its object?"""
    return leaves(pod) and not holds_a_node(pod) and bool(pod["metadata"].get("finalizers"))


def _should_be_gone(pod: Mapping[str, Any], expected: frozenset[str]) -> bool:
    return pod["metadata"]["labels"][POD_LABEL] not in expected


@dataclass(slots=True)
class Result:
    """The result of one burst."""

    seed: str
    pods: int = 0
    running: int = 0
    replaced: int = 0
    without_room: int = 0
    """Those of them that the plugin refused for want of room, after a kubelet's restart."""
    kept_out: int = 0
    """Pods that were replaced too: real kubelets did not offer them ids of pods that had ended."""
    repairs: int = 0
    other_sums: int = 0
    """Containers that were told another pod's sum, after a kubelet's restart."""
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)
    had: dict[str, int] = field(default_factory=dict)
    """How often something rare occurred in it."""

    def text(self) -> str:
        """One line, and a line for each finding."""
        line = (
            f"burst {self.seed}: {self.pods} pods, {self.running} run, "
            f"{self.replaced} replaced after a restart ({self.without_room} without room) or a refusal ({self.kept_out} kept out), "
            f"{self.repairs} repairs, {self.other_sums} told another pod's sum, {self.seconds:.1f} s"
        )
        return "\n".join([line, *(f"  {finding}" for finding in self.findings)])


def total(results: Sequence[Result]) -> str:
    """One line over all."""
    pods, running = sum(one.pods for one in results), sum(one.running for one in results)
    replaced, repairs = sum(one.replaced for one in results), sum(one.repairs for one in results)
    failed = sum(1 for one in results if one.findings)
    had = sum((Counter(one.had) for one in results), Counter[str]())
    rare = "".join(f", {count} {what.replace('_', ' ')}" for what, count in had.items())
    return (
        f"{pods} pods created, {running} ran in the end, {replaced} replaced after a restart "
        f"({sum(one.without_room for one in results)} without room) or a refusal "
        f"({sum(one.kept_out for one in results)} kept out), {repairs} repairs, "
        f"{sum(one.other_sums for one in results)} containers told another pod's sum, {failed} bursts with findings{rare}"
    )
