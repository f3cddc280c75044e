"""The writes after which every annotation names the card that its pod's containers have. Pure.

If the kubelet gave a pod ids of another card than its annotation names, the ids stay and the annotation follows:
the ids of a container cannot be changed, annotations can. Each write changes one pod's pair (index, mark), and the
next write is found from what is there, so that any process can go on wherever another one was killed. A marked pod is
booked on both cards by every reader, so at no moment is less booked on a card than its containers hold.

The states of a pod, and what each means::

    index  mark  ids lie on
    x      -     x or nothing   as it should be
    x      -     y              guessed wrong: 1. mark it with y
    x      y     y              2. once y has room: write index y and, in the same write, mark x
    y      x     y              3. once no pod needs the room that it keeps on x: take the mark away. It may start already
    y      -     nothing        bound to y, but its room there is another's now, which has the ids: 1. mark it with x,
                                if that one leaves room
    y      x     nothing        2. once the other is written on y: write index x and, in the same write, no mark;
                                if no pod needs it to leave, take the mark away
    x      -     nothing yet    was answered ids of y (the kubelet's records do not name their container yet): mark it
                                with y, and leave the mark until they do

Room. An extender may have decided on a bind before it saw our marks. So a pod goes to a card immediately only if the card
holds no more afterwards than was booked there all along: pods that change places, in pairs or in a ring, and equal
requests. Else its mark must have stood until such binds have landed, and the card must have the units. One case is left: if
several exchanges overlap, or a pod is answered on free room elsewhere, a bind decided in between may still find its card
too full. The last guard (``candidates.last_guard``) then refuses that pod; no card ever holds too much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class PodCard:
    """A pod that is booked on one card: the card that is written, the one where its ids lie (None: it has none yet).

    ``may_move`` is False if the index may not be changed: bound by an extender whose book would not follow, a wish
    of the pod for a card, repairs switched off. ``answered`` is the card of ids that were given for it and that
    the kubelet's records do not name yet: perhaps they are another pod's, so it is marked with that card, and not written there.
    """

    uid: str
    units: int
    index: int
    ids_on: int | None
    mark: int | None = None
    may_move: bool = True
    answered: int | None = None

    @property
    def is_misplaced(self) -> bool:
        """Do its ids lie on another card than its annotation names?"""
        return self.ids_on is not None and self.ids_on != self.index

    @property
    def cards(self) -> frozenset[int]:
        """The cards on which no other pod may have its units."""
        return frozenset(card for card in (self.index, self.mark, self.ids_on) if card is not None)


@dataclass(frozen=True, slots=True)
class Step:
    """One write: the pod's index and mark after it; ``moves``: the index is another than before."""

    uid: str
    index: int
    mark: int | None
    moves: bool = False


def next_step(
    pods: Sequence[PodCard], open_units: Mapping[int, int], settled: Collection[str], untouchable: Collection[str] = ()
) -> Step | None:
    """The next write, or None if nothing can be done (now).

    ``pods`` are all that are booked on one card of the node, in a fixed order; ``open_units`` are those of each healthy card that
    are open to them; ``settled`` are pods whose mark has stood for long enough that no bind decided before it is under way;
    ``untouchable`` are pods that may not move, and keep their marks too.
    """
    return next((step for step in _steps(pods, Plan(pods, open_units), settled) if step.uid not in untouchable), None)


def aims(pods: Sequence[PodCard], open_units: Mapping[int, int]) -> Mapping[str, int]:
    """The card that each pod will be written on in the end."""
    return Plan(pods, open_units).aim


def has_room(pod: PodCard, pods: Sequence[PodCard], open_units: Mapping[int, int]) -> bool:
    """Would the card of a misplaced pod's ids have room for it, once all that is planned is done?"""
    plan = Plan(pods, open_units)
    card = plan.aim[pod.uid]
    return card == pod.ids_on and plan.load[card] <= max(plan.open_units[card], plan.kept[card])


def cards_for(uid: str, pods: Sequence[PodCard], open_units: Mapping[int, int]) -> list[int]:
    """Cards that a pod which has no ids yet, and may move, could have instead of its own: all annotations could follow.

    First those where they could immediately, the fuller ones first.
    """
    found = []
    for card in open_units:
        there = [replace(pod, ids_on=card) if pod.uid == uid else pod for pod in pods]
        plan = Plan(there, open_units)
        others_can = all(load <= max(plan.open_units[one], plan.kept[one]) for one, load in plan.load.items())
        if others_can and plan.load[card] <= open_units[card]:
            found.append((plan.load[card] > plan.kept[card], open_units[card] - plan.load[card], card))
    return [card for *_, card in sorted(found)]


def _steps(pods: Sequence[PodCard], plan: Plan, settled: Collection[str]) -> Iterator[Step]:
    moving = [pod for pod in pods if plan.aim[pod.uid] != pod.index]
    for pod in sorted(moving, key=lambda pod: pod.ids_on is None):
        if pod.mark != plan.aim[pod.uid]:
            yield Step(pod.uid, pod.index, plan.aim[pod.uid])
    for pod in pods:
        if pod.may_move and pod not in moving and pod.answered not in (None, pod.index, pod.mark):
            yield Step(pod.uid, pod.index, pod.answered)
    yield from _moves(moving, plan, settled)
    for pod in pods:
        if pod.mark is not None and _is_done(pod, moving, plan):
            yield Step(pod.uid, pod.index, None)


