"""Pods share cards, and get the card that they were promised."""

from __future__ import annotations

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


@pytest.mark.needs("explain")
async def test_page_shows_a_pod_that_no_extender_was_asked_for(observer: Observer) -> None:
    """kube-scheduler refuses it by the sum of each node; the page has kube-scheduler's own words."""
    await observer.create(gpu_pod("too-large", 1000))
    await observer.waits_because("too-large", "nsufficient")

    async def report() -> str:
        state = (await observer.get(f"{observer.cluster.extender_url()}/ui/state")).json()
        waiting = (one for one in state["waiting"] if one[:2] == [observer.namespace, "too-large"])
        return next((f"{one[5]} {one[10]}" for one in waiting), "")

    await eventually(report, lambda text: text.startswith("0 ") and "nsufficient" in text, "the page shows the report")
