"""No card is booked beyond its units: by the annotations of pods, and by the variables of their containers. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from e2e import spec
from e2e.checkers import UnknownError
from e2e.checkers.history import Cards, Change, Entry, Finding, Listed, Object, State, Told, name_of
from e2e.checkers.pod_requests import gpu_containers, held_mib, slots_of, units_of
from e2e.site.node_cards import described

# The annotations by which a pod has its card, or its cards.
_CARDS: Final = (spec.POD_INDEX, spec.POD_ALLOCATION)
# On a pod that has ended by its phase: the boot that ended the containers which its status still shows.
_ENDED: Final = "ALIYUN_COM_GPU_MEM_ENDED"
SLOTS: Final = "slots"
_Several = dict[str, dict[int, Annotated[int, msgspec.Meta(ge=0)]]]
# Units of each card of each node, by the index that annotations use.
Sizes = Mapping[str, Mapping[int, int]]


def is_over(pod: Object) -> bool:
    """Has the pod ended?"""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def shows_running(pod: Object) -> bool:
    """Does the status show a running container?"""
    status = pod["status"]
    reported = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return any((one.get("state") or {}).get("running") is not None for one in reported)


def as_counted(pods: Iterable[Object], claims: Collection[str]) -> Iterator[Object]:
    """The pods as an extender that ``claims`` this counts them if it has always seen them as they are now.

    A pod that has ended by its phase and still runs counts as running until it is marked as ended. One without a card in its
    annotations has card -1, and one with the mark of a repair has both cards.
    """
    for pod in pods:
        annotations = pod["metadata"].get("annotations") or {}
        if is_over(pod) and "held-till-boot" in claims and shows_running(pod):
            pod = {**pod, "status": {"phase": pod["status"]["phase"] if _ENDED in annotations else "Running"}}
        if holds_a_node(pod) and gpu_containers(pod) and not shares_or_none(pod):
            own = {name: text for name, text in annotations.items() if name not in _CARDS} | {spec.POD_INDEX: "-1"}
            pod = {**pod, "metadata": {**pod["metadata"], "annotations": own}}
        elif "repair" in claims and is_marked(pod):
            both = {annotations[name]: units_of(pod) for name in (spec.POD_INDEX, spec.POD_REPAIR)}
            own = {**annotations, spec.POD_ALLOCATION: msgspec.json.encode({0: both}).decode(), spec.POD_REPAIR: ""}
            pod = {**pod, "metadata": {**pod["metadata"], "annotations": own}}
        yield pod


def is_marked(pod: Object) -> bool:
    """Is the pod on two cards until a repair is done?"""
    annotations = pod["metadata"].get("annotations") or {}
    return holds_a_node(pod) and spec.POD_INDEX in annotations and bool(annotations.get(spec.POD_REPAIR))


def booked_in_api(pods: Iterable[Object]) -> dict[tuple[str, int], int]:
    """Units that annotations of pods, bound and not ended, put on each (node, card), without those of ``unreadable``."""
    booked: dict[tuple[str, int], int] = defaultdict(int)
    for pod in pods:
        # A pod that asks for nothing holds nothing, whatever its author wrote.
        if holds_a_node(pod) and gpu_containers(pod):
            for index, units in (shares_or_none(pod) or {}).items():
                booked[pod["spec"]["nodeName"], index] += units
    return dict(booked)


def holds_a_node(pod: Object) -> bool:
    """Is the pod bound, and has it not ended?"""
    return bool(pod["spec"].get("nodeName")) and not is_over(pod)


def shares_of(pod: Object) -> dict[int, int]:
    """Units that a pod's annotations put on each card: all on one, or on several by the multi-card annotation.

    Raises ValueError for annotations that cannot be read.
    """
    annotations = pod["metadata"].get("annotations") or {}
    several = annotations.get(spec.POD_ALLOCATION)
    if several:
        shares: dict[int, int] = defaultdict(int)
        for cards in msgspec.json.decode(several, type=_Several).values():
            for card, units in cards.items():
                shares[card] += units
        return dict(shares)
    index = annotations.get(spec.POD_INDEX)
    return {} if index is None else {int(index): units_of(pod)}


def shares_or_none(pod: Object) -> dict[int, int] | None:
    """The units of a pod on each card, by its annotations; None if they cannot be read."""
    try:
        return shares_of(pod)
    except (ValueError, TypeError, RecursionError):
        return None


def held_on(pod: Object) -> dict[int, int]:
    """The MiB that its processes hold, by card: by its annotations, or for a pod without card memory as its author names one."""
    if gpu_containers(pod):
        return {next(iter(shares_or_none(pod) or {}), -1): held_mib(pod)}
    variables = (each for one in pod["spec"]["containers"] for each in one.get("env") or ())
    return {int(each["value"]): held_mib(pod) for each in variables if each["name"] == spec.ENV_VISIBLE}


def unreadable(state: State, entry: Entry) -> Iterator[Finding]:
    """The annotations of a bound pod that asks for card memory can be read."""
    for pod in _pods_of(entry):
        if holds_a_node(pod) and gpu_containers(pod) and shares_or_none(pod) is None:
            texts = {name: text for name, text in pod["metadata"]["annotations"].items() if name in _CARDS}
            yield Finding("unreadable", entry.at, f"its annotations name no card: {texts}", name_of(pod))


def over_booked(state: State, entry: Entry) -> Iterator[Finding]:
    """No card has more booked by the annotations of its pods than it has. Nodes whose cards are not known are not judged."""
    match entry:
        case Cards():
            nodes = {entry.node}
        case _:
            nodes = {pod["spec"].get("nodeName") for pod in _pods_of(entry)}
    if not nodes & state.cards.keys():
        return
    last = name_of(entry.item) if isinstance(entry, Change) else ""
    pods = [pod for pod in state.pods.values() if pod["spec"].get("nodeName") in nodes]
    for (node, index), units in sorted(booked_in_api(pods).items()):
        size = size_of(state, node, index)
        if node in state.cards and units > size:
            on_it = ", ".join(
                f"{name_of(pod)} {shares[index]}"
                for pod in pods
                if pod["spec"]["nodeName"] == node
                and holds_a_node(pod)
                and index in (shares := shares_or_none(pod) or {})
            )
            yield Finding("over-booked", entry.at, f"{units} are booked, it has {size}: {on_it}", last, node, index)


def over_slotted(state: State, entry: Entry) -> Iterator[Finding]:
    """No card of a node in slots mode has more containers than slots."""
    for name, node in state.nodes.items() if isinstance(entry, Listed) else ():
        if (cards := described(node)) is None or cards.mode != SLOTS:
            continue
        for index, count in sorted(slots_taken(state.pods.values(), name).items()):
            if count > (slots := cards.cards[index].slots if index in cards.cards else 0):
                yield Finding("over-slotted", entry.at, f"{count} containers, it has {slots} slots", "", name, index)


def slots_taken(pods: Iterable[Object], node: str) -> Counter[int]:
    """The slots that pods hold on each card of a node; a pod on several cards holds its own on each."""
    taken: Counter[int] = Counter()
    for pod in pods:
        if holds_a_node(pod) and pod["spec"]["nodeName"] == node:
            taken.update(dict.fromkeys(shares_or_none(pod) or {}, slots_of(pod)))
    return taken


def over_told(state: State, entry: Entry) -> Iterator[Finding]:
    """The variables of running containers name no more units of a card than it has."""
    pod = state.pods.get(entry.uid) if isinstance(entry, Told) else None
    node = pod["spec"].get("nodeName", "") if pod is not None else ""
    if pod is None or node not in state.cards:
        return
    told: dict[int, int] = defaultdict(int)
    for other in state.pods.values():
        if other["spec"].get("nodeName") == node and not is_over(other):
            for index, units in filter(None, map(share_of, _running(other, state))):
                told[index] += units
    for index, units in sorted(told.items()):
        if units > (size := size_of(state, node, index)):
            text = f"containers were told {units} units, it has {size}"
            yield Finding("over-told", entry.at, text, name_of(pod), node, index)


def sees_its_card(state: State, entry: Entry) -> Iterator[Finding]:
    """The variables of running containers name a card that they see, and an amount."""
    pod = state.pods.get(entry.uid) if isinstance(entry, Told) else None
    if pod is None:
        return
    name, node = name_of(pod), pod["spec"].get("nodeName", "")
    for given in _running(pod, state):
        shown = given.get(spec.ENV_VISIBLE)
        if (share := share_of(given)) is None:
            texts = {key: given.get(key) for key in (spec.ENV_INDEX, spec.ENV_CONTAINER_UNITS)}
            yield Finding("variables", entry.at, f"its variables name no card and amount: {texts}", name, node)
        elif node in state.cards and shown not in (uuid_of(state, node, share[0]), str(share[0])):
            yield Finding("variables", entry.at, f"card {share[0]}, but it sees {shown}", name, node)


def need_evidence(entries: Sequence[Entry], namespace: str) -> None:
    """Raises UnknownError unless a pod of the namespace is on a card of a known node in the end, and containers told variables."""
    state = State()
    for entry in entries:
        state.take(entry)
    pods = [pod for pod in state.pods.values() if pod["metadata"].get("namespace") == namespace]
    nodes = {node for node, _ in booked_in_api(pods)}
    if not nodes & state.cards.keys():
        raise UnknownError(f"no pod of {namespace} is bound to a card that is known: nothing to judge")
    if not any(state.told.values()):
        raise UnknownError(f"no container of {namespace} has told its variables: nothing to judge")


def _pods_of(entry: Entry) -> Sequence[Object]:
    match entry:
        case Listed():
            return entry.pods
        case Change(of="pods"):
            return [entry.item]
        case _:
            return ()


def _running(pod: Object, state: State) -> list[Mapping[str, str]]:
    """The variables of the pod's containers that run on: an init container has ended, and its units are another's."""
    told = state.told.get(pod["metadata"]["uid"], ())
    return [given for one, given in zip(gpu_containers(pod), told, strict=False) if one.kind != "init"]


def share_of(given: Mapping[str, str]) -> tuple[int, int] | None:
    """The card and the units that a container's variables name."""
    try:
        return int(given[spec.ENV_INDEX]), int(given[spec.ENV_CONTAINER_UNITS])
    except (KeyError, ValueError):
        return None


def size_of(state: State, node: str, index: int) -> int:
    """The units of a card, 0 for one that the node does not have."""
    card = state.cards.get(node, {}).get(index)
    return card.units if card else 0


def uuid_of(state: State, node: str, index: int) -> str | None:
    """The UUID of a card, None for one that the node does not have."""
    card = state.cards.get(node, {}).get(index)
    return card.uuid if card else None
