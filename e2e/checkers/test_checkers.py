"""The judges can find something: each checker against what it must find, and against what is well."""

from __future__ import annotations

from typing import Any

import pytest

from e2e import spec
from e2e.builders import gpu_container, gpu_pod
from e2e.checkers import UnknownError
from e2e.checkers.overcommit import check_api, check_containers, check_inspect
from e2e.checkers.pod_requests import slots_of, units_of
from e2e.checkers.right_card import check_pod

SIZES = {"n": {0: 14, 1: 10}}
UUIDS = {"n": {0: "GPU-a", 1: "GPU-b"}}


def pod(name: str, *units: int, card: object = 0, phase: str = "Running", assigned: str = "true") -> dict[str, Any]:
    """A bound pod."""
    made = gpu_pod(name, *units, bound_to="n")
    made["metadata"]["annotations"] = {spec.POD_INDEX: str(card), spec.POD_ASSIGNED: assigned}
    made["status"] = {"phase": phase}
    return made


def told(card: int, units: int, visible: str, pod_units: int | None = None) -> dict[str, str]:
    """A container's variables."""
    amounts = {spec.ENV_CONTAINER_UNITS: str(units), spec.ENV_POD_UNITS: str(pod_units or units)}
    return {spec.ENV_INDEX: str(card), spec.ENV_VISIBLE: visible, **amounts}


def inspect(*used: int, totals: tuple[int, ...] = (14, 10)) -> dict[str, Any]:
    """The extender's book."""
    devices = [
        {"id": i, "totalGPU": total, "usedGPU": units}
        for i, (total, units) in enumerate(zip(totals, used, strict=True))
    ]
    return {"nodes": [{"name": "n", "devs": devices}]}


@pytest.mark.parametrize(
    ("inits", "apps", "units", "slots"),
    [
        ([], (1, 0, 2), 3, 2),
        ([(9, "")], (1, 2), 9, 2),
        ([(1, "Always"), (9, "")], (1,), 10, 2),
        ([(9, "")] * 3, (0,), 9, 1),
    ],
    ids=["apps", "init", "sidecar", "inits"],
)
def test_a_pod_counts_at_its_worst_moment(
    inits: list[tuple[int, str]], apps: tuple[int, ...], units: int, slots: int
) -> None:
    """Units and slots are those of the containers that run at the same time; one without card memory takes no slot."""
    made = gpu_pod("p", *apps)
    made["spec"]["initContainers"] = [
        gpu_container(f"i{number}", amount) | {"restartPolicy": policy} for number, (amount, policy) in enumerate(inits)
    ]
    assert (units_of(made), slots_of(made)) == (units, slots)


def test_annotations_beyond_a_card_are_found() -> None:
    """Annotations are a finding if they put more units on a card than it has, or name a missing card; ended pods do not count."""
    assert check_api([pod("a", 8), pod("b", 6)], SIZES) == []
    assert check_api([pod("a", 8), pod("b", 6), pod("done", 9, phase="Succeeded")], SIZES) == []
    assert len(check_api([pod("a", 8), pod("b", 7)], SIZES)) == 1
    assert len(check_api([pod("a", 1, card=5)], SIZES)) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {spec.POD_INDEX: "one"},
        {spec.POD_ALLOCATION: "[]"},
        {spec.POD_ALLOCATION: '{"c": {"0": "much"}}'},
        {spec.POD_ALLOCATION: "{"},
    ],
    ids=["a word", "a list", "an amount in words", "no JSON"],
)
def test_unreadable_annotations_are_a_finding(wrong: dict[str, str]) -> None:
    """The finding names the pod and the annotation, and the cards of other pods are judged."""
    odd = pod("odd", 3)
    odd["metadata"]["annotations"] |= wrong
    (name, text), *_ = wrong.items()
    first, *others = check_api([odd, pod("a", 8), pod("b", 7)], SIZES)
    assert first.startswith("odd: ")
    assert name in first
    assert text in first
    assert len(others) == 1
    assert len(check_api([odd], SIZES)) == 1


def test_nodes_of_other_cases_are_not_judged() -> None:
    """A pod that is bound to a node without known cards over-books none."""
    stray = pod("stray", 99)
    stray["spec"]["nodeName"] = "elsewhere"
    assert check_api([stray], SIZES) == []


