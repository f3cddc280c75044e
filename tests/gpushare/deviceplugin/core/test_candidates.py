"""Promises of gpushare.deviceplugin.core.candidates."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.candidates import (
    Candidate,
    Offer,
    candidates,
    container_cards,
    ids_by_card,
    match,
)
from gpushare.deviceplugin.core.kept_pods import KeptPod, keep
from gpushare.errors import NoCandidateError
from gpushare.manifests import Pod
from gpushare.model.allocation import decode


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


def offer(
    size: int,
    free: dict[int, int] | None = None,
    must_be: int | None = None,
    room: dict[int, int] | None = None,
    **more: Any,
) -> Offer:
    """So many ids are wanted, of these."""
    must = {} if must_be is None else {must_be: size}
    return Offer(size, Counter(FREE if free is None else free), Counter(room or FREE), Counter(must), **more)


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
    ids=[
        "deleting",
        "no card",
        "wrong card",
        "odd quantity",
        "no gpu",
        "several cards that are none",
    ],
)
def test_pods_that_do_not_wait_for_a_card_are_no_candidates(other: KeptPod) -> None:
    """Whatever they ask for."""
    assert candidates([other], {}, {}) == []


def test_match_compares_one_containers_units() -> None:
    """Never the pod's sum: the original did, and no pod of two containers ever matched (defect D2)."""
    waiting = candidates([pod("a", 1, 2)], {}, {})

    assert match(waiting, offer(1)).container == "c0"
    with pytest.raises(NoCandidateError, match="3 units"):
        match(waiting, offer(3))


@pytest.mark.parametrize(
    "more",
    [{"must_be": 1}, {"must_pod": "uid-b"}, {"room": {0: 2, 1: 3}}],
    ids=["reused ids are of its card", "reused ids are its own", "another plugin's containers fill the other card"],
)
def test_match_passes_over_a_pod_that_cannot_be_meant(more: dict[str, Any]) -> None:
    """Of two equal pods on two cards the second is meant."""
    waiting = candidates([pod("a", 3, card=0), pod("b", 3, card=1)], {}, {})

    assert match(waiting, offer(3, **more)).pod == "b"


@pytest.mark.parametrize(
    ("units", "free", "must_be", "says"),
    [
        (4, FREE, None, "waits for 4 units .waiting for other amounts: 1"),
        (3, {0: 2}, None, "card 0 has 2 units left for the 3 of the pod that waits"),
        (3, {1: 3}, 1, "chose ids of card 1, but the pod that waits has card 0"),
    ],
)
def test_no_candidate_is_an_error_with_the_reason(
    units: int, free: dict[int, int], must_be: int | None, says: str
) -> None:
    """The original answered success with a nonsense variable (defect D3)."""
    waiting = candidates([pod("a", 3)], {}, {})

    with pytest.raises(NoCandidateError, match=says):
        match(waiting, offer(units, free, must_be))
    with pytest.raises(NoCandidateError, match="card 0 has 2 units left for the 3 of the pod that waits"):
        match(waiting, offer(3, room={0: 2}))


