"""The wishes that people write on a pod, from the annotation to the card that its container sees."""

from __future__ import annotations

import pytest

from clusters.api.api_client import ApiError
from clusters.api.resources import RESOURCE_QUOTAS
from clusters.api.waiting import eventually
from e2e import spec
from e2e.builders import gpu_pod
from e2e.checkers.pod_requests import card_of
from e2e.observer import Observer

pytestmark = pytest.mark.needs("device_plugin", "wishes")

# a2: two T4 of 14 units; b2: two T4 of 14 and a GTX 1080 Ti of 10, which is the tightest for anything small.


async def test_a_card_of_the_model_that_is_wished_for(observer: Observer) -> None:
    """Among a T4 and a tighter GTX 1080 Ti the wish decides, and what is banned is not taken."""
    await observer.create(
        gpu_pod("t4", 2, node="b2", annotations={spec.WISH_MODEL: "t4"}),
        gpu_pod("not-t4", 2, node="b2", annotations={spec.WISH_MODEL + "-not": "T4"}),
        gpu_pod("h100", 2, node="b2", annotations={spec.WISH_MODEL: "H100,A100"}),
    )
    pods = await observer.running("t4", "not-t4")
    names = {card["index"]: card["name"] for card in observer.cluster.cards("b2")}

    assert "T4" in names[card_of(pods[0])]
    assert "1080" in names[card_of(pods[1])]
    await observer.waits_because("h100", "wishes for")
    await observer.check_all("t4", "not-t4")


@pytest.mark.parametrize("index", [0, 1])
async def test_the_card_of_the_uuid_that_is_wished_for(observer: Observer, index: int) -> None:
    """Either of two equal cards, and the container sees that one."""
    uuid = observer.uuids("a2")[index]
    await observer.run(gpu_pod("p", 2, annotations={spec.WISH_UUID: uuid}))
    (pod,) = await observer.check_right_cards("p")
    ((told,),) = [await observer.variables(pod)]

    assert (pod["spec"]["nodeName"], card_of(pod)) == ("a2", index)
    assert told[spec.ENV_VISIBLE] == uuid


async def test_pods_of_one_name_share_a_card(observer: Observer) -> None:
    """The second follows the first, though another card is tighter; if there is no room it waits for that card."""
    uuids = observer.uuids("a2")
    (first,) = await observer.run(gpu_pod("first", 2, node="a2", annotations={spec.WISH_SAME_CARD: "team"}))
    other = uuids[1 - card_of(first)]
    await observer.run(gpu_pod("filler", 10, node="a2", annotations={spec.WISH_UUID: other}))
    (second,) = await observer.run(gpu_pod("second", 3, annotations={spec.WISH_SAME_CARD: "team"}))
    await observer.create(gpu_pod("third", 12, annotations={spec.WISH_SAME_CARD: "team"}))

    assert (second["spec"]["nodeName"], card_of(second)) == ("a2", card_of(first))
    await observer.waits_because("third", "")
    assert "nodeName" not in (await observer.pod("third"))["spec"]
    await observer.check_all("first", "second", "filler")


@pytest.mark.needs("several-cards")
async def test_a_container_on_two_cards(observer: Observer) -> None:
    """Twelve units as 8 and 4: the container sees both cards, each has its part in the books, and what is left is others'."""
    await observer.run(gpu_pod("wide", 12, node="a2", annotations={spec.WISH_SPLIT: "4, 8"}))
    ((told,),) = [await observer.variables(await observer.pod("wide"))]

    assert set(told[spec.ENV_VISIBLE].split(",")) == set(observer.uuids("a2").values())
    assert told[spec.ENV_CONTAINER_UNITS] == "12"
    book = await observer.inspect("/a2")
    assert sorted(card["usedGPU"] for node in book["nodes"] for card in node["devs"]) == [4, 8]
    await observer.run(gpu_pod("ten", 10, node="a2"), gpu_pod("six", 6, node="a2"))
    await observer.check_right_cards("ten", "six")


async def test_a_card_of_ones_own(observer: Observer) -> None:
    """Ten units as a whole card: the GTX 1080 Ti that has just these, once it is empty, and none of the larger ones."""
    await observer.run(gpu_pod("there", 1, node="b2"))
    await observer.create(gpu_pod("whole", 10, node="b2", annotations={spec.WISH_SPLIT: "whole"}))
    await observer.waits_because("whole", spec.REASON_NO_CARD_FITS)
    await observer.delete("there")
    (whole,) = await observer.running("whole", seconds=120)
    (beside,) = await observer.run(gpu_pod("beside", 1, node="b2"))

    card = next(card for card in observer.cluster.cards("b2") if card["index"] == card_of(whole))
    assert "1080" in card["name"]
    assert card_of(beside) != card_of(whole)
    await observer.check_right_cards("whole", "beside")


async def test_a_wish_that_cannot_be_read_is_a_reason(observer: Observer) -> None:
    """The event names the annotation; no card is given that was not wished for."""
    await observer.create(gpu_pod("p", 2, node="a2", annotations={spec.WISH_SPLIT: "most of it"}))

    await observer.waits_because("p", spec.WISH_SPLIT)


async def test_a_quota_of_card_memory_holds(observer: Observer) -> None:
    """A namespace has five units: three run, three more are refused by the API server, and come when the first have gone."""
    resource, api = f"requests.{spec.RESOURCE_MEMORY}", observer.cluster.api

    async def used() -> str:
        quota = await api.get(RESOURCE_QUOTAS, "cards", observer.namespace)
        return str((quota.get("status", {}).get("used") or {}).get(resource))

    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "cards"}}
    await observer.create({**quota, "spec": {"hard": {resource: "5"}}})
    await eventually(used, lambda units: units == "0", "the quota counts no unit")
    await observer.run(gpu_pod("first", 3, node="a1"))
    await eventually(used, lambda units: units == "3", "the quota counts the units of the pod")
    with pytest.raises(ApiError, match="exceeded quota"):
        await observer.create(gpu_pod("second", 3, node="a1"))
    await observer.delete("first")
    await eventually(used, lambda units: units == "0", "the quota counts no unit any more")

    await observer.run(gpu_pod("second", 3, node="a1"))
    await observer.check_right_cards("second")
