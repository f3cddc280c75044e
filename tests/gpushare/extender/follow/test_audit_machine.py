"""The book, what it hears, and its audit, against a naive model of all three.

An API server as plain data writes its history; a watch reports it to the book in order, twice, late, out of order, or not at all;
binds of ours and of other extenders come between. An audit walks through it step by step, so that everything may happen between its
list and its corrections. The model holds the last state that the book got, in plain tuples.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpushare.extender.core.audit_round import Difference, Round, Suspect
from gpushare.extender.core.book import Book
from gpushare.extender.follow.audit import Drift, tally
from gpushare.manifests import Node, Pod
from gpushare.model.cards import CardFacts, NodeCards, encode_cards
from gpushare.model.node import Booking

MEMORY, COUNT, INDEX = "aliyun.com/gpu-mem", "aliyun.com/gpu-count", "ALIYUN_COM_GPU_MEM_IDX"
NAMES, NODES = ("a", "b", "c", "d"), ("n", "m")
CARDS = st.lists(st.sampled_from([8, 12]), min_size=1, max_size=3).map(tuple)
CHOICE = st.integers(0, 99)


@dataclass(frozen=True)
class P:
    """A pod of the API at one version; on a card if it is on a node."""

    name: str
    uid: str
    units: int
    version: int
    node: str = ""
    card: int = 0
    is_ending: bool = False
    is_finished: bool = False

    @property
    def place(self) -> tuple[str, int, int, bool] | None:
        """Its booking: node, card, units; and whether it is ending."""
        held = self.node and not self.is_finished
        return (self.node, self.card, self.units, self.is_ending) if held else None


@dataclass(frozen=True)
class N:
    """A node of the API at one version."""

    name: str
    cards: tuple[int, ...]
    version: int


@dataclass(frozen=True)
class Gone:
    """The end of a pod or node, as a watch reports it."""

    last: P | N
    version: int


def pod_of(p: P) -> Pod:
    """As the API shows it."""
    metadata = {"name": p.name, "namespace": "d", "uid": p.uid, "resourceVersion": str(p.version)}
    metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z" if p.is_ending else None  # type: ignore[assignment]
    metadata["annotations"] = {INDEX: str(p.card)} if p.node else None  # type: ignore[assignment]
    spec = {"nodeName": p.node or None, "containers": [{"name": "c", "resources": {"limits": {MEMORY: str(p.units)}}}]}
    status = {"phase": "Succeeded" if p.is_finished else "Running"}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def node_of(n: N) -> Node:
    """As the API shows it: with its plugin's description of the cards."""
    cards = tuple(CardFacts(index, f"GPU-{index}", "m", units, units) for index, units in enumerate(n.cards))
    annotation = encode_cards(NodeCards(1, "ids", "MiB", "", cards))
    metadata = {
        "name": n.name,
        "resourceVersion": str(n.version),
        "annotations": {"aliyun.com/gpushare-cards": annotation},
    }
    status: dict[str, Any] = {"capacity": {MEMORY: str(sum(n.cards)), COUNT: str(len(n.cards))}}
    return msgspec.convert({"metadata": metadata, "status": status}, Node)


