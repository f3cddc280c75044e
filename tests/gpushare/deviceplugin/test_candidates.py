"""Promises of gpushare.deviceplugin.candidates."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.candidates import Candidate, candidates, match
from gpushare.errors import NoCandidateError
from gpushare.manifests import Pod


def containers(prefix: str, amounts: tuple[object, ...]) -> list[object]:
    """Containers that ask for these amounts."""
    limits = [{"limits": {"aliyun.com/gpu-mem": amount}} for amount in amounts]
    return [{"name": f"{prefix}{number}", "resources": one} for number, one in enumerate(limits)]


def pod(name: str, *units: object, card: object = 0, init: tuple[object, ...] = (), **more: object) -> Pod:
    """A pod bound to the node, on a card."""
    annotations = {"ALIYUN_COM_GPU_MEM_IDX": str(card)} if card is not None else {}
    annotations["ALIYUN_COM_GPU_MEM_ASSIGNED"] = str(more.get("assigned", "false"))
    annotations.update(more.get("annotations", {}))  # type: ignore[call-overload]
    metadata = {"name": name, "namespace": "d", "uid": f"uid-{name}", "annotations": annotations}
    document = {
        "metadata": {**metadata, "deletionTimestamp": more.get("deleting")},
        "spec": {"containers": containers("c", units), "initContainers": containers("i", init)},
        "status": {"phase": more.get("phase", "Pending")},
    }
    return msgspec.convert(document, Pod)


def names(found: list[Candidate]) -> list[tuple[str, str]]:
    """Pod and container."""
    return [(one.pod, one.container) for one in found]


FREE = {0: 14, 1: 14}


def test_the_pod_bound_first_is_asked_for_first() -> None:
    """Two equal pods keep their order; assume time plays no part here."""
    assert names(candidates([pod("b", 3), pod("a", 3)], {})) == [("b", "c0"), ("a", "c0")]


def test_a_pod_that_is_half_done_comes_before_all_others() -> None:
    """The kubelet finishes one pod before the next."""
    found = candidates([pod("a", 3), pod("b", 1, 2)], {"uid-b": ["c0"]})

    assert names(found) == [("b", "c1"), ("a", "c0")]


def test_init_containers_come_before_containers() -> None:
    """As the kubelet allocates them."""
    waiting = pod("a", 2, init=(4,))

    assert names(candidates([waiting], {})) == [("a", "i0")]
    assert names(candidates([waiting], {"uid-a": ["i0"]})) == [("a", "c0")]


def test_a_candidate_says_container_and_pod_units() -> None:
    """The variables name both."""
    (found,) = candidates([pod("a", 1, 2, card=1)], {})

    assert found == Candidate("uid-a", "d", "a", "c0", 1, 3, 1)


@pytest.mark.parametrize(
    "other",
    [
        pod("x", 3, phase="Failed"),
        pod("x", 3, phase="Running"),
        pod("x", 3, deleting="2026-01-01T00:00:00Z"),
        pod("x", 3, assigned="true"),
        pod("x", 3, card=None),
        pod("x", 3, card="-1"),
        pod("x", "1.5"),
        pod("x"),
        pod("x", 3, annotations={"scheduler.framework.gpushare.allocation": '{"0":{"0":1,"1":2}}'}),
    ],
    ids=[
        "failed",
        "running",
        "deleting",
        "assigned",
        "no card",
        "wrong card",
        "odd quantity",
        "no gpu",
        "several cards",
    ],
)
def test_pods_that_do_not_wait_for_one_card_are_no_candidates(other: Pod) -> None:
    """Whatever they ask for."""
    assert candidates([other], {}) == []


def test_a_fully_granted_pod_is_no_candidate() -> None:
    """Its containers start by themselves."""
    assert candidates([pod("a", 1, 2)], {"uid-a": ["c0", "c1"]}) == []


def test_match_compares_one_containers_units() -> None:
    """Never the pod's sum: the original did, and no pod of two containers ever matched (defect D2)."""
    waiting = candidates([pod("a", 1, 2)], {})

    assert match(waiting, 1, FREE).container == "c0"
    with pytest.raises(NoCandidateError, match="3 units"):
        match(waiting, 3, FREE)


def test_match_passes_over_a_pod_whose_amount_differs() -> None:
    """The kubelet turned it away for another reason, or comes to it later."""
    assert match(candidates([pod("a", 5), pod("b", 3)], {}), 3, FREE).pod == "b"


def test_match_passes_over_a_card_without_room() -> None:
    """Of two equal pods the one whose card has the ids."""
    waiting = candidates([pod("a", 3, card=0), pod("b", 3, card=1)], {})

    assert match(waiting, 3, {0: 2, 1: 3}).pod == "b"


def test_match_keeps_to_a_card_that_is_already_chosen() -> None:
    """Reused ids of an init container, or a kubelet that did not ask."""
    waiting = candidates([pod("a", 3, card=0), pod("b", 3, card=1)], {})

    assert match(waiting, 3, FREE, must_be=1).pod == "b"


@pytest.mark.parametrize(
    ("units", "free", "must_be", "says"),
    [
        (4, FREE, None, "waits for 4 units .waiting: d/a 3"),
        (3, {0: 2}, None, "card 0 has 2 units left for the 3 of pod d/a"),
        (3, {1: 3}, 1, "chose ids of card 1, but pod d/a has card 0"),
    ],
)
def test_nobody_is_an_error_that_says_why(units: int, free: dict[int, int], must_be: int | None, says: str) -> None:
    """The original answered success with a nonsense variable (defect D3)."""
    with pytest.raises(NoCandidateError, match=says):
        match(candidates([pod("a", 3)], {}), units, free, must_be=must_be)


def test_nobody_at_all_is_said_too() -> None:
    """Also on a node of one card, where the original handed it to anyone (defect D4)."""
    with pytest.raises(NoCandidateError, match="waiting: none"):
        match([], 7, FREE)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 1)), max_size=6),
    st.integers(1, 4),
    st.dictionaries(st.integers(0, 1), st.integers(0, 5)),
)
def test_a_match_always_fits(pods: list[tuple[int, int]], units: int, free: dict[int, int]) -> None:
    """Right amount, on a card that has the ids, and the first such in order."""
    waiting = candidates([pod(str(i), amount, card=card) for i, (amount, card) in enumerate(pods)], {})
    fitting = [one for one in waiting if one.units == units and free.get(one.index, 0) >= units]
    try:
        found = match(waiting, units, free)
    except NoCandidateError:
        assert not fitting
        return

    assert found == fitting[0]
