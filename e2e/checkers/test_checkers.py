"""Each rule refuses the histories that break it, with pod, node, card and time, and lets pass what is well."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from e2e import spec
from e2e.builders import gpu_container, gpu_pod
from e2e.checkers import UnknownError
from e2e.checkers.extender_answers import book_adds_up, book_beyond_cards, book_differs, kept_binds, refused_binds
from e2e.checkers.history import Asked, Card, Cards, Change, Entry, Finding, Judge, Listed, Rule, State, Told, judge
from e2e.checkers.overcommit import need_evidence, over_booked, over_slotted, over_told, sees_its_card, unreadable
from e2e.checkers.pod_requests import slots_of, units_of
from e2e.checkers.right_card import right_card

ALL: tuple[Rule, ...] = (
    unreadable, over_booked, over_slotted, over_told, sees_its_card, right_card, book_adds_up, book_beyond_cards, book_differs,
    kept_binds, refused_binds,
)  # fmt: skip
CARDS = Cards(0.5, "n", {0: Card(14, "GPU-a"), 1: Card(10, "GPU-b")})
NODES = [{"metadata": {"name": "n"}}]
IN_SLOTS = {"v": 1, "mode": "slots", "cards": [{"index": 0, "uuid": "GPU-a", "units": 14, "healthy": True, "slots": 2}]}
SLOTTED = [{"metadata": {"name": "n", "annotations": {spec.NODE_CARDS: json.dumps(IN_SLOTS)}}}]


def pod(
    name: str, *units: int, card: object = 0, phase: str = "Running", assigned: str = "true", node: str | None = "n"
) -> dict[str, Any]:
    """A pod as the API shows it; bound unless it has no node."""
    made = gpu_pod(name, *units, bound_to=node)
    made["metadata"] |= {"namespace": "x", "uid": f"uid-{name}"}
    if card is not None:
        made["metadata"]["annotations"] = {spec.POD_INDEX: str(card), spec.POD_ASSIGNED: assigned}
    made["status"] = {"phase": phase}
    return made


def told(card: object, units: object, visible: str, pod_units: object = None) -> dict[str, str]:
    """A container's variables."""
    amounts = {spec.ENV_CONTAINER_UNITS: str(units), spec.ENV_POD_UNITS: str(pod_units or units)}
    return {spec.ENV_INDEX: str(card), spec.ENV_VISIBLE: visible, **amounts}


def listed(*pods: dict[str, Any]) -> list[Entry]:
    """The cards, and one look at the cluster."""
    return [CARDS, Listed(1.0, pods, NODES)]


def book(*used: object, totals: tuple[int, ...] = (14, 10), name: str = "n") -> Asked:
    """The extender's book, as it answers."""
    devices = [
        {"id": i, "totalGPU": total, "usedGPU": units}
        for i, (total, units) in enumerate(zip(totals, used, strict=True))
    ]
    return Asked(3.0, spec.INSPECT, None, {"nodes": [{"name": name, "devs": devices}]})


def parts(on_the_node: int, on_the_card: int, *pods: int) -> Asked:
    """A book with the pods of its one card."""
    device = {"id": 0, "totalGPU": 14, "usedGPU": on_the_card, "pods": [{"usedGPU": units} for units in pods]}
    return Asked(3.0, spec.INSPECT, None, {"nodes": [{"name": "n", "usedGPU": on_the_node, "devs": [device]}]})


def bind(name: str, error: str = "", status: int = 200) -> Asked:
    """A bind, as it is answered."""
    return Asked(0.7, spec.BIND, {"PodUID": f"uid-{name}", "Node": "n"}, {"Error": error}, status)


TWO = pod("two", 3, 4)
GOOD = [
    bind("a"),
    bind("waits", "no room"),
    *listed(pod("a", 8), pod("b", 10, card=1), TWO | {"status": {"phase": "Succeeded"}}, pod("waits", 9, card=None, node=None)),
    Told(2.0, "uid-a", [told(0, 8, "GPU-a")]),
    Told(2.1, "uid-b", [told(1, 10, "1")]),
    book(8, 10),
]  # fmt: skip


def test_a_history_of_what_is_well_has_no_findings() -> None:
    """Pods on both cards, one that has ended and one that waits; a card may be named by its UUID or by its index."""
    assert judge(GOOD, *ALL) == []