def _moves(moving: Sequence[PodCard], plan: Plan, settled: Collection[str]) -> Iterator[Step]:
    """A pod that has ids on a card comes before one that leaves it: its mark then keeps the new room of the other."""
    coming = {plan.aim[pod.uid] for pod in moving if pod.ids_on is not None}
    for pod in moving:
        if pod.ids_on is not None and _may_go(pod, moving, plan, settled):
            yield Step(pod.uid, plan.aim[pod.uid], pod.index, moves=True)
    for pod in moving:
        if pod.ids_on is None and pod.index not in coming and _may_go(pod, moving, plan, settled):
            yield Step(pod.uid, plan.aim[pod.uid], None, moves=True)


def _may_go(pod: PodCard, moving: Sequence[PodCard], plan: Plan, settled: Collection[str]) -> bool:
    card = plan.aim[pod.uid]
    if plan.load[card] <= plan.kept[card]:
        return True
    together = (other for other in moving if plan.aim[other.uid] == card)
    return plan.load[card] <= plan.open_units[card] and all(other.uid in settled for other in together)


def _is_done(pod: PodCard, moving: Sequence[PodCard], plan: Plan) -> bool:
    """Is the mark of a pod without use: it is where it should be, and no pod counts on the room that it keeps?"""
    if plan.aim[pod.uid] != pod.index or pod.is_misplaced:
        return False
    if pod.ids_on is None:
        return pod.mark != pod.answered
    return not any(plan.aim[other.uid] == pod.mark or other.index == pod.index for other in moving)


class Plan:
    """The card of each pod in the end: pods with ids where these lie, the others where there is room.

    ``load`` are the units of each card then; ``kept`` are the units that were booked on it all along: of pods that are
    written there, and of pods that came from there and still keep them.
    """

    def __init__(self, pods: Sequence[PodCard], open_units: Mapping[int, int]) -> None:
        self.open_units = Counter(open_units)
        self.kept: Counter[int] = Counter()
        for pod in pods:
            self.kept[pod.index] += pod.units
            if pod.ids_on == pod.index and pod.mark is not None:
                self.kept[pod.mark] += pod.units
        self.pods = pods = [replace(pod, may_move=pod.may_move and self._can_come(pod)) for pod in pods]
        self.aim = {pod.uid: pod.ids_on if pod.ids_on is not None and pod.may_move else pod.index for pod in pods}
        self.load: Counter[int] = Counter()
        for pod in pods:
            self.load[self.aim[pod.uid]] += pod.units
            if pod.is_misplaced and not pod.may_move and pod.ids_on is not None:
                # It holds the one and is written on the other, for as long as it lives.
                self.load[pod.ids_on] += pod.units
        self._go_on()
        cards = sorted({pod.ids_on for pod in pods if pod.is_misplaced and pod.may_move and pod.ids_on is not None})
        was_there = {card: min(self.kept[card], size) for card, size in open_units.items()}
        # First the moves that need no free room, as the units were booked there all along.
        for card in cards:
            self._make_room(card, allowed=self.kept, room=was_there)
        # Then those into free room, also from cards onto which a pod has come for which another had to leave, while a third one has
        # the new room of that.
        for card in sorted({*cards, *(pod.index for pod in pods if pod.mark is not None)}):
            self._make_room(card, allowed=self.open_units, room=self.open_units)

    def _can_come(self, pod: PodCard) -> bool:
        """Can the card of its ids hold it? A kubelet that counts slots gives a pod some of a card that is too small for it."""
        card = pod.ids_on
        if card is None or card not in self.open_units:
            return True
        return pod.units <= max(self.open_units[card], self.kept[card])

    def _go_on(self) -> None:
        """A pod that was about to leave a card, on which another one is written already, leaves it."""
        come = {pod.index for pod in self.pods if pod.ids_on == pod.index and pod.mark is not None}
        for pod in self._waiting():
            if pod.mark is None or pod.index not in come or pod.answered not in (None, pod.mark):
                continue
            if self.load[pod.mark] + pod.units <= self.open_units[pod.mark]:
                self._send(pod, pod.mark)

    def _make_room(self, card: int, *, allowed: Counter[int], room: Mapping[int, int]) -> None:
        """Send waiting pods away from ``card`` until it has no more than ``allowed``, to cards that have ``room``."""
        while (excess := self.load[card] - allowed[card]) > 0:
            choices = [
                (pod.mark != other, pod.units < excess, abs(pod.units - excess), number, other, pod)
                for number, pod in enumerate(self._waiting())
                for other in sorted(room)
                if pod.index == card
                and other != card
                and self.load[other] + pod.units <= room[other]
                and pod.answered in (None, other)
            ]
            if not choices:
                return
            *_, other, pod = min(choices)
            self._send(pod, other)

    def _waiting(self) -> list[PodCard]:
        """Pods without ids that may be written elsewhere, and are not sent away yet."""
        return [pod for pod in self.pods if pod.ids_on is None and pod.may_move and self.aim[pod.uid] == pod.index]

    def _send(self, pod: PodCard, card: int) -> None:
        self.load[self.aim[pod.uid]] -= pod.units
        self.load[card] += pod.units
        self.aim[pod.uid] = card
