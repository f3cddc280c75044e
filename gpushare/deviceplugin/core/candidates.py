"""Which container a kubelet's call is for, because Allocate does not name it. Pure.

A kubelet admits one pod at a time, in the order of ``node_pods``, and asks container by container: ordinary init
containers and sidecars first, then the containers (measured on 1.36, see *What a real kubelet does with a device plugin* in
``e2e/README.md``). So the next call belongs to the pod that was answered last, if it is half done, else to the first in that
order that waits. Pods that the kubelet turned away for another reason are passed over when the amount does not match. The order
is a hint: the kubelet's records show after each call which pod it was for, and the owner is verified before the container starts.

The last guard is asked before each answer, over what containers hold by the kubelet's records, not over what is written on
pods: if a card is over-booked in the API, no container gets onto it without room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpushare.deviceplugin.core.holdings import Holdings, used_units
from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.errors import NoCandidateError
from gpushare.model.allocation import Allocation
from gpushare.model.cards import CardFacts
from gpushare.model.pod import is_deleting

# Card index and units of it; nearly always one pair.
Cards = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A container that waits for its ids: of which pod, how many units, and of which cards.

    ``is_begun``: other containers of its pod have theirs. ``goes_on``: one of them was answered last, so the next call is its.
    ``is_counted``: its pod's units count as held already.
    """

    uid: str
    namespace: str
    pod: str
    container: str
    units: int
    pod_units: int
    cards: Cards
    is_begun: bool = False
    goes_on: bool = False
    is_counted: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """The choice in a call: how many ids it wants, and by card index the ids that may and that must be among them.

    ``room`` are the units that are physically left on each card, apart from the ids offered. ``counts_slots``: an id is
    a container, not a unit. ``must_pod`` is the only pod that it can be for (its init container's ids are reused).
    """

    size: int
    free: Counter[int]
    room: Counter[int]
    must: Counter[int] = field(default_factory=Counter)
    counts_slots: bool = False
    must_pod: str = ""


def candidates(
    pods: Iterable[KeptPod],
    granted: Mapping[str, Collection[str]],
    aims: Mapping[str, int],
    latest: str = "",
    admitted: Collection[str] = (),
) -> list[Candidate]:
    """The next container of each pod that is not fully granted, most likely first.

    ``pods`` are the node's, in the order of their admission; ``granted`` names by uid the containers that have their ids,
    ``latest`` the pod that was answered last, ``admitted`` those that the kubelet's records have ever named. ``aims`` has by
    uid the card for pods of one card, if that is not the annotated one.
    A pod that no valid annotation puts on a card is no candidate. One that is being deleted is: a
    kubelet of 1.22 or newer admits every pod that it has seen and that has not ended (measured on 1.36.3), and asks for
    all its containers; but only once, and then takes their ids back. A pod that was started and has no
    ids comes last: the kubelet lost its checkpoint, and asks for it again. A pod that is half done and was not answered last
    keeps its place: its kubelet was ended, or gave it up.
    """
    waiting: list[Candidate] = []
    for pod in pods:
        done = granted.get(pod.metadata.uid, ())
        goes_on = pod.metadata.uid == latest and _goes_on(pod, done)
        if is_deleting(pod) and not goes_on and (done or pod.metadata.uid in admitted):
            continue
        candidate = _next_of(pod, done, aims.get(pod.metadata.uid), goes_on=goes_on)
        if candidate is not None:
            waiting.append(candidate)
    return sorted(waiting, key=lambda candidate: (candidate.is_counted, not candidate.goes_on))


def _next_of(pod: KeptPod, done: Collection[str], aim: int | None, *, goes_on: bool) -> Candidate | None:
    waiting = [(name, units) for name, units in pod.gpu_containers if name not in done]
    is_served = pod.was_started and not goes_on and (done or is_deleting(pod))
    if is_served or pod.allocation is None or not waiting:
        return None
    name, units = waiting[0]
    metadata = pod.metadata
    return Candidate(
        metadata.uid,
        metadata.namespace,
        metadata.name,
        name,
        units,
        pod.units,
        container_cards(pod, pod.allocation, name, units, aim),
        is_begun=bool(done),
        goes_on=goes_on,
        is_counted=pod.was_started and not done,
    )


