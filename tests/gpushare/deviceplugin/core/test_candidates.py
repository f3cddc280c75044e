"""Promises of gpushare.deviceplugin.core.candidates."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import msgspec
import pytest

from gpushare.deviceplugin.core.candidates import (
    Candidate,
    Offer,
    candidates,
    container_cards,
    ids_by_card,
    last_guard,
    match,
    room,
)
from gpushare.deviceplugin.core.holdings import Grant, Holdings
from gpushare.deviceplugin.core.kept_pods import KeptPod, keep
from gpushare.errors import NoCandidateError
from gpushare.manifests import Pod
from gpushare.model.allocation import decode
from gpushare.model.cards import CardFacts


def containers(prefix: str, amounts: tuple[object, ...]) -> list[object]:
    """Containers that ask for these amounts."""
    limits = [{"limits": {"aliyun.com/gpu-mem": amount}} for amount in amounts]
    return [{"name": f"{prefix}{number}", "resources": one} for number, one in enumerate(limits)]


def pod(name: str, *units: object, card: object = 0, init: tuple[object, ...] = (), **more: object) -> KeptPod:
    """A pod bound to the node, on a card."""
    annotations = {"ALIYUN_COM_GPU_MEM_IDX": str(card)} if card is not None else {}
    annotations["ALIYUN_COM_GPU_MEM_ASSIGNED"] = str(more.get("assigned", "false"))
    annotations.update(more.get("annotations", {}))  # type: ignore[call-overload]
    metadata = {"name": name, "namespace": "d", "uid": f"uid-{name}", "annotations": annotations}
    document = {
        "metadata": {**metadata, "deletionTimestamp": more.get("deleting")},
        "spec": {"containers": containers("c", units), "initContainers": containers("i", init)},
        "status": {"phase": more.get("phase", "Pending"), "containerStatuses": more.get("statuses")},
    }
    return keep(msgspec.convert(document, Pod))


FREE = {0: 14, 1: 14}


def offer(size: int, free: dict[int, int] = FREE, must_be: int | None = None, **more: Any) -> Offer:
    """So many ids are wanted, of these."""
    must = {} if must_be is None else {must_be: size}
    return Offer(size, Counter(free), Counter(more.pop("room", FREE)), Counter(must), **more)


DELETED = "2026-01-01T00:00:00Z"
DYING = pod("dying", 1, 1, 1, deleting=DELETED)
HALF = {"uid-b": ["c0"]}
ORDERS: dict[str, tuple[list[KeptPod], dict[str, list[str]], tuple[Any, ...], list[str]]] = {
    "bound first, whatever its name": ([pod("b", 3), pod("a", 3)], {}, (), ["b c0", "a c0"]),
    "a half-done pod first: a kubelet finishes one": ([pod("a", 3), pod("b", 1, 2)], HALF, ("uid-b",), ["b c1", "a c0"]),
    "in its order, if another was answered after it": ([pod("a", 3), pod("b", 1, 2)], HALF, (), ["a c0", "b c1"]),
    "the latest of two half-done ones: the kubelet gave the other up": (
        [pod("a", 1, 2), pod("b", 1, 2)], {"uid-a": ["c0"], **HALF}, ("uid-b",), ["b c1", "a c1"],
    ),
    "init containers first": ([pod("a", 2, init=(4,))], {}, (), ["a i0"]),
    "then the containers": ([pod("a", 2, init=(4,))], {"uid-a": ["i0"]}, (), ["a c0"]),
    "all is granted": ([pod("a", 1, 2)], {"uid-a": ["c0", "c1"]}, (), []),
    "deleted during its admission": ([pod("b", 1), DYING], {"uid-dying": ["c0"]}, ("uid-dying",), ["dying c1", "b c0"]),
    "deleted, and another was answered since": ([DYING, pod("b", 1)], {"uid-dying": ["c0"]}, ("uid-b",), ["b c0"]),
    "deleted, and the kubelet takes its ids back": ([DYING], {"uid-dying": ["c1", "c2"]}, ("uid-dying",), []),
    "deleted, and the kubelet took one back": ([DYING], {"uid-dying": ["c0", "c2"]}, ("uid-dying",), []),
    "deleted before its admission": ([DYING, pod("a", 3)], {}, (), ["dying c0", "a c0"]),
    "deleted before its admission, and begun": (
        [DYING, pod("a", 3)], {"uid-dying": ["c0"]}, ("uid-dying", {"uid-dying"}), ["dying c1", "a c0"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pods", "granted", "latest", "expected"), ORDERS.values(), ids=ORDERS.keys())
def test_containers_wait_in_the_kubelets_order(
    pods: list[KeptPod], granted: dict[str, list[str]], latest: tuple[Any, ...], expected: list[str]
) -> None:
    """The container that a kubelet asks for next comes first; a deletion is not seen between two containers of a pod."""
    assert [f"{one.pod} {one.container}" for one in candidates(pods, granted, {}, *latest)] == expected


def test_a_candidate_says_container_and_pod_units() -> None:
    """The variables name both."""
    (found,) = candidates([pod("a", 1, 2, card=1)], {}, {})

    assert found == Candidate("uid-a", "d", "a", "c0", 1, 3, ((1, 1),))
    assert [one.is_begun for one in candidates([pod("a", 1, 2)], {"uid-a": ["c0"]}, {})] == [True]


@pytest.mark.parametrize(
    "other",
    [
        pod("x", 3, deleting="2026-01-01T00:00:00Z", phase="Running"),
        pod("x", 3, card=None),
        pod("x", 3, card="-1"),
        pod("x", "1.5"),
        pod("x"),
        pod("x", 3, annotations={"scheduler.framework.gpushare.allocation": "{}"}),
    ],
    ids=["deleting", "no card", "wrong card", "odd quantity", "no gpu", "several cards that are none"],
)
def test_pods_that_do_not_wait_for_a_card_are_no_candidates(other: KeptPod) -> None:
    """Whatever they ask for."""
    assert candidates([other], {}, {}) == []


def waits(*pods: KeptPod, begun: str = "", latest: str = "") -> list[Candidate]:
    """These pods wait; that one has the ids of its first container."""
    return candidates(pods, {f"uid-{begun}": ["c0"]}, {}, latest)


SEVERAL = {"scheduler.framework.gpushare.allocation": '{"0":{"1":2,"0":1},"1":{"1":4}}'}
A, B, A_TWICE = pod("a", 3, card=0), pod("b", 3, card=1), pod("a", 3, 3, card=0)
FULL, MANY, LARGE = pod("full", 3, card=1), pod("a", 3, 4, annotations=SEVERAL), pod("a", 9, 5, card=0)
LEFT = "units left for the 3 of the pod that waits"
# The pods that wait, the call, the other cards that pod a may have, and the match or why there is none.
MATCHES: dict[str, tuple[list[Candidate], Offer, tuple[int, ...], str]] = {
    "one container's units (D02)": (waits(pod("a", 1, 2)), offer(1), (), "a c0 0"),
    "never the pod's sum (D02)": (waits(pod("a", 1, 2)), offer(3), (), "no: waits for 3 units"),
    "reused ids are of its card": (waits(A, B), offer(3, must_be=1), (), "b c0 1"),
    "reused ids are its own": (waits(A, B), offer(3, must_pod="uid-b"), (), "b c0 1"),
    "another plugin's containers fill the card": (waits(A, B), offer(3, room={0: 2, 1: 3}), (), "b c0 1"),
    "another amount": (waits(A), offer(4), (), "no: waits for 4 units .waiting for other amounts: 1"),
    "too few ids": (waits(A), offer(3, {0: 2}), (), f"no: card 0 has 2 {LEFT}"),
    "too little room": (waits(A), offer(3, room={0: 2}), (), f"no: card 0 has 2 {LEFT}"),
    "ids of another card": (
        waits(A), offer(3, {1: 3}, 1), (), "no: chose ids of card 1, but the pod that waits has card 0",
    ),
    "more reused ids than asked for": (
        waits(A), Offer(3, Counter(FREE), Counter(FREE), must=Counter({0: 4})), (),
        "no: ^the kubelet reuses more ids of a card than the next container of the pod that waits gets$",
    ),
    # A kubelet that has just started: no pod has these ids, and it does not offer them; of several pods, one of which that is true.
    "ids kept for ended pods": (
        waits(FULL, A), offer(3, {0: 2, 1: 2}, room={0: 7, 1: 2}), (), f"no: card 0 has 2 {LEFT}: the kubelet keeps 5 for",
    ),
    "to the unit": (
        waits(FULL, A), offer(3, {0: 2, 1: 2}, room={0: 3, 1: 2}), (), "no: keeps 1 for pods that have ended$",
    ),
    "not if a card of several is full": (
        waits(pod("full", 3, card=2), pod("b", 3, 4, annotations=SEVERAL)),
        offer(3, {0: 1, 1: 1, 2: 2}, room={0: 5, 1: 1, 2: 2}), (), f"no: card 2 has 2 {LEFT}$",
    ),
    "nor of another card": (
        waits(FULL), offer(3, {0: 2, 1: 2}, room={0: 7, 1: 2}), (), f"no: card 1 has 2 {LEFT}$",
    ),
    "several cards": (waits(MANY, B), offer(3, {0: 1, 1: 9}), (), "a c0 0+1"),
    "several cards, one full": (
        waits(MANY), offer(3, {0: 1, 1: 1}, room={0: 1, 1: 1}), (), "no: card 1 has 1 units left for the 2 of",
    ),
    "shares unlike its amount, written by hand": (
        waits(pod("a", 5, 4, annotations=SEVERAL)), offer(5), (), "no: waits for 5 units .waiting for other amounts: 0",
    ),
    "a pod that ran needs no room": (waits(pod("ran", 3, phase="Running")), offer(3, room={0: 0}), (), "ran c0 0"),
    "a slot is a pod of any amount": (
        waits(LARGE, pod("b", 9, card=1)), offer(1, {0: 1, 1: 1}, counts_slots=True), (), "a c0 0",
    ),
    "with its first container": (
        waits(LARGE, pod("b", 9, card=1)), offer(1, {0: 1, 1: 1}, room={0: 13, 1: 9}, counts_slots=True), (), "b c0 1",
    ),
    "and no other": (waits(LARGE, begun="a"), offer(1, {0: 1}, room={0: 0}, counts_slots=True), (), "a c1 0"),
    "no slot is waited for": ([], offer(1, {0: 1}, counts_slots=True), (), "no: waits for a slot .waiting for other amounts: 0"),
    "no slot": (
        waits(LARGE), offer(1, {}, counts_slots=True), (), "no: card 0 has no slot left for the next container of the pod",
    ),
    "a slot and no room": (
        waits(LARGE), offer(1, {0: 1}, room={0: 13}, counts_slots=True), (), "no: card 0 has 13 units left for the 14 of",
    ),
    "a slot cannot stand for several cards": (
        waits(MANY), offer(1, {0: 1}, counts_slots=True), (), "no: waits for a slot .waiting for other amounts: 1",
    ),
    # A container that got another card than the first of its pod would never start.
    "too few ids for the pod: it moves": (
        waits(A_TWICE, B), offer(3, {0: 5, 1: 9, 2: 6}, room=dict.fromkeys(range(3), 14)), (2, 1), "a c0 2",
    ),
    "too little room for the pod: it moves": (
        waits(A_TWICE, B), offer(3, {0: 14, 1: 9, 2: 6}, room={0: 5, 1: 14, 2: 14}), (2, 1), "a c0 2",
    ),
    "it may not move": (waits(A_TWICE, B), offer(3, {0: 5, 1: 9, 2: 6}), (), "b c0 1"),
    "it may not move and waits alone": (waits(A_TWICE), offer(3, {0: 5}), (), "a c0 0"),
    "reused ids move nowhere": (waits(A_TWICE, B), offer(3, {0: 5, 1: 9}, must_be=1), (1,), "b c0 1"),
    "the other card needs room too": (waits(A), offer(3, {0: 2, 1: 2}), (1,), f"no: card 0 has 2 {LEFT}"),
    "half done: better an end than a pod on two cards": (
        waits(A_TWICE, B, begun="a", latest="uid-a"), offer(3, {0: 2, 1: 9}), (1,), f"no: card 0 has 2 {LEFT}",
    ),
    "half done: room for the next container": (
        waits(B, A_TWICE, begun="a", latest="uid-a"), offer(3, {0: 3, 1: 9}, room={0: 3, 1: 9}), (), "a c1 0",
    ),
    "half done, and another was answered since": (
        waits(A_TWICE, B, begun="a"), offer(3, {0: 2, 1: 9}), (1,), "b c0 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("waiting", "call", "others", "expected"), MATCHES.values(), ids=MATCHES.keys())
def test_match_finds_the_container_of_a_call(
    waiting: list[Candidate], call: Offer, others: tuple[int, ...], expected: str
) -> None:
    """It is the first that can be meant; else there is an error with the reason: the original answered nonsense (defect D03)."""
    says = expected.removeprefix("no: ")
    with pytest.raises(NoCandidateError, match=says) if says != expected else contextlib.nullcontext():
        found = match(waiting, call, lambda candidate: others if candidate.pod == "a" else ())
        assert f"{found.pod} {found.container} {'+'.join(str(index) for index, _ in found.cards)}" == expected


def test_each_container_of_a_several_card_pod_has_own_cards() -> None:
    """By the multi-card annotation and the container's position."""
    assert waits(MANY)[0].cards == ((0, 1), (1, 2))
    assert waits(MANY, begun="a")[0].cards == ((1, 4),)
    assert [ids_by_card(waits(one)[0], counts_slots=True) for one in (MANY, LARGE)] == [{}, {0: 1}]