@pytest.mark.parametrize(
    ("rule", "history", "line"),
    [
        (over_booked, listed(pod("a", 8), pod("b", 7)),
         "1.0 s, over-booked: card 0 of n: 15 are booked, it has 14: x/a 8, x/b 7"),
        (over_booked, [CARDS, Change(1.0, "ADDED", pod("a", 8)), Change(1.5, "MODIFIED", pod("b", 7)),
                       Change(1.6, "DELETED", pod("a", 8))],
         "1.5 s, over-booked: x/b, card 0 of n: 15 are booked, it has 14: x/a 8, x/b 7"),
        (over_booked, [Listed(0.1, [pod("a", 15)]), CARDS],
         "0.5 s, over-booked: card 0 of n: 15 are booked, it has 14: x/a 15"),
        (over_slotted, [Listed(1.0, [pod("a", 1, 1)], SLOTTED), Listed(2.0, [pod("a", 1, 1), pod("b", 1)], SLOTTED)],
         "2.0 s, over-slotted: card 0 of n: 3 containers, it has 2 slots"),
        (over_told, [*listed(pod("a", 8), pod("b", 6)), Told(2.0, "uid-a", [told(0, 8, "GPU-a")]),
                     Told(2.5, "uid-b", [told(0, 7, "GPU-a")])],
         "2.5 s, over-told: x/b, card 0 of n: containers were told 15 units, it has 14"),
        (sees_its_card, [*listed(pod("a", 8)), Told(2.0, "uid-a", [told(0, 8, "GPU-b")])],
         "2.0 s, variables: x/a, n: card 0, but it sees GPU-b"),
        (sees_its_card, [*listed(pod("a", 8)), Told(2.0, "uid-a", [told("one", 8, "GPU-a")])],
         "2.0 s, variables: x/a, n: its variables name no card and amount: "
         "{'ALIYUN_COM_GPU_MEM_IDX': 'one', 'ALIYUN_COM_GPU_MEM_CONTAINER': '8'}"),
        (book_beyond_cards, [*listed(), book(15, 0)],
         "3.0 s, book: card 0 of n: 15 of 14 units are in use in the extender's book"),
        (book_beyond_cards, [*listed(), book(0, 3, name="gone")],
         "3.0 s, book: card 1 of gone: 3 units are in use in the extender's book, and no Node has this name"),
        (book_beyond_cards, [*listed(), book("much", 0)],
         "3.0 s, book: the extender's book cannot be read: Expected `int`, got `str` - at `$.nodes[0].devs[0].usedGPU`"),
        (book_adds_up, [parts(5, 5, 2, 3), parts(5, 5, 2)],
         "3.0 s, book adds up: card 0 of n: 5 units are in use in the extender's book, and 2 by its pods there"),
        (book_differs, [*listed(pod("a", 8)), Change(2.0, "DELETED", pod("a", 8)), book(8, 0)],
         "3.0 s, book differs: card 0 of n: 8 in the extender's book, 0 in the API"),
        (kept_binds, [bind("a"), *listed(pod("a", 8, card=None, node=None))],
         "0.7 s, kept bind: x/a: its bind to n was answered without an error; it is on no node and has no card"),
        (refused_binds, [bind("a", status=500), *listed(pod("a", 8, node=None))],
         "0.7 s, refused bind: x/a: its bind to n was refused, and its annotations name a card"),
    ],
    ids=[
        "too much", "for a moment", "cards seen later", "slot not counted", "told too much", "another card seen",
        "no card named", "beyond the card", "node that is gone", "no number", "pods do not add up",
        "pod that is gone", "not bound", "annotation left",
    ],
)  # fmt: skip
def test_a_history_that_breaks_a_rule_is_refused(rule: Rule, history: list[Entry], line: str) -> None:
    """There is one finding, and its line has time, rule, pod, card and node."""
    assert list(map(str, judge(history, rule))) == [line]


@pytest.mark.parametrize(
    "wrong",
    [{spec.POD_INDEX: "one"}, {spec.POD_ALLOCATION: '{"c": {"0": "much"}}'}],
    ids=["a word", "an amount in words"],
)
def test_unreadable_annotations_are_a_finding(wrong: dict[str, str]) -> None:
    """The finding names the pod and the annotation, and the cards of other pods are judged."""
    odd = pod("odd", 3)
    odd["metadata"]["annotations"] |= wrong
    (name, text), *_ = wrong.items()
    first, *others = judge(listed(odd, pod("a", 8), pod("b", 7)), unreadable, over_booked)
    assert first.pod == "x/odd"
    assert name in first.text
    assert text in first.text
    assert len(others) == 1
    assert [one.rule for one in judge(listed(odd), *ALL)] == ["unreadable"]