def test_ids_kept_for_ended_pods_are_named_as_the_reason() -> None:
    """A kubelet that has just started: no pod has them, and it does not offer them; of several pods, one of which that is true."""
    waiting = candidates([pod("full", 3, card=1), pod("a", 3, card=0)], {}, {})

    with pytest.raises(
        NoCandidateError, match="card 0 has 2 units left for the 3 of the pod that waits: the kubelet keeps 5 for"
    ):
        match(waiting, offer(3, {0: 2, 1: 2}, room={0: 7, 1: 2}))
    with pytest.raises(NoCandidateError, match="the kubelet keeps 1 for pods that have ended$"):
        match(waiting, offer(3, {0: 2, 1: 2}, room={0: 3, 1: 2}))
    several = candidates([pod("full", 3, card=2), pod("b", 3, 4, annotations=SEVERAL)], {}, {})
    with pytest.raises(NoCandidateError, match="card 2 has 2 units left for the 3 of the pod that waits$"):
        match(several, offer(3, {0: 1, 1: 1, 2: 2}, room={0: 5, 1: 1, 2: 2}))
    with pytest.raises(NoCandidateError, match="card 1 has 2 units left for the 3 of the pod that waits$"):
        match(waiting[:1], offer(3, {0: 2, 1: 2}, room={0: 7, 1: 2}))


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 1)), max_size=6),
    st.integers(1, 4),
    st.dictionaries(st.integers(0, 1), st.integers(0, 5)),
)
def test_a_match_always_fits(pods: list[tuple[int, int]], units: int, free: dict[int, int]) -> None:
    """Right amount, on a card that has the ids, and the first such in order."""
    waiting = candidates([pod(str(i), amount, card=card) for i, (amount, card) in enumerate(pods)], {}, {})
    fitting = [one for one in waiting if one.units == units and free.get(one.cards[0][0], 0) >= units]
    try:
        found = match(waiting, offer(units, free))
    except NoCandidateError:
        assert not fitting
        return

    assert found == fitting[0]


SEVERAL = {"scheduler.framework.gpushare.allocation": '{"0":{"1":2,"0":1},"1":{"1":4}}'}


def test_each_container_of_a_several_card_pod_has_own_cards() -> None:
    """By the multi-card annotation and the container's position."""
    waiting = pod("a", 3, 4, annotations=SEVERAL)

    assert candidates([waiting], {}, {})[0].cards == ((0, 1), (1, 2))
    assert candidates([waiting], {"uid-a": ["c0"]}, {})[0].cards == ((1, 4),)
    assert match(candidates([waiting, pod("b", 3, card=1)], {}, {}), offer(3, {0: 1, 1: 9})).container == "c0"
    assert ids_by_card(candidates([waiting], {}, {})[0], counts_slots=True) == {}
    with pytest.raises(NoCandidateError, match="card 1 has 1 units left for the 2 of the pod that waits$"):
        match(candidates([waiting], {}, {}), offer(3, {0: 1, 1: 1}, room={0: 1, 1: 1}))


@pytest.mark.parametrize(("units", "cards"), [(1, ((0, 1),)), (4, ((0, 1), (1, 3))), (8, ())])
def test_an_init_container_takes_its_pods_cards_in_their_order(units: int, cards: object) -> None:
    """The annotation knows the containers only; an entry beyond the pod's containers counts for none."""
    waiting = pod("a", 3, 4, init=(units,), annotations=SEVERAL)
    allocation = decode(waiting.metadata.annotations, 7)

    assert allocation is not None
    assert container_cards(waiting, allocation, "i0", units) == cards
    assert container_cards(pod("a", 3, 4, 1), allocation, "c2", 1) == ()


def test_container_with_shares_unlike_its_amount_is_no_candidate() -> None:
    """The annotation was written by hand, and is wrong, so the pod has no cards."""
    waiting = candidates([pod("a", 5, 4, annotations=SEVERAL)], {}, {})

    assert waiting == []
    with pytest.raises(NoCandidateError, match="waits for 5 units"):
        match(waiting, offer(5))


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
    assert match(found[1:], offer(3, room={0: 0, 1: 0})).pod == "ran"


def test_more_reused_ids_than_asked_for_match_no_pod() -> None:
    """No kubelet does that; it is still reported."""
    waiting = candidates([pod("a", 3, card=0)], {}, {})

    text = "^the kubelet reuses more ids of a card than the next container of the pod that waits gets$"
    with pytest.raises(NoCandidateError, match=text):
        match(waiting, Offer(3, Counter(FREE), Counter(FREE), must=Counter({0: 4})))


def test_counted_slots_make_a_container_one_id_with_its_units() -> None:
    """A pod of any amount, with its first container."""
    waiting = candidates([pod("a", 9, 5, card=0), pod("b", 9, card=1)], {}, {})

    assert ids_by_card(waiting[0], counts_slots=True) == {0: 1}
    assert match(waiting, offer(1, {0: 1, 1: 1}, counts_slots=True)).pod == "a"
    assert match(waiting, offer(1, {0: 1, 1: 1}, room={0: 13, 1: 9}, counts_slots=True)).pod == "b"
    begun = candidates([pod("a", 9, 5, card=0)], {"uid-a": ["c0"]}, {})
    assert match(begun, offer(1, {0: 1}, room={0: 0}, counts_slots=True)).container == "c1"