def _goes_on(pod: KeptPod, done: Collection[str]) -> bool:
    """Are the containers that have their ids the first ones? Else it was all answered, and the kubelet took some back."""
    has_ids = [name in done for name, _ in pod.gpu_containers]
    return has_ids[:1] == [True] and has_ids == sorted(has_ids, reverse=True)


def container_cards(pod: KeptPod, allocation: Allocation, name: str, units: int, aim: int | None = None) -> Cards:
    """The cards of one container: by the multi-card annotation, else the pod's one card.

    That annotation knows the containers only, each with the amount that it asks for (``model.allocation``); an init container gets
    its units of the pod's cards in their order, as far as each goes, and none if they do not suffice.
    """
    if allocation.by_container is None:
        return ((allocation.index if aim is None else aim, units),)
    names = [container.name for container in pod.spec.containers or ()]
    if name in names:
        return tuple(share for share in allocation.by_container.get(names.index(name), ()) if share[1])
    cards: list[tuple[int, int]] = []
    for index, amount in allocation.shares:
        taken = min(amount, units - sum(given for _, given in cards))
        if taken:
            cards.append((index, taken))
    return tuple(cards) if sum(given for _, given in cards) == units else ()


def ids_by_card(candidate: Candidate, counts_slots: bool) -> Counter[int]:
    """How many ids of each card the container needs; none if slots are counted and it has several cards."""
    if not counts_slots:
        return Counter(dict(candidate.cards))
    return Counter(index for index, _ in candidate.cards) if len(candidate.cards) == 1 else Counter()


def match(
    waiting: Sequence[Candidate], offer: Offer, elsewhere: Callable[[Candidate], Iterable[int]] = lambda candidate: ()
) -> Candidate:
    """The candidate for a call. Raises NoCandidateError, which names the pods that wait.

    It is the first with a call that would look like this. If its card has no room for its pod (another pod, which was taken for it
    or came without the extender, has the ids), it gets another of the cards that ``elsewhere`` allows; only if there is none
    may the call be for another pod. A pod that is half done cannot go elsewhere; and if it was answered last, the call
    cannot be for another pod.
    """
    likely = [candidate for candidate in waiting if is_of_size(candidate, offer)]
    for candidate in likely:
        if _holds_pod(candidate, offer):
            return candidate
        if candidate.goes_on:
            raise NoCandidateError(_why_no_candidate([candidate], offer))
        for index in elsewhere(candidate) if not (offer.must or candidate.is_begun) else ():
            moved = replace(candidate, cards=((index, candidate.units),))
            if _holds_pod(moved, offer):
                return moved
    for candidate in likely:
        if fits(candidate, offer):
            return candidate
    raise NoCandidateError(_why_no_candidate(waiting, offer))


def _holds_pod(candidate: Candidate, offer: Offer) -> bool:
    """Does it fit, and with it all containers of a pod that begins on one card?"""
    if len(candidate.cards) != 1 or candidate.is_begun or candidate.is_counted:
        return fits(candidate, offer)
    index, _ = candidate.cards[0]
    whole = offer.counts_slots or min(offer.free[index], offer.room[index]) >= candidate.pod_units
    return whole and fits(candidate, offer)


def is_of_size(candidate: Candidate, offer: Offer) -> bool:
    """Would this container's call look like this?"""
    wanted = ids_by_card(candidate, offer.counts_slots)
    return sum(wanted.values()) == offer.size and offer.must_pod in ("", candidate.uid)


def fits(candidate: Candidate, offer: Offer) -> bool:
    """Are there the ids on its cards, all that must be taken among them, and the room?"""
    wanted = ids_by_card(candidate, offer.counts_slots)
    return all(
        offer.free[index] >= count and offer.room[index] >= units_of(candidate, index, offer.counts_slots)
        for index, count in wanted.items()
    ) and all(count <= wanted[index] for index, count in offer.must.items())


