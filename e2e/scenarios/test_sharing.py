"""Pods share cards, and get the card that they were promised."""

from __future__ import annotations

import asyncio

import pytest

from clusters.api.waiting import eventually
from e2e import spec
from e2e.builders import DEMO, gpu_pod
from e2e.observer import Observer


@pytest.mark.promise("DP-011", "E2E-001")
async def test_three_pods_share_one_card(observer: Observer) -> None:
    """Three pods of 1 GiB on a node with one card run on it together, and hold what their image holds."""
    names = [f"share-{number}" for number in range(3)]
    await observer.run(*(gpu_pod(name, 1, node="a1", plays=DEMO) for name in names))

    await observer.check_all(*names)
    (card,) = observer.cluster.cards("a1")
    assert [process["mib"] for process in card["processes"]] == [1253, 1253, 1253]


@pytest.mark.promise("D29", "E2E-003", "EXT-035")
async def test_a_node_with_room_in_total_but_on_no_card_is_refused(observer: Observer) -> None:
    """2 + 2 units are left on two cards; a pod of 4 waits, and takes the card that is freed (defect D29: minutes later)."""
    await observer.run(*(gpu_pod(name, 12, node="a2") for name in ("fill-a", "fill-b")))
    await observer.create(gpu_pod("late", 4, node="a2"))

    await observer.waits_because("late", "")
    assert (await observer.pod("late"))["status"]["phase"] == "Pending"

    freed = (await observer.pod("fill-b"))["metadata"]["annotations"][spec.POD_INDEX]
    await observer.delete("fill-b")
    (late,) = await observer.running("late")
    assert freed == late["metadata"]["annotations"][spec.POD_INDEX]
    await observer.check_all("late", "fill-a")


@pytest.mark.promise("D05", "D06")
async def test_mixed_cards_are_booked_by_their_own_size(observer: Observer) -> None:
    """On two T4 (14) and a 1080 Ti (10) three pods of 12, 12 and 10 fit, each on a card of its own (defects D5, D6)."""
    sizes = {"big-0": 12, "big-1": 12, "small": 10}
    await observer.run(*(gpu_pod(name, units, node="b2") for name, units in sizes.items()))

    pods = await observer.check_right_cards(*sizes)
    assert len({pod["metadata"]["annotations"][spec.POD_INDEX] for pod in pods}) == 3
    assert {"14", "10"} == {pod["metadata"]["annotations"][spec.POD_DEVICE_UNITS] for pod in pods}
    await observer.check_books()


@pytest.mark.promise("D01", "DP-011")
async def test_two_equal_pods_created_together_get_their_own_cards(observer: Observer) -> None:
    """Two pods of 9 units cannot share a card of 14, and neither gets the other's card (ext#220, defect D1)."""
    for round_number in range(3):
        names = [f"twin-{round_number}-{number}" for number in range(2)]
        await observer.run(*(gpu_pod(name, 9, node="a2") for name in names))

        pods = await observer.check_right_cards(*names)
        assert len({pod["metadata"]["annotations"][spec.POD_INDEX] for pod in pods}) == 2
        await observer.check_books()
        await asyncio.gather(*(observer.delete(name) for name in names))
        await eventually(observer.pods, lambda pods: not pods, "the twins are gone")


@pytest.mark.promise("D02", "DP-012")
async def test_a_pod_of_two_gpu_containers_gets_both_right(observer: Observer) -> None:
    """Containers of 1 and 2 units run on the pod's one card, and each gets its own amount (ext#143, defect D2)."""
    await observer.run(gpu_pod("two", 1, 2, node="a2"), gpu_pod("three", 3, node="a2"))

    await observer.check_all("two", "three")