@pytest.mark.parametrize(("units", "cards"), [(1, ((0, 1),)), (4, ((0, 1), (1, 3))), (8, ())])
def test_an_init_container_takes_its_pods_cards_in_their_order(units: int, cards: object) -> None:
    """The annotation knows the containers only; an entry beyond the pod's containers counts for none."""
    waiting = pod("a", 3, 4, init=(units,), annotations=SEVERAL)
    allocation = decode(waiting.metadata.annotations, 7)

    assert allocation is not None
    assert container_cards(waiting, allocation, "i0", units) == cards
    assert container_cards(pod("a", 3, 4, 1), allocation, "c2", 1) == ()


def test_planned_card_counts_instead_of_the_annotated_one() -> None:
    """The planned card of a pod counts instead of the annotated one, because the annotation is about to be exchanged."""
    (found,) = candidates([pod("a", 3, card=0)], {}, {"uid-a": 1})

    assert found.cards == ((1, 3),)


def test_a_pod_that_ran_and_is_in_no_book_comes_last() -> None:
    """The kubelet lost its checkpoint and asks again; a container that has all its ids is never asked for."""
    let_in = pod("let-in", 3, assigned="true", statuses=[{"name": "c0"}])
    pods = [pod("ran", 3, phase="Running"), let_in, pod("new", 3)]
    found = candidates(pods, {}, {})

    assert [one.pod for one in found] == ["new", "ran", "let-in"]
    assert candidates(pods[:2], {"uid-ran": ["c0"], "uid-let-in": ["c0"]}, {}) == []