def units_of(candidate: Candidate, index: int, counts_slots: bool) -> int:
    """Units of a card that a container newly takes: if slots are counted those of its pod, with the first of its containers."""
    if candidate.is_counted or (counts_slots and candidate.is_begun):
        return 0
    return candidate.pod_units if counts_slots else dict(candidate.cards)[index]


def _why_no_candidate(waiting: Sequence[Candidate], offer: Offer) -> str:
    """Names no pod: the kubelet shows the text with the pod that it asked for, which may be of another namespace."""
    same = [candidate for candidate in waiting if is_of_size(candidate, offer)]
    if not same:
        what = "a slot" if offer.counts_slots else f"{offer.size} units"
        return f"no pod bound to this node with a card waits for {what} (waiting for other amounts: {len(waiting)})"
    # A pod that waits for the kubelet alone is a better reason than the first pod.
    first = next((one for one in same if _kept_for_ended(one, offer)), same[0])
    wanted = ids_by_card(first, offer.counts_slots)
    wrong = [index for index in offer.must if index not in wanted]
    if wrong:
        return f"the kubelet chose ids of card {wrong[0]}, but the pod that waits has card {min(wanted)}"
    for index, count in wanted.items():
        units = units_of(first, index, offer.counts_slots)
        if offer.free[index] < count and offer.counts_slots:
            return f"card {index} has no slot left for the next container of the pod that waits"
        left = offer.room[index]
        if not offer.counts_slots:
            left = min(left, offer.free[index])
        if left < units:
            text = f"card {index} has {left} units left for the {units} of the pod that waits"
            kept = _kept_for_ended(first, offer).get(index)
            return f"{text}: the kubelet keeps {kept} for pods that have ended" if kept else text
    return "the kubelet reuses more ids of a card than the next container of the pod that waits gets"


def _kept_for_ended(candidate: Candidate, offer: Offer) -> dict[int, int]:
    """Units that no pod has any more and the kubelet does not offer yet, of cards that would have room with them.

    A kubelet that has started takes no ids back before it has admitted the pods that it found.
    """
    if offer.counts_slots:
        return {}
    return {
        index: offer.room[index] - offer.free[index]
        for index, count in candidate.cards
        if offer.free[index] < count <= offer.room[index]
    }


def room(
    holdings: Holdings,
    pods: Iterable[KeptPod],
    cards: Sequence[CardFacts],
    *,
    counts_slots: bool,
    besides: Collection[str] = (),
) -> Counter[int]:
    """Units left on each card, by index, without the ids ``besides``; an unhealthy card has none, nor has one overfull."""
    used = used_units(holdings, pods, counts_slots=counts_slots, besides=besides)
    return Counter({card.index: max(card.units - used[card.index], 0) for card in cards if card.healthy})


def last_guard(
    candidate: Candidate,
    ids: Collection[str],
    holdings: Holdings,
    pods: Iterable[KeptPod],
    cards: Sequence[CardFacts],
    *,
    counts_slots: bool,
    refusal: str = "",
) -> None:
    """Let a container have these ids. Raises NoCandidateError with the reason against it.

    ``refusal`` is why no container may have more of any card. The reason names no pod: the candidate may be taken for another one,
    with which the kubelet then shows the text.
    """
    by_index = {card.index: card for card in cards}
    left = room(holdings, pods, cards, counts_slots=counts_slots, besides=ids)
    for index, _ in candidate.cards:
        card = by_index.get(index)
        if card is None:
            raise NoCandidateError(f"the pod has card {index}, which this node does not have (any more)")
        if not card.healthy:
            raise NoCandidateError(f"card {index} of the pod is unhealthy: {card.reason or 'no reason given'}")
        units = units_of(candidate, index, counts_slots)
        if units and refusal:
            raise NoCandidateError(refusal)
        if left[index] < units:
            raise NoCandidateError(f"card {index} has {left[index]} units left for the {units} of the pod")
    twice = holdings.taken_besides(candidate.uid).intersection(ids)
    if twice:
        raise NoCandidateError(f"the kubelet offered the id {min(twice)}, which another container has")