class Model:
    """The expected book: the last state of each, nothing derived."""

    def __init__(self) -> None:
        self.places: dict[str, tuple[str, int, int, bool]] = {}
        self.assumed: dict[tuple[str, str], tuple[int, int]] = {}
        self.pending: dict[str, tuple[str, int]] = {}
        self.ended: set[str] = set()
        self.nodes: dict[str, tuple[int, ...]] = {}
        # By uid: the node and card that a running pod was first seen on, and the newest version in the book since then.
        self.bound: dict[str, tuple[str, int]] = {}
        self.seen: dict[str, int] = {}

    def hear(self, word: P | N | Gone) -> None:
        """A word of the watch, of a list, or of an answer."""
        if isinstance(word, Gone):
            if isinstance(word.last, N):
                self.nodes.pop(word.last.name, None)
            else:
                self._leave(word.last.name, word.last.uid)
                self.end(word.last.uid)
        elif isinstance(word, N):
            self.nodes[word.name] = word.cards
        elif word.uid not in self.ended:
            self._hear_pod(word)

    def correct(self, word: P) -> None:
        """The one word that counts more than the end."""
        bound = self.bound.get(word.uid) if word.node else None
        self.end(word.uid)
        self.ended.discard(word.uid)
        if bound is not None:
            self.bound[word.uid] = bound
        self._hear_pod(word)

    def wanted(self, p: P) -> tuple[str, int, int, bool] | None:
        """The cards that it holds: its author may name another card while it runs, and it stays on the one of its bind."""
        if p.place is None:
            return None
        node, card = self.bound.get(p.uid, ("", 0))
        return (p.node, card if node == p.node else p.card, *p.place[2:])

    def end(self, uid: str) -> None:
        """Nothing of it is left."""
        self.places.pop(uid, None)
        self.bound.pop(uid, None)
        self.seen.pop(uid, None)
        self._end_assumptions(uid)
        self.ended.add(uid)

    def _hear_pod(self, p: P) -> None:
        if p.node and p.version < self.seen.get(p.uid, 0):
            return
        if not p.node:
            self.pending[p.name] = (p.uid, p.version)
            return
        self._leave(p.name, p.uid)
        place = self.wanted(p)
        if place is None:
            self.end(p.uid)
        else:
            self.places[p.uid] = place
            self.bound[p.uid] = place[:2]
            self.seen[p.uid] = p.version
            self._end_assumptions(p.uid)

    def _leave(self, name: str, uid: str) -> None:
        if self.pending.get(name, ("", 0))[0] == uid:
            del self.pending[name]

    def _end_assumptions(self, uid: str) -> None:
        self.assumed = {key: value for key, value in self.assumed.items() if key[0] != uid}