def card(index: int, units: int = 10, *, healthy: bool = True, reason: str = "") -> CardFacts:
    """A card."""
    return CardFacts(index, f"u{index}", "m", 0, units, healthy=healthy, reason=reason)


def ours(uid: str, index: int, *numbers: int, **more: Any) -> Grant:
    """Ids of a card."""
    ids = {f"{index}-{number}": index for number in numbers}
    return Grant(uid, "c", frozenset(ids), ids, **more)


def candidate(units: int = 4, index: int = 0, **more: bool) -> Candidate:
    """A container that waits."""
    return Candidate("new", "d", "new", "c", units, units, ((index, units),), **more)


OLD = [ours("uid-old", 0, 0)], [pod("old", 7)]
# The candidate, what containers have and the pods, the cards, whether slots count, and the refusal ("": it is let in).
GUARDED: dict[str, tuple[Candidate, tuple[list[Grant], list[KeptPod]], list[CardFacts], bool, str]] = {
    "room": (candidate(), ([], []), [card(0, 4)], False, ""),
    "gone": (candidate(), ([], []), [card(1)], False, "the pod has card 0, which this node does not have"),
    "unhealthy": (
        candidate(), ([], []), [card(0, healthy=False, reason="Xid 48")], False, "card 0 of the pod is unhealthy: Xid 48",
    ),
    "unhealthy without a word": (
        candidate(), ([], []), [card(0, healthy=False)], False, "is unhealthy: no reason given",
    ),
    "too small": (candidate(), ([], []), [card(0, 3)], False, "card 0 has 3 units left for the 4 of the pod"),
    "a guess and the pod's own init container": (
        candidate(), ([ours("new", 0, *range(1, 9)), ours("guess", 0, 2, is_guess=True)], []), [card(0)], False, "",
    ),
    "an id of another": (
        candidate(), ([ours("old", 0, 4)], []), [card(0)], False, "offered the id 0-4, which another container has",
    ),
    "slots: the pod counts with its first container": (candidate(), OLD, [card(0)], True, "3 units left for the 4"),
    "slots: to the unit": (candidate(3), OLD, [card(0)], True, ""),
    "slots: and only once": (candidate(is_begun=True), OLD, [card(0)], True, ""),
    "slots: it counts already": (candidate(is_counted=True), OLD, [card(0)], True, ""),
}  # fmt: skip