@pytest.mark.parametrize(
    ("waiting", "free", "room", "says"),
    [
        ([], {0: 1}, {0: 14}, "waits for a slot .waiting for other amounts: 0"),
        ([pod("a", 9, 5)], {}, {0: 14}, "card 0 has no slot left for the next container of the pod that waits"),
        ([pod("a", 9, 5)], {0: 1}, {0: 13}, "card 0 has 13 units left for the 14 of the pod that waits"),
        ([pod("a", 3, 4, annotations=SEVERAL)], {0: 1}, {0: 14}, "waits for a slot .waiting for other amounts: 1"),
    ],
    ids=["nobody", "no slot", "no room", "several cards"],
)
def test_with_counted_slots_no_candidate_is_an_error_too(
    waiting: list[KeptPod], free: dict[int, int], room: dict[int, int], says: str
) -> None:
    """One slot cannot stand for several cards."""
    with pytest.raises(NoCandidateError, match=says):
        match(candidates(waiting, {}, {}), offer(1, free, room=room, counts_slots=True))


def test_pod_too_large_for_its_card_moves_before_other_pods() -> None:
    """A container that got another card than the first of its pod would never start."""
    waiting = candidates([pod("a", 3, 3, card=0), pod("b", 3, card=1)], {}, {})
    call = offer(3, {0: 5, 1: 9, 2: 6})
    room = offer(3, room={0: 5, 1: 14, 2: 14}, free={0: 14, 1: 9, 2: 6})

    for one in (call, room):
        full = Offer(one.size, one.free, Counter({0: 14, 1: 14, 2: 14}) if one is call else one.room)
        assert match(waiting, full, lambda candidate: {"a": (2, 1)}[candidate.pod]).cards == ((2, 3),)
        assert match(waiting, full, lambda candidate: ()).pod == "b"
    assert match(waiting[:1], offer(3, {0: 5})).cards == ((0, 3),)
    assert match(waiting, offer(3, {0: 5, 1: 9}, must_be=1), lambda candidate: (1,)).pod == "b"


@pytest.mark.parametrize(
    ("units", "begun", "free"),
    [((3,), [], {0: 2, 1: 2}), ((3, 3), ["c0"], {0: 2, 1: 9})],
    ids=["no room", "half done"],
)
def test_another_card_may_be_of_no_use(units: tuple[int, ...], begun: list[str], free: dict[int, int]) -> None:
    """The other card needs room too, and the rest of a half-done pod goes to none: better an end than a pod on two cards."""
    others = [pod("b", 3, card=1)] if begun else []
    waiting = candidates([pod("a", *units, card=0), *others], {"uid-a": begun}, {}, "uid-a")

    with pytest.raises(NoCandidateError, match="card 0 has 2 units left for the 3 of the pod"):
        match(waiting, offer(3, free), lambda candidate: (1,))


def test_half_done_pod_needs_room_for_its_next_container_only() -> None:
    """The units of its first container are a part of the pod's."""
    waiting = candidates([pod("b", 3, card=1), pod("a", 3, 3, card=0)], {"uid-a": ["c0"]}, {}, "uid-a")

    assert match(waiting, offer(3, {0: 3, 1: 9}, room={0: 3, 1: 9})).pod == "a"


def test_call_after_a_half_done_pod_may_be_anothers() -> None:
    """A call after a half-done pod may be for another pod. The half-done pod goes to no other card and blocks no other pod."""
    waiting = candidates([pod("a", 3, 3, card=0), pod("b", 3, card=1)], {"uid-a": ["c0"]}, {})

    assert match(waiting, offer(3, {0: 2, 1: 9}), lambda candidate: (1,)).pod == "b"
