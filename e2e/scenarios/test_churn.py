"""Restarts under churn, many in a row: running pods keep card and container, new ones get right ones, refusals are explained."""

from __future__ import annotations

from typing import Final

import pytest

from clusters.api.waiting import eventually
from e2e.observer import Observer
from e2e.report.case_notes import add_note
from e2e.scenarios.churn import Churn

NODE: Final = "a2"
UNITS: Final = "28"
ALONE: Final = pytest.mark.exhaustive("both together are the heavier load, and test_lives.py restarts each")

# The limit of one case, in seconds: twenty restarts of a real kubelet take minutes.
pytestmark = pytest.mark.timeout(1200)


@pytest.mark.promise("D02", "DP-022", "E2E-005", "E2E-006")
@pytest.mark.parametrize("what", [pytest.param("kubelet", marks=ALONE), pytest.param("plugin", marks=ALONE), "both"])
async def test_restarts_under_churn(observer: Observer, request: pytest.FixtureRequest, what: str) -> None:
    """Running pods keep card and container while the kubelet is restarted, or the plugin is killed, or both, again and again.

    Other pods come and go during that, and get right cards.
    """
    count = request.config.getoption("--restarts")
    churn = Churn(observer, NODE, seed=count)
    before = await churn.settle_in()
    async with churn.going_on():
        for _ in range(count):
            created = churn.created
            await observer.restart(NODE, what)
            await observer.shows(NODE, UNITS, seconds=120)
            # Not all restarts before the first pod: a kubelet must be up again to let one go.
            await churn.creates_more_than(created)
    pods = await churn.settled()
    await churn.count_wrong_totals(pods)

    say(request, f"{count} restarts of {what}", churn)
    assert before == await churn.lives()
    assert churn.created >= count
    await observer.check_all(*(pod["metadata"]["name"] for pod in pods), totals=False)


@pytest.mark.promise("D02", "DP-022")
async def test_reboots_under_churn(observer: Observer, request: pytest.FixtureRequest) -> None:
    """The node is rebooted twice; a pod let in again is on its card, the reason of one that is not is the absent plugin."""
    churn = Churn(observer, NODE, seed=2)
    for _ in range(2):
        async with churn.going_on():
            # Some of each round are there when the power fails.
            await eventually(observer.pods, lambda pods: len(pods) >= 3, "pods are there")
            await observer.cluster.restart_kubelet(NODE, reboot=True)
            await observer.shows(NODE, UNITS, seconds=120)
        pods = await churn.settled()
        await churn.count_wrong_totals(pods)
        await observer.check_all(*(pod["metadata"]["name"] for pod in pods), totals=False)

    say(request, "2 reboots", churn)


def say(request: pytest.FixtureRequest, what: str, churn: Churn) -> None:
    """For the report of this case: how many pods were refused, and for which reasons."""
    refused = ", ".join(f"{count} x {reason}" for reason, count in churn.turned_away.items()) or "none"
    add_note(
        request,
        "churn",
        f"{what}: {churn.created} pods created, {churn.wrong_totals} containers told another pod's sum, "
        f"refused and replaced: {refused}",
    )
