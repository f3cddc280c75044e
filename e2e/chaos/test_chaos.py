"""No killed, paused or cut-off program makes two extenders give one card twice, and nothing stays behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from clusters.api.waiting import eventually
from clusters.providers import Choices
from clusters.targets import Target
from e2e import spec
from e2e.builders import NO_SCHEDULER, gpu_pod
from e2e.chaos.actors import LAG_SECONDS, Actor, Troupe, torment
from e2e.chaos.crowd import Crowd
from e2e.checkers.extender_answers import book_beyond_cards, book_differs
from e2e.checkers.history import Asked, Finding, judge
from e2e.live_history import LiveHistory
from e2e.metrics import total_in
from e2e.observer import Observer
from e2e.summary import add_note

pytestmark = [
    pytest.mark.needs("guarded"),
    pytest.mark.stand_in_only("its programs and their proxies are on this machine's loopback"),
]


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    """How long it goes on; the scheduler must be a process that can be killed and paused."""
    if request.config.getoption("--cluster") != "controlplane":
        pytest.skip("the embedded scheduler is no process that could be killed or paused: --cluster controlplane")
    return float(request.config.getoption("--chaos-seconds"))


@pytest_asyncio.fixture(loop_scope="session")
async def history(observer: Observer) -> AsyncIterator[LiveHistory]:
    """The bookings of all pods of the cluster, from here on."""
    history = LiveHistory(*(observer.cards(node) for node in await observer.sizes()))
    async with history.following(observer.cluster.api):
        yield history


@pytest.mark.promise("API-009")
@pytest.mark.timeout(3600)
async def test_no_card_is_over_booked_by_kills_pauses_and_cuts(
    request: pytest.FixtureRequest,
    seconds: float,
    observer: Observer,
    history: LiveHistory,
    target: Target,
    choices: Choices,
    tmp_path: Path,
) -> None:
    """No card is over-booked at any instant of the watch; then all pods run, and both books are the API's, without drift."""
    seed = request.config.getoption("--chaos-seed")
    sizes, log = await observer.sizes(), list[str]()
    crowd = Crowd(observer, history, sum(sum(cards.values()) for cards in sizes.values()), seed)
    async with Troupe(observer.cluster, target, choices, tmp_path).playing() as (extenders, scheduler):
        async with crowd.milling():
            await crowd.full()
            actors = [*extenders, scheduler]
            await asyncio.gather(
                *(torment(actor, random.Random(f"{seed}/{actor.name}"), seconds, log) for actor in actors)
            )
            await crowd.full()
        pods = await crowd.all_run()
        say(request, f"seed {seed}, {seconds:.0f} s, {len(log)} blows", crowd, history)

        assert history.findings == []
        await observer.check_right_cards(*(pod["metadata"]["name"] for pod in pods))
        for extender in extenders:
            await book_is_right(observer, extender)


async def test_without_the_guard_extenders_that_hear_late_over_book(
    seconds: float, observer: Observer, history: LiveHistory, target: Target, choices: Choices, tmp_path: Path
) -> None:
    """The proof that the case above can fail: two that do not guard give one card twice before cards are full."""
    units = sum(sum(cards.values()) for cards in (await observer.sizes()).values())
    troupe = Troupe(observer.cluster, target, choices, tmp_path, guarded=False)
    async with troupe.playing() as (extenders, _), Crowd(observer, history, units, seed=1).milling():
        for extender in extenders:
            extender.proxy.slow_down(LAG_SECONDS)
        assert await history.found(seconds=120)


async def test_an_over_commit_that_is_planted_is_found(observer: Observer, history: LiveHistory) -> None:
    """A Binding past every extender, onto a card that has no room."""
    for name in ("fits", "planted"):
        await observer.create(gpu_pod(name, 10, scheduler=NO_SCHEDULER))
        await observer.bind(name, "a1", annotations={spec.POD_INDEX: "0", spec.POD_UNITS: "10"})

    found = await history.found()
    assert found[0].pod == f"{observer.namespace}/planted"
    assert found[0].text.startswith("20 are booked, it has 14")


async def book_is_right(observer: Observer, extender: Actor) -> None:
    """An extender's book is the API's, and an audit of now has nothing to reconcile."""

    cards = [observer.cards(node) for node in await observer.sizes()]

    async def differences() -> list[Finding]:
        asked = Asked(0.0, spec.INSPECT, None, (await observer.get(extender.url + spec.INSPECT)).json())
        return judge([*cards, await observer.listed(), asked], book_beyond_cards, book_differs)

    await eventually(differences, lambda found: not found, f"the book of {extender.name} is the API's")

    async def facts() -> tuple[float, float]:
        text = (await observer.get(extender.metrics)).text
        return total_in(text, "gpushare_book_audits_total"), total_in(text, "gpushare_book_drift_units")

    before, _ = await facts()
    good = f"an audit of {extender.name} finds nothing"
    await eventually(facts, lambda seen: seen[0] > before and seen[1] == 0, good)


def say(request: pytest.FixtureRequest, what: str, crowd: Crowd, history: LiveHistory) -> None:
    """For the report of this case."""
    fill = sorted(crowd.fill)
    refused = ", ".join(f"{count} x {reason}" for reason, count in crowd.refused.items()) or "none"
    text = (
        f"{what}: {crowd.created} pods created, {len(history.bound)} bound, {history.changes} changes looked at, "
        f"cards {fill[len(fill) // 2]:.0%} full at the median, refused by a kubelet: {refused}, "
        f"{len(history.findings)} over-committed"
    )
    add_note(request, "chaos", text)