@pytest.mark.parametrize(("one", "there", "cards", "slots", "says"), GUARDED.values(), ids=GUARDED.keys())
def test_a_container_is_let_onto_a_card_with_room_alone(
    one: Candidate, there: tuple[list[Grant], list[KeptPod]], cards: list[CardFacts], slots: bool, says: str
) -> None:
    """The guard refuses a card that is gone, unhealthy or full, and an id that a kubelet offers twice, and gives the reason."""
    grants, pods = there
    with pytest.raises(NoCandidateError, match=says) if says else contextlib.nullcontext():
        last_guard(one, ["0-1", "0-2", "0-3", "0-4"], Holdings(grants), pods, cards, counts_slots=slots)


def test_nothing_is_given_beside_what_cannot_be_read() -> None:
    """While a pod of the node cannot be read no container takes units; one with units that are counted goes on."""
    more: dict[str, Any] = {"counts_slots": True, "refusal": "a pod cannot be read"}
    last_guard(candidate(is_begun=True), ["0-0"], Holdings(()), [], [card(0)], **more)
    with pytest.raises(NoCandidateError, match="a pod cannot be read"):
        last_guard(candidate(), ["0-0"], Holdings(()), [], [card(0)], **more)


def test_an_unhealthy_card_and_an_overfull_one_have_no_room() -> None:
    """Never less than none."""
    holdings = Holdings([ours("a", 0, *range(12))])

    assert room(holdings, [], [card(0), card(1, healthy=False), card(2)], counts_slots=False) == Counter({2: 10})
