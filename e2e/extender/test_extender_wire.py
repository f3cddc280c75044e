"""kube-scheduler's questions and the answers that it reads, over HTTP from the extender of a running cluster."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from clusters.api.resources import NODES
from clusters.targets import Target
from e2e import spec
from e2e.extender.extender_under_test import ExtenderUnderTest, Object, refused
from e2e.observer import Observer

pytestmark = pytest.mark.stand_in_only("no kubelet has a part in it")

NAMES: Final = ("a1", "a2", "b2", "nowhere")


@pytest.mark.promise("EXT-004", "EXT-013")
async def test_a_filter_by_names_answers_names_of_the_question(stage: ExtenderUnderTest) -> None:
    """A part of the nodes asked about, each once, and a list even if it is empty; of one node, too, as for a nominated pod."""
    fit = await stage.filter(stage.pod("p", 11), "a2", "a1", "b1")
    none = await stage.filter(stage.pod("p", 15), "a1")

    assert sorted(fit["NodeNames"]) == ["a1", "a2"]
    assert await stage.fits(stage.pod("p", 14), "a1") == ["a1"]
    assert (none["NodeNames"], none["Error"]) == ([], "")


@pytest.mark.promise("D23")
async def test_d23_a_filter_by_names_sends_no_nodes(stage: ExtenderUnderTest) -> None:
    """D23: a question with names was answered with full Nodes beside them, which a scheduler reads and passes over."""
    assert (await stage.filter(stage.pod("p", 11), "a2", "a1", "b1")).get("Nodes") is None


@pytest.mark.promise("EXT-005", "EXT-032")
async def test_a_filter_by_nodes_gives_them_back_as_they_came(stage: ExtenderUnderTest) -> None:
    """Those fields that a scheduler reads. One without a node cache sends tens of megabytes on a large cluster; here eight."""
    nodes = [await stage.api.get(NODES, name) for name in ("a1", "a2")]
    nodes[0]["metadata"]["annotations"] = {"large": "x" * (8 << 20)}
    asked = {"Pod": stage.pod("p", 11), "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}
    answer = await stage.ask(spec.FILTER, asked)

    assert list(map(_read, answer["Nodes"]["items"])) == list(map(_read, nodes))


def _read(node: Object) -> tuple[object, ...]:
    return node["metadata"]["name"], node["metadata"].get("labels"), node.get("spec"), node["status"].get("allocatable")


@pytest.mark.needs("unresolvable")
@pytest.mark.promise("EXT-007")
async def test_a_node_that_no_end_cures_is_unresolvable(stage: ExtenderUnderTest) -> None:
    """Nodes that the end of pods cures are in the one map, nodes that nothing cures in the other."""
    await stage.observer.run(stage.pod("full", 14, scheduler="default-scheduler", node="a1"))
    await stage.used("a1", 14)
    answer = await stage.filter(stage.pod("p", 11), *NAMES)
    large = await stage.filter(stage.pod("p", 20), *NAMES)

    assert set(answer["FailedNodes"]) == {"a1"}
    assert set(answer["FailedAndUnresolvableNodes"]) == {"nowhere"}
    assert (large["FailedNodes"], set(large["FailedAndUnresolvableNodes"])) == ({}, set(NAMES))


@pytest.mark.promise("EXT-014", "EXT-015")
@pytest.mark.parametrize("units", [(), ("0",), (0, 0)], ids=["none", "quantity 0", "twice 0"])
async def test_a_pod_that_asks_for_nothing_passes(
    stage: ExtenderUnderTest, target: Target, units: tuple[object, ...]
) -> None:
    """On every node, also on an unknown one; a target may declare that it refuses such pods on nodes without cards."""
    pod = stage.pod("p", *units)
    pod["spec"]["containers"] = pod["spec"]["containers"] or [{"name": "c", "image": "none"}]

    without_cards = ["nowhere"] if target.differences.pods_without_memory == "pass" else []
    assert sorted(await stage.fits(pod, "a1", "nowhere")) == ["a1", *without_cards]


@pytest.mark.promise("EXT-002", "EXT-003")
@pytest.mark.parametrize(
    "question",
    [
        {"pod": None, "nodes": None, "nodenames": ["a1", "nowhere"]},
        {"POD": None, "nodeNames": ["a1", "nowhere"]},
        {"Pod": None, "Nodes": None, "NodeNames": ["a1", "nowhere"], "Unknown": {"x": None}},
    ],
    ids=["up to 1.16", "any casing", "today"],
)
async def test_keys_are_read_in_any_casing(stage: ExtenderUnderTest, question: dict[str, Any]) -> None:
    """Null is absent, and unknown keys are passed over."""
    pod = {**stage.pod("p", 1), "status": None}
    asked = {key: pod if key.lower() == "pod" else value for key, value in question.items()}
    answer = await stage.ask(spec.FILTER, asked)

    assert (answer["NodeNames"], set(refused(answer))) == (["a1"], {"nowhere"})


@pytest.mark.promise("EXT-006", "EXT-031")
async def test_a_filter_of_five_thousand_names(stage: ExtenderUnderTest) -> None:
    """Each is in the answer or, with a reason, in one map of failures. (How long that takes is measured by make bench.)"""
    await stage.observer.run(stage.pod("full", 14, scheduler="default-scheduler", node="a1"))
    await stage.used("a1", 14)
    names = ["a1", "b1", *(f"node-{number:04}" for number in range(5000))]
    answer = await stage.filter(stage.pod("p", 11), *names, "a2")

    assert answer["NodeNames"] == ["a2"]
    assert refused(answer).keys() == set(names)
    assert all(refused(answer).values())


@pytest.mark.promise("EXT-024")
async def test_the_same_question_has_the_same_answer(observer: Observer, stage: ExtenderUnderTest) -> None:
    """A filter books nothing: asked fifty times in parallel, the book is as it was."""
    (pod,) = await stage.create(stage.pod("p", 9))
    before = await observer.booked()
    answers = await asyncio.gather(*(stage.filter(pod, "a1", "a2", "b1", "b2") for _ in range(50)))

    assert all(answer == answers[0] for answer in answers)
    assert await observer.booked() == before
