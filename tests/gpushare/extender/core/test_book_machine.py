"""The book and its audit against a naive model, under any order of events, some of which are lost."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpushare.errors import DoesNotFitError
from gpushare.extender.core.audit_round import Round, Suspect
from gpushare.extender.core.book import Book
from gpushare.manifests import ObjectMeta, Pod
from gpushare.model.placement import Question, choose
from gpushare.model.pod import Request
from tests.gpushare.extender.core.booked import booking, node, pod


class BookMachine(RuleBasedStateMachine):
    """Pods are born, assumed, bound, refused, ended; events come late, twice, or not at all until an audit.

    The model keeps for each pod the last state that the book got, and adds it all up from scratch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.book = Book()
        self.cards = {"n": [14, 14], "m": [10]}
        self.book.set_node(node("n", 28, 2))
        self.book.set_node(node("m", 10, 1))
        self.numbers = itertools.count()
        self.units: dict[str, int] = {}
        self.api: dict[str, tuple[str, int] | None] = {}
        self.shown: dict[str, tuple[str, int]] = {}
        self.assumed: dict[tuple[str, str], int] = {}
        self.ended: set[str] = set()
        # Bound by another extender, which no event has shown yet.
        self.unseen: set[str] = set()
        self.audit: Round | None = None
        self.suspects: list[Suspect] = []
        self.listed: dict[str, tuple[str, int] | None] = {}

    def pick(self, choice: int, uids: list[str]) -> str:
        return uids[choice % len(uids)]

    @rule(units=st.integers(1, 15))
    def born(self, units: int) -> None:
        uid = f"u{next(self.numbers)}"
        self.units[uid] = units
        self.api[uid] = None
        self.book.set_pod(pod(uid, units))

    @precondition(lambda self: self.api)
    @rule(choice=st.integers(0, 99), where=st.sampled_from(["n", "m"]))
    def assume(self, choice: int, where: str) -> None:
        """As bind does before its request: only a pod that fits is assumed."""
        uid = self.pick(choice, list(self.api))
        info = self.book.snapshot().nodes.get(where)
        if info is None or self.api[uid] is not None or (uid, where) in self.assumed or uid in self.shown:
            return
        try:
            ((index, _),) = choose(info, Question(Request(self.units[uid])))
        except DoesNotFitError:
            return
        self.book.assume(where, booking(uid, self.units[uid], index))
        self.assumed[uid, where] = index

    @precondition(lambda self: self.assumed)
    @rule(choice=st.integers(0, 99), event=st.booleans())
    def bound(self, choice: int, event: bool) -> None:
        """The API took the bind; the event comes now or later."""
        uid, where = list(self.assumed)[choice % len(self.assumed)]
        if self.api.get(uid, ("", 0)) is None:
            self.api[uid] = (where, self.assumed[uid, where])
        if event:
            self.show(uid)

    @precondition(lambda self: self.assumed)
    @rule(choice=st.integers(0, 99))
    def refused(self, choice: int) -> None:
        uid, where = list(self.assumed)[choice % len(self.assumed)]
        if self.api.get(uid) is None or self.api[uid] != (where, self.assumed[uid, where]):
            self.book.forget(uid, where)
            del self.assumed[uid, where]

    @precondition(lambda self: self.api)
    @rule(choice=st.integers(0, 99))
    def event(self, choice: int) -> None:
        """A late or repeated event."""
        self.show(self.pick(choice, list(self.api)))

    @precondition(lambda self: self.shown)
    @rule(choice=st.integers(0, 99), card=st.sampled_from([None, "", "x", 0, 1, 2]), starts=st.booleans())
    def its_author_writes(self, choice: int, card: object, starts: bool) -> None:
        """Another card, none or nonsense, after the bind: nothing of the book changes, for the watch shows no repair."""
        uid = self.pick(choice, list(self.shown))
        place = self.shown[uid]
        if starts:
            self.book.set_pod(pod(uid, self.units[uid], on=place[0], card=place[1], phase="Running"), has_gap=False)
        self.book.set_pod(pod(uid, self.units[uid], on=place[0], card=card), has_gap=False)

    @precondition(lambda self: self.api)
    @rule(choice=st.integers(0, 99), where=st.sampled_from(["n", "m"]))
    def another_binds(self, choice: int, where: str) -> None:
        """Another extender binds a pod, and its event comes later or is lost."""
        uid = self.pick(choice, list(self.api))
        if self.api[uid] is None and all(uid != one for one, _ in self.assumed):
            self.api[uid] = (where, 0)
            self.unseen.add(uid)

    @precondition(lambda self: self.api)
    @rule(choice=st.integers(0, 99))
    def end_is_lost(self, choice: int) -> None:
        """The watch does not report the end of a pod that is bound and known; the next audit finds it."""
        uid = self.pick(choice, list(self.api))
        if uid in self.shown:
            del self.api[uid]

    @rule()
    def an_audit_lists(self) -> None:
        """All nodes and pods as they are now; what differs becomes suspect."""
        self.audit = Round(self.book, lambda namespace, name, uid: any(uid == one for one, _ in self.assumed))
        for name, cards in self.cards.items():
            self.audit.see_node(node(name, sum(cards), len(cards)))
        for uid, place in self.api.items():
            self.audit.see_pod(self.seen(uid, place))
        self.listed, self.suspects = dict(self.api), self.audit.end()

    @precondition(lambda self: self.audit)
    @rule()
    def an_audit_settles(self) -> None:
        """Nothing that had an event since the list; what is corrected is as the list has it."""
        assert self.audit is not None
        for suspect in self.suspects:
            found = self.audit.settle(suspect)
            if found is None or not found.namespace:
                continue
            assert found.uid not in self.ended, "went back to what the book knew to be over"
            self.shown.pop(found.uid, None)
            self.unseen.discard(found.uid)
            if found.uid not in self.listed:
                self.ended.add(found.uid)
            elif (place := self.listed[found.uid]) is not None:
                self.shown[found.uid] = place
        self.audit = self.book.touched = None
        self.suspects = []

    @precondition(lambda self: self.api)
    @rule(choice=st.integers(0, 99), finished=st.booleans(), stale=st.booleans())
    def end(self, choice: int, finished: bool, stale: bool) -> None:
        """A pod finishes or is deleted; an older event may follow."""
        uid = self.pick(choice, list(self.api))
        place = self.api.pop(uid)
        if place is not None and finished:
            self.book.set_pod(pod(uid, self.units[uid], on=place[0], card=place[1], phase="Succeeded"))
        else:
            self.book.remove_pod(ObjectMeta(name=uid, namespace="default", uid=uid))
        self.ended.add(uid)
        self.shown.pop(uid, None)
        self.assumed = {key: card for key, card in self.assumed.items() if key[0] != uid}
        if stale and place is not None:
            self.book.set_pod(pod(uid, self.units[uid], on=place[0], card=place[1]))

    @rule(gone=st.booleans())
    def node_changes(self, gone: bool) -> None:
        """A Node object goes, or comes with other cards."""
        if gone:
            self.book.remove_node("m")
            self.cards.pop("m", None)
        else:
            self.cards["m"] = [9, 9]
            self.book.set_node(node("m", 18, 2))

    def seen(self, uid: str, place: tuple[str, int] | None) -> Pod:
        """The pod as the API shows it."""
        on, card = place or (None, None)
        return pod(uid, self.units[uid], on=on, card=card)

    def show(self, uid: str) -> None:
        place = self.api[uid]
        self.unseen.discard(uid)
        self.book.set_pod(self.seen(uid, place))
        if place is None:
            return
        self.shown[uid] = place
        self.assumed = {key: card for key, card in self.assumed.items() if key[0] != uid}

    @invariant()
    def agrees_with_the_naive_sum(self) -> None:
        for name, cards in self.cards.items():
            expected = [0] * len(cards)
            places = [
                *((uid, place) for uid, place in self.shown.items()),
                *((uid, (where, card)) for (uid, where), card in self.assumed.items()),
            ]
            for uid, (where, card) in places:
                if where == name and card < len(cards):
                    expected[card] += self.units[uid]

            assert [device.used for device in self.book.snapshot().nodes[name].devices] == expected

    @invariant()
    def nothing_that_is_bound_is_free(self) -> None:
        """Safety: a card's book is never below what the API binds to it."""
        for name, cards in self.cards.items():
            for card, _ in enumerate(cards):
                seen = {uid: place for uid, place in self.api.items() if uid not in self.unseen}
                bound = sum(self.units[uid] for uid, place in seen.items() if place == (name, card))

                assert self.book.snapshot().nodes[name].devices[card].used >= bound


BookMachine.TestCase.settings = settings(max_examples=3 * settings().max_examples // 2, stateful_step_count=40)


test_the_book_agrees_with_a_naive_model = BookMachine.TestCase
