"""Why a pod has no card, and where a pod that exists only as a manifest would fit."""

from __future__ import annotations

import pytest

from clusters.api.resources import EVENTS
from clusters.api.waiting import eventually
from e2e import spec
from e2e.builders import gpu_pod
from e2e.extender.extender_under_test import ExtenderUnderTest
from e2e.observer import Observer

pytestmark = [pytest.mark.needs("explain"), pytest.mark.stand_in_only("no kubelet has a part in it")]


async def test_a_pod_that_waits_is_explained_card_by_card(observer: Observer) -> None:
    """The answer has the size, the free units and the reason of each card, as at the last question and as of now."""
    fillers = {"fill-a": 12, "fill-b": 12, "fill-c": 8}
    await observer.run(*(gpu_pod(name, units, node="b2") for name, units in fillers.items()))
    await observer.create(gpu_pod("late", 4, node="b2"))
    await observer.waits_because("late", spec.REASON_NO_CARD_FITS)
    url = f"{observer.cluster.extender_url()}{spec.EXPLAIN}/{observer.namespace}"
    said = (await observer.get(f"{url}/late")).json()

    assert said["pod"] == {
        "namespace": observer.namespace,
        "name": "late",
        "uid": (await observer.pod("late"))["metadata"]["uid"],
    }
    assert said["request"]["units"] == 4
    assert said["fits"] == []
    assert said["asked"]["times"] >= 1
    (node,) = [node for node in said["nodes"] if node["name"] == "b2"]
    assert node["reason"] == node["lastReason"] == spec.REASON_NO_CARD_FITS
    assert sorted((card["total"], card["free"], card["reason"]) for card in node["cards"]) == [
        (10, 2, "too full"), (14, 2, "too full"), (14, 2, "too full"),
    ]  # fmt: skip
    assert (await observer.get(f"{url}/nobody")).status_code == 404


async def test_a_pod_that_is_only_thought_of_changes_nothing(stage: ExtenderUnderTest) -> None:
    """The extender explains a pod that exists only as a manifest on every node with cards, and books and remembers nothing."""
    before = await stage.observer.inspect()
    small = await stage.ask(spec.EXPLAIN, gpu_pod("thought", 12))
    large = await stage.ask(spec.EXPLAIN, gpu_pod("thought", 12, annotations={spec.WISH_MODEL: "X"}))

    assert {"a1", "a2", "b2"} <= set(small["fits"])
    assert large["fits"] == []
    assert set(large["reasons"]) == {"no GPU of the node is one that the pod wishes for"}
    assert await stage.observer.inspect() == before
    assert [pod["metadata"]["name"] for pod in await stage.observer.pods()] == []
    url = f"{stage.cluster.extender_url()}{spec.EXPLAIN}/{stage.namespace}/thought"
    assert (await stage.observer.get(url)).status_code == 404


async def test_a_bound_pod_that_cannot_be_booked_is_reported(stage: ExtenderUnderTest, name: str) -> None:
    """The extender writes an event on the pod, because no scheduler asks about it any more."""
    await stage.node(name, 20, 2)
    await stage.booked("nowhere", name, 7, 4)
    selector = "reason=GPUShareNotBooked,involvedObject.name=nowhere"
    (event,) = await eventually(
        lambda: stage.api.list(EVENTS, stage.namespace, field_selector=selector), bool, "the pod has an event"
    )

    assert f"annotations name card 7, but node {name} has the cards [0, 1]" in event["message"]