class AuditMachine(RuleBasedStateMachine):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.book, self.model = Book(), Model()
        self.versions, self.uids = itertools.count(1), itertools.count(1)
        self.pods: dict[str, P] = {}
        self.nodes: dict[str, N] = {}
        self.history: list[P | N | Gone] = []
        self.coming: list[P | N | Gone] = []
        # The newest version of each pod, or of its end, that the book got.
        self.told: dict[str, int] = {}
        self.known: dict[tuple[type, str], P | N] = {}
        self.flying: set[str] = set()
        # Where binds of ours have taken effect, by uid.
        self.landed: dict[str, str] = {}
        self.round: Round | None = None
        self.listed: list[P | N] = []
        self.list_version = 0
        self.suspects: list[Suspect] = []
        # The list of an audit under way, by uid of a pod or name of a node.
        self.shown: dict[str, P | N] = {}
        for name in NODES:
            self.write(N(name, (8, 8), next(self.versions)))
        for number, name in enumerate(NAMES):
            self.write(
                P(name, f"u{next(self.uids)}", 1 + number, next(self.versions), "n" if number % 2 else "", number % 2)
            )
        while self.coming:
            self.tell(self.coming.pop(0))

    # The events in the cluster

    def write(self, item: P | N) -> None:
        where: Any = self.pods if isinstance(item, P) else self.nodes
        where[item.name] = item
        self.happened(item)

    def happened(self, word: P | N | Gone) -> None:
        self.history.append(word)
        self.coming.append(word)

    def change(self, choice: int, bound: bool | None, **fields: Any) -> None:
        """Some pod of that kind is another from now on."""
        pods = [p for p in self.pods.values() if bound is None or bool(p.node) is bound]
        if pods:
            self.write(replace(pods[choice % len(pods)], version=next(self.versions), **fields))

    @rule(
        what=st.sampled_from(
            ["born", "bound", "bound", "card", "units", "ending", "finished", "deleted", "deleted", "node", "no node"]
        ),
        choice=CHOICE,
        name=st.sampled_from(NAMES),
        node=st.sampled_from(NODES),
        cards=CARDS,
        is_lost=st.booleans(),
    )
    def the_cluster_changes(
        self, what: str, choice: int, name: str, node: str, cards: tuple[int, ...], is_lost: bool
    ) -> None:
        """Other extenders bind too; plugins exchange cards, and come back with others. Some of it the watch never reports."""
        before = len(self.coming)
        if what == "born":
            self.born(name, 1 + choice % 6)
        elif what == "deleted" and self.pods:
            self.happened(Gone(self.pods.pop(list(self.pods)[choice % len(self.pods)]), next(self.versions)))
        elif what in ("node", "no node"):
            self.node_changes(node, cards if what == "node" else ())
        elif what in ("units", "bound"):
            self.change(choice, False if what == "bound" else None, **self.changed(what, choice, node))
        else:
            self.change(choice, True, **self.changed(what, choice, node))
        if is_lost:
            del self.coming[before:]

    def changed(self, what: str, choice: int, node: str) -> dict[str, Any]:
        """The fields of that change."""
        fields: dict[str, dict[str, Any]] = {
            "units": {"units": 1 + choice % 6},
            "bound": {"node": node, "card": choice % 3},
            "card": {"card": choice % 3},
            "ending": {"is_ending": True},
            "finished": {"is_finished": True},
        }
        return fields.get(what, {})

    def born(self, name: str, units: int) -> None:
        """Where the name was taken, the pod before was deleted by force: same name, new uid."""
        if name in self.pods:
            self.happened(Gone(self.pods.pop(name), next(self.versions)))
        self.write(P(name, f"u{next(self.uids)}", units, next(self.versions)))

    def node_changes(self, name: str, cards: tuple[int, ...]) -> None:
        """Deleted, and made again with other cards if there are any."""
        if name in self.nodes:
            self.happened(Gone(self.nodes.pop(name), next(self.versions)))
        if cards:
            self.write(N(name, cards, next(self.versions)))

    # Binds of ours: assume, one request, its answer

    @rule(
        step=st.sampled_from(["begins", "begins", "lands", "lands", "answered", "leaks"]),
        choice=CHOICE,
        node=st.sampled_from(NODES),
    )
    def a_bind_of_ours(self, step: str, choice: int, node: str) -> None:
        """Begins, lands in the API, is answered; each when it likes, or never."""
        if step == "begins":
            self.bind_begins(choice, node, choice % 2)
        elif self.flying and step == "lands":
            self.bind_lands(choice)
        elif self.flying:
            self.bind_is_answered(choice, step == "leaks", choice % 2 == 0)

    def bind_begins(self, choice: int, node: str, card: int) -> None:
        waiting = [(name, uid) for name, (uid, _) in sorted(self.model.pending.items()) if uid not in self.flying]
        if not waiting:
            return
        name, uid = waiting[choice % len(waiting)]
        if uid in self.model.ended or self.model.places.get(uid, ("",))[0] == node:
            return
        if (uid, node) in self.model.assumed:
            self.book.touch(uid)
        else:
            pending = self.book.pending_pod("d", name)
            assert pending is not None and pending.spec.containers is not None  # noqa: PT018
            units = int((pending.spec.containers[0].resources.limits or {})[MEMORY])  # type: ignore[union-attr]
            self.book.assume(node, Booking(uid, "d", name, units, ((card, units),)))
            self.model.assumed[uid, node] = (card, units)
        self.flying.add(uid)

    def bind_lands(self, choice: int) -> None:
        """The API server does it, if it can."""
        uid = sorted(self.flying)[choice % len(self.flying)]
        tries = [(node, card) for (of, node), (card, _) in self.model.assumed.items() if of == uid]
        pod = next((p for p in self.pods.values() if p.uid == uid and not p.node), None)
        if pod is not None and tries:
            node, card = tries[choice % len(tries)]
            self.write(replace(pod, version=next(self.versions), node=node, card=card))
            self.landed[uid] = node

    def bind_is_answered(self, choice: int, leaks: bool, asked: bool) -> None:
        """Where it was refused the assumption ends, unless there is a bug."""
        uid = sorted(self.flying)[choice % len(self.flying)]
        self.flying.discard(uid)
        pod = next((p for p in self.pods.values() if p.uid == uid and p.node), None)
        if pod is not None and asked:
            self.book.set_pod(pod_of(pod))
            self.model.hear(pod)
        elif pod is not None:
            self.book.bound(pod_of(pod).metadata, pod.node, 0)
            if (uid, pod.node) in self.model.assumed:
                self.model.bound[uid] = (pod.node, self.model.assumed[uid, pod.node][0])
        for of, node in list(self.model.assumed):
            if of == uid and (pod is None or pod.node != node) and not leaks:
                self.book.forget(uid, node)
                del self.model.assumed[uid, node]

    # The events for the book

    def tell(self, word: P | N | Gone) -> None:
        """As the reflector does: what is re-created under its name is first removed."""
        item = word.last if isinstance(word, Gone) else word
        key, known = (type(item), item.name), self.known.get((type(item), item.name))
        uid = item.uid if isinstance(item, P) else ""
        same = known is not None and getattr(known, "uid", "") == uid
        if isinstance(word, Gone):
            if same:
                del self.known[key]
        else:
            if known is not None and not same:
                self.say(Gone(known, 0))
            self.known[key] = word
        self.say(word)

    def say(self, word: P | N | Gone) -> None:
        self.model.hear(word)
        item = word.last if isinstance(word, Gone) else word
        if isinstance(item, P):
            self.told[item.uid] = max(self.told.get(item.uid, 0), word.version)
        if isinstance(word, N):
            self.book.set_node(node_of(word))
        elif isinstance(word, P):
            self.book.set_pod(pod_of(word))
        elif isinstance(word.last, N):
            self.book.remove_node(word.last.name)
        else:
            self.book.remove_pod(pod_of(word.last).metadata)

    @precondition(lambda self: self.coming)
    @rule(
        fates=st.lists(
            st.sampled_from(["told", "told", "twice", "late", "lost", "lost", "replayed"]), min_size=1, max_size=6
        )
    )
    def events(self, fates: list[str]) -> None:
        """Each in its order, except for one that the next overtakes, and old ones that come again."""
        for fate in fates[: len(self.coming)]:
            word = self.coming.pop(0)
            if fate == "late" and self.coming:
                word, self.coming[0] = self.coming[0], word
            for _ in range({"twice": 2, "lost": 0}.get(fate, 1)):
                self.tell(word)
            if fate == "replayed":
                self.tell(self.history[word.version % (len(self.history) - len(self.coming))])

    @rule(seldom=st.sampled_from([False, False, False, True]))
    def history_is_gone(self, seldom: bool) -> None:
        """410: everything is listed again; objects that vanished in between are removed, as far as they were known."""
        if not seldom:
            return
        self.coming.clear()
        here: dict[tuple[type, str], P | N] = {(P, name): p for name, p in self.pods.items()}
        here |= {(N, name): n for name, n in self.nodes.items()}
        for key in [key for key in self.known if key not in here]:
            self.tell(Gone(self.known[key], 0))
        for item in here.values():
            self.tell(item)

    # An audit, step by step

    @rule(most=st.integers(1, 4), meanwhile=st.sampled_from(["", "", "moved", "deleted", "bound"]))
    def audit_goes_on(self, most: int, meanwhile: str) -> None:
        """Its next step; a suspect may change just before it is settled, and the book knows that."""
        if self.round is None:
            self.begin()
        elif self.listed:
            self.audit_reads(most)
        elif self.is_caught_up():
            if self.suspects:
                self.overtaken(self.suspects[0][0].name, meanwhile)
            self.audit_settles()

    def overtaken(self, name: str, meanwhile: str) -> None:
        pod = self.pods.get(name)
        if pod is None or not meanwhile:
            return
        if meanwhile == "deleted":
            self.happened(Gone(self.pods.pop(name), next(self.versions)))
        elif meanwhile == "moved" and pod.node:
            self.write(replace(pod, version=next(self.versions), card=pod.card + 1))
        elif meanwhile == "bound" and pod.name in self.model.pending and pod.uid not in self.flying:
            self.bind_begins(sorted(self.model.pending).index(name), "n", 0)
            return
        while self.coming:
            self.tell(self.coming.pop(0))

    def begin(self) -> None:
        self.round = Round(self.book, lambda namespace, name, uid: uid in self.flying)
        self.listed = [*self.nodes.values(), *self.pods.values()]
        self.shown = {item.uid if isinstance(item, P) else item.name: item for item in self.listed}
        self.list_version = next(self.versions)
        self.suspects = []

    def audit_reads(self, most: int) -> None:
        assert self.round is not None
        for _ in range(min(most, len(self.listed))):
            item = self.listed.pop(0)
            self.round.see_node(node_of(item)) if isinstance(item, N) else self.round.see_pod(pod_of(item))
        if not self.listed:
            self.suspects = self.round.end()

    def is_caught_up(self) -> bool:
        return all(word.version > self.list_version for word in self.coming)

    def audit_settles(self) -> Difference | None:
        """The next suspect, or the end."""
        assert self.round is not None
        if not self.suspects:
            self.round = self.book.touched = None
            return None
        found = self.round.settle(self.suspects.pop(0))
        if found is not None:
            self.corrected(found, self.shown.get(found.uid))
        return found

    def corrected(self, found: Difference, listed: P | N | None) -> None:
        """The book did not go back to a state that it knew to be over."""
        if not found.namespace:
            self.model.hear(listed or Gone(N(found.name, (), 0), 0))
            return
        assert found.uid not in self.flying
        if listed is None:
            assert all(p.uid != found.uid for p in self.pods.values()), "un-booked a pod that is there"
            self.model.hear(Gone(P(found.name, found.uid, 0, 0), 0))
            return
        assert isinstance(listed, P)
        assert self.told.get(listed.uid, 0) <= listed.version, "went back to what the book knew to be over"
        self.model.correct(listed)

    # The invariants

    @invariant()
    def the_book_is_the_model(self) -> None:
        model, book = self.model, self.book
        uids = {*model.places, *(uid for uid, _ in model.assumed)}
        assert {uid for uid in book.identities() if book.confirmed(uid) or book.assumptions(uid)} == uids
        for uid in uids:
            held, place = book.confirmed(uid), model.places.get(uid)
            assert (held is None) is (place is None)
            if held is not None and place is not None:
                booking = held[1]
                assert (held[0], *booking.shares[0], booking.evictable.is_ending) == place
        assumed = {(uid, node): (*one.shares[0],) for uid in uids for node, one in book.assumptions(uid)}
        assert assumed == model.assumed
        pending = {name: book.pending_pod("d", name) for name in NAMES}
        assert {
            name: (one.metadata.uid, int(one.metadata.resource_version)) for name, one in pending.items() if one
        } == model.pending

    @invariant()
    def nothing_that_we_have_bound_is_free(self) -> None:
        """Safety: whatever the watch loses, a pod is booked from our bind until the API shows its end."""
        for pod in self.pods.values():
            if pod.uid in self.landed and not pod.is_finished:
                held = self.book.confirmed(pod.uid) or ("", None)
                assert held[0] == pod.node or self.book.assumed(pod.uid, pod.node) is not None

    @invariant()
    def cards_carry_what_the_model_books(self) -> None:
        model = self.model
        nodes = self.book.snapshot().nodes
        assert {name: tuple(device.total for device in info.devices) for name, info in nodes.items()} == model.nodes
        for name, cards in model.nodes.items():
            booked: Counter[int] = Counter()
            for node, card, units, _ in model.places.values():
                booked[card] += units if node == name else 0
            for (_, node), (card, units) in model.assumed.items():
                booked[card] += units if node == name else 0
            assert [device.used for device in nodes[name].devices] == [booked[card] for card in range(len(cards))]

    # A quiet cluster, audited: exactly what was lost is found, and nothing is wrong after it

    @precondition(lambda self: self.round is None and self.history)
    @rule()
    def quiet_audit(self) -> None:
        while self.coming:
            self.tell(self.coming.pop(0))
        expected = tally(self.lost())
        assert self.whole_audit() == expected
        assert self.whole_audit() == tally(())
        there = {p.uid: p for p in self.pods.values() if p.uid not in self.flying}
        held = {uid: place for uid, place in self.model.places.items() if uid not in self.flying}
        assert held == {uid: self.model.wanted(p) for uid, p in there.items() if p.place}
        assert {uid for uid, _ in self.model.assumed} <= self.flying
        assert self.model.nodes == {name: n.cards for name, n in self.nodes.items()}
        waiting = {uid for uid, _ in self.model.pending.values()} - self.flying
        assert waiting == {p.uid for p in there.values() if not p.node}

    def whole_audit(self) -> dict[str, Drift]:
        """Nothing else happens in between."""
        self.begin()
        self.audit_reads(len(self.listed))
        found = []
        while self.round is not None:
            found.append(self.audit_settles())
        return tally(one for one in found if one is not None)

    def lost(self) -> list[Difference]:
        """The drift by its definition, from the model and the API alone."""
        there = {p.uid: p for p in self.pods.values()}
        uids = {*there, *self.model.places, *(uid for uid, _ in self.model.assumed)}
        uids |= {uid for uid, _ in self.model.pending.values()}
        found = [
            (self.kind_of(uid, there.get(uid)), self.wrong(uid, there.get(uid))) for uid in sorted(uids - self.flying)
        ]
        for name in {*self.nodes, *self.model.nodes}:
            mine, theirs = self.model.nodes.get(name), self.nodes[name].cards if name in self.nodes else None
            kind = "node_missing" if mine is None else "node_phantom" if theirs is None else "node_other_cards"
            if mine != theirs:
                found.append(
                    (kind, larger(Counter(dict(enumerate(mine or ()))), Counter(dict(enumerate(theirs or ())))))
                )
        return [Difference(kind, "", "", "", units) for kind, units in found if kind]

    def wrong(self, uid: str, pod: P | None) -> int:
        mine: Counter[tuple[str, int]] = Counter()
        if uid in self.model.places:
            node, card, units, _ = self.model.places[uid]
            mine[node, card] += units
        for (of, node), (card, units) in self.model.assumed.items():
            mine[node, card] += units if of == uid else 0
        place = None if pod is None else self.model.wanted(pod)
        return larger(mine, Counter({place[:2]: place[2]} if place else {}))

    def kind_of(self, uid: str, pod: P | None) -> str | None:
        held, want = self.model.places.get(uid), None if pod is None else self.model.wanted(pod)
        assumed = {node: card_units for (of, node), card_units in self.model.assumed.items() if of == uid}
        waits = uid in {of for of, _ in self.model.pending.values()}
        if want is None and (held or assumed):
            return "phantom" if held or pod is None or pod.node else "stale_assumption"
        if want is not None and held is None:
            if not assumed:
                return "missing"
            if want[0] not in assumed:
                return "other_node"
            card, units = assumed[want[0]]
            return "other_amount" if units != want[2] else "other_card" if card != want[1] else "unconfirmed"
        if want is not None and held is not None and held != want:
            wrong = [
                kind for kind, at in (("other_node", 0), ("other_amount", 2), ("other_card", 1)) if held[at] != want[at]
            ]
            return wrong[0] if wrong else "other_details"
        if assumed:
            return "stale_assumption"
        return self.pending_kind(pod, waits)

    def pending_kind(self, pod: P | None, waits: bool) -> str | None:
        if pod is None or pod.node:
            return "pending_phantom" if waits else None
        if not waits:
            return "pending_missing"
        return None if self.model.pending[pod.name] == (pod.uid, pod.version) else "pending_other"


def larger(mine: Counter[Any], theirs: Counter[Any]) -> int:
    """Too much or too little, whichever is more."""
    return max((mine - theirs).total(), (theirs - mine).total())


AuditMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=60, derandomize=True, deadline=None)
test_an_audited_book_agrees_with_a_naive_model = AuditMachine.TestCase