@pytest.mark.parametrize(
    ("made", "containers", "found"),
    [
        (pod("a", 3), [told(0, 3, "GPU-a")], []),
        (pod("a", 1, 2), [told(0, 1, "0", 3)], ["2 containers ask for memory, 1 got variables of ours"]),
        (pod("a", 3), [told(1, 3, "GPU-b")],
         ["container 0: ALIYUN_COM_GPU_MEM_IDX is 1, should be 0", "container 0: sees GPU-b, should see card 0"]),
        (pod("a", 3), [told(0, 4, "GPU-a", 3)], ["container 0: ALIYUN_COM_GPU_MEM_CONTAINER is 4, should be 3"]),
        (pod("a", 3, assigned="false"), [told(0, 3, "GPU-a")], ["annotation ALIYUN_COM_GPU_MEM_ASSIGNED is false, should be true"]),
        (pod("a", 3, card=None), [told(0, 3, "GPU-a")], ["no annotation names a card"]),
    ],
    ids=["right", "one missing", "wrong card", "amount", "not assigned", "no annotation"],
)  # fmt: skip
def test_a_wrong_card_or_amount_is_found(
    made: dict[str, Any], containers: list[dict[str, str]], found: list[str]
) -> None:
    """Each container of a pod alone."""
    seen = judge([*listed(made), Told(2.0, "uid-a", containers)], right_card)
    assert [one.text for one in seen] == found
    assert {(one.at, one.pod, one.node) for one in seen} <= {(2.0, "x/a", "n")}


def test_a_case_is_judged_by_its_pods_and_their_nodes() -> None:
    """A wrong node on which no pod of the namespace was is another's finding; one that its pods have left counts."""
    stray = pod("stray", 99, node="m")
    stray["metadata"]["namespace"] = "y"
    history = [
        *listed(stray, pod("a", 8)),
        Cards(1.1, "m", {0: Card(10)}),
        Change(1.2, "DELETED", pod("a", 8)),
        book(8, 0),
    ]

    def subjects(namespace: str, *nodes: str) -> list[str]:
        return [one.node for one in judge(history, *ALL, namespace=namespace, nodes=nodes)]

    assert (subjects(""), subjects("x"), subjects("y")) == (["m", "n"], ["n"], ["m"])
    assert (subjects("z"), subjects("z", "m")) == ([], ["m"])
    (found,) = judge([*listed(), book("much", 0)], *ALL, namespace="z")
    assert found.text.startswith("the extender's book cannot be read")


def test_the_same_trouble_is_found_once() -> None:
    """A card that stays over-booked is one finding, of the time at which it was first."""
    judging = Judge(over_booked)
    for entry in [*listed(pod("a", 15)), Change(2.0, "ADDED", pod("b", 1)), Change(3.0, "ADDED", pod("c", 1, card=7))]:
        judging.take(entry)
    assert [(one.at, one.card) for one in judging.findings] == [(1.0, 0), (3.0, 7)]


def test_a_rule_that_fails_in_itself_gives_no_verdict() -> None:
    """It is no failure of what is judged: the error is no AssertionError, and names the rule and the time."""

    def careless(_: State, entry: Entry) -> list[Finding]:
        return [Finding("careless", entry.at, os.environ["NO SUCH VARIABLE"])]

    with pytest.raises(UnknownError, match=r"careless failed at 0\.7 s: KeyError"):
        judge(GOOD, careless)
    assert not issubclass(UnknownError, AssertionError)


@pytest.mark.parametrize(
    ("history", "missing"),
    [
        ([], "no pod of x is bound"),
        ([*listed(pod("a", 8, card=None)), Told(2.0, "uid-a", [told(0, 8, "GPU-a")])], "no pod of x is bound"),
        ([Listed(1.0, [pod("a", 8)]), Told(2.0, "uid-a", [told(0, 8, "GPU-a")])], "no pod of x is bound"),
        ([*listed(pod("a", 8)), Change(1.5, "DELETED", pod("a", 8))], "no pod of x is bound"),
        (listed(pod("a", 8)), "no container of x has told"),
    ],
    ids=["nothing", "no annotation", "no card known", "the pod is gone", "no variables"],
)
def test_no_evidence_is_not_a_pass(history: list[Entry], missing: str) -> None:
    """A cluster without pods of the case proves nothing."""
    need_evidence(GOOD, "x")
    with pytest.raises(UnknownError, match=missing):
        need_evidence(history, "x")


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
