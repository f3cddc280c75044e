"""Which of the nodes that hold a pod is the best, and which of their cards."""

from __future__ import annotations

import pytest

from e2e import spec
from e2e.builders import gpu_pod
from e2e.extender.extender_under_test import ExtenderUnderTest, Object
from e2e.observer import Observer

pytestmark = pytest.mark.needs("prioritize")

_SPREAD = {spec.WISH_POLICY: "spread"}


@pytest.mark.promise("EXT-016")
async def test_every_host_has_a_whole_score(stage: ExtenderUnderTest) -> None:
    """A bare array in the order asked, integers from 0 to 10, also for unknown nodes and those that do not fit the pod."""
    names = ["b2", "nowhere", "a1", "a2"]
    for pod in (
        stage.pod("p", 3),
        stage.pod("large", 12),
        stage.pod("huge", 99),
        stage.pod("s", 3, annotations=_SPREAD),
    ):
        scores = await stage.prioritize(pod, *names)

        assert [one["Host"] for one in scores] == names
        assert all(type(one["Score"]) is int and 0 <= one["Score"] <= 10 for one in scores)
        assert all(set(one) == {"Host", "Score"} for one in scores)


@pytest.mark.needs("binpack", "device_plugin", "wishes")
@pytest.mark.promise("EXT-017")
async def test_binpack_likes_the_fuller_node_and_spread_the_emptier(stage: ExtenderUnderTest) -> None:
    """The pod's wish decides, else the cluster's policy."""
    await stage.observer.run(gpu_pod("there", 8, node="a2"))
    await stage.used("a2", 8, 0)
    binpack = await _scores(stage, stage.pod("p", 2))
    spread = await _scores(stage, stage.pod("p", 2, annotations=_SPREAD))

    assert binpack["a2"] > binpack["b2"]
    assert spread["a2"] < spread["b2"]


@pytest.mark.needs("binpack", "device_plugin")
@pytest.mark.promise("EXT-017")
async def test_pods_fill_the_node_that_is_in_use(observer: Observer) -> None:
    """A scheduler puts them one after the other onto the node of the first, though others are empty."""
    names = [f"p{number}" for number in range(4)]
    nodes = []
    for name in names:
        nodes.append((await observer.run(gpu_pod(name, 2)))[0]["spec"]["nodeName"])

    assert len(set(nodes)) == 1
    await observer.check_right_cards(*names)


@pytest.mark.needs("device_plugin", "wishes")
@pytest.mark.promise("EXT-017")
async def test_a_pod_that_wants_to_be_spread_gets_another_card(observer: Observer) -> None:
    """The second shares the first's card, the third does not, because its annotation forbids it."""
    cards = []
    for pod in (
        gpu_pod("one", 2, node="a2"),
        gpu_pod("two", 2, node="a2"),
        gpu_pod("three", 2, node="a2", annotations=_SPREAD),
    ):
        (seen,) = await observer.run(pod)
        cards.append(seen["metadata"]["annotations"][spec.POD_INDEX])

    assert cards[0] == cards[1] != cards[2]
    await observer.check_all("one", "two", "three")


async def _scores(stage: ExtenderUnderTest, pod: Object) -> dict[str, int]:
    return {one["Host"]: one["Score"] for one in await stage.prioritize(pod, "a2", "b2")}
