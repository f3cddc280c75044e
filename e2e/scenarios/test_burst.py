"""Many pods together: no card is ever over-booked, whichever program's book is read."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from clusters.api.waiting import eventually, meanwhile
from e2e import spec
from e2e.builders import gpu_pod
from e2e.checkers.extender_answers import book_beyond_cards
from e2e.checkers.history import Asked
from e2e.checkers.judgement import Finding, judge
from e2e.checkers.overcommit import Sizes, booked_in_api
from e2e.checkers.pod_requests import units_of
from e2e.observer import Observer

SEED = 20260901
PODS = 100
# A real kubelet on a small machine starts one or two containers a second.
_SECONDS = 240


def is_settled(pods: list[dict[str, Any]], sizes: Sizes) -> bool:
    """Bound pods run; for every other no card has room."""
    if len(pods) != PODS:
        return False
    bound = [pod for pod in pods if pod["spec"].get("nodeName")]
    if any(pod["status"].get("phase") != "Running" for pod in bound):
        return False
    booked = booked_in_api(pods)
    largest = max(
        units - booked.get((node, index), 0) for node, cards in sizes.items() for index, units in cards.items()
    )
    return all(units_of(pod) > largest for pod in pods if not pod["spec"].get("nodeName"))


@pytest.mark.promise("D05", "E2E-002", "EXT-023")
async def test_a_hundred_pods_at_once_over_book_no_card(observer: Observer) -> None:
    """No book ever has more on a card than it holds, while pods of random sizes come to six nodes and after they have settled."""
    rng = random.Random(SEED)
    sizes = await observer.sizes()
    manifests = [gpu_pod(f"burst-{number:03}", rng.choice([1, 1, 2, 2, 3, 5, 8, 12])) for number in range(PODS)]
    cards = [observer.cards(node) for node in sizes]
    overbooked: list[Finding] = []

    async def look_on() -> None:
        """Meanwhile the extender never books more on a card than the card has."""
        while True:
            asked = Asked(0.0, spec.INSPECT, None, await observer.inspect())
            overbooked.extend(judge([*cards, asked], book_beyond_cards))
            await asyncio.sleep(0.05)

    async with meanwhile(look_on()):
        await observer.create(*manifests)
        pods = await eventually(
            observer.pods, lambda seen: is_settled(seen, sizes), "all that fit run", seconds=_SECONDS
        )
    assert overbooked == []
    phases = Counter(pod["status"]["phase"] for pod in pods)
    assert phases["Running"] + phases["Pending"] == PODS
    # Only large pods stay pending, so most of the units must be in use.
    booked, there = sum(booked_in_api(pods).values()), sum(sum(cards.values()) for cards in sizes.values())
    assert booked >= 0.8 * there

    await observer.check_books()
    running = [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"]
    await observer.check_right_cards(*running)
    assert all(
        spec.POD_INDEX not in (pod["metadata"].get("annotations") or {})
        for pod in pods
        if not pod["spec"].get("nodeName")
    )