def test_a_node_that_is_gone_is_found_in_the_book() -> None:
    """The extender's book must not keep a node that the API does not have."""
    book = inspect(8, 0)
    book["nodes"].append({"name": "gone", "devs": [{"id": 0, "totalGPU": 14, "usedGPU": 0}]})
    assert check_inspect(book, [pod("a", 8)], SIZES) == ["gone: is in the extender's book, and no Node has this name"]


def test_variables_that_name_no_card_are_a_finding() -> None:
    """A variable that is missing, or is no number, is named with its pod."""
    for wrong in ({}, {spec.ENV_INDEX: "one"}, {spec.ENV_CONTAINER_UNITS: "much"}):
        given = told(0, 1, "GPU-a") | wrong if wrong else {}
        assert len(check_containers({("n", "a"): [given, told(1, 1, "GPU-b")]}, UUIDS, SIZES)) == 1


def test_no_evidence_is_not_a_pass() -> None:
    """An empty cluster proves nothing."""
    with pytest.raises(UnknownError):
        check_api([], SIZES)
    with pytest.raises(UnknownError):
        check_containers({}, UUIDS, SIZES)


@pytest.mark.parametrize(
    ("book", "findings"),
    [
        (inspect(8, 0), 0),
        (inspect(9, 0), 1),
        (inspect(8, 0, totals=(12, 12)), 2),
        (inspect(15, 0), 2),
        (inspect(0, 8), 2),
    ],
    ids=["agrees", "differs", "averaged sizes", "beyond the card", "another card"],
)
def test_a_book_that_is_wrong_is_found(book: dict[str, Any], findings: int) -> None:
    """Against the true sizes, and against the API."""
    assert len(check_inspect(book, [pod("a", 8)], SIZES)) == findings


def test_containers_with_too_large_amounts_are_found() -> None:
    """The sum on a card, and the card that is seen; an index will do for a UUID."""
    assert check_containers({("n", "a"): [told(0, 8, "GPU-a"), told(1, 3, "1")]}, UUIDS, SIZES) == []
    assert (
        len(check_containers({("n", "a"): [told(0, 8, "GPU-a")], ("n", "b"): [told(0, 7, "GPU-a")]}, UUIDS, SIZES)) == 1
    )
    assert len(check_containers({("n", "a"): [told(0, 8, "GPU-b")]}, UUIDS, SIZES)) == 1


@pytest.mark.parametrize(
    ("made", "containers", "findings"),
    [
        (pod("a", 1, 2), [told(0, 1, "GPU-a", 3), told(0, 2, "GPU-a", 3)], 0),
        (pod("a", 1, 2), [told(0, 1, "GPU-a", 3)], 1),
        (pod("a", 1, 2), [told(0, 2, "GPU-a", 3), told(0, 1, "GPU-a", 3)], 2),
        (pod("a", 3), [told(1, 3, "GPU-b")], 2),
        (pod("a", 3), [told(0, 3, "no-gpu-has-3GiB-to-run")], 1),
        (pod("a", 3, assigned="false"), [told(0, 3, "GPU-a")], 1),
        (pod("a", 3, card="one"), [told(0, 3, "GPU-a")], 2),
    ],
    ids=["right", "one missing", "swapped", "wrong card", "nonsense", "not assigned", "no index"],
)
def test_a_wrong_card_or_amount_is_found(made: dict[str, Any], containers: list[dict[str, str]], findings: int) -> None:
    """Each container of a pod alone."""
    assert len(check_pod(made, containers, UUIDS["n"])) == findings


@pytest.mark.parametrize("shown", ["/var/run/nvidia-container-devices", "void"])
def test_a_card_may_come_by_a_mount_or_by_cdi(shown: str) -> None:
    """The variable then names no card, which is right only if the caller expects it."""
    assert check_pod(pod("a", 3), [told(0, 3, shown)], UUIDS["n"], by_other_means=True) == []
    assert len(check_pod(pod("a", 3), [told(0, 3, shown)], UUIDS["n"])) == 1


def test_an_unknown_uuid_is_open_to_a_caller_that_expects_it() -> None:
    """The original names the card by its UUID, which its node does not publish."""
    assert check_pod(pod("a", 3), [told(0, 3, "GPU-x")], {}, by_other_means=True) == []
    assert len(check_pod(pod("a", 3), [told(0, 3, "GPU-x")], UUIDS["n"], by_other_means=True)) == 1
    assert len(check_pod(pod("a", 3), [told(0, 3, "GPU-x")], {})) == 1


def test_a_pod_without_a_card_is_found() -> None:
    """No extender chose."""
    assert len(check_pod(gpu_pod("a", 1), [], {})) == 1
