"""Random bursts end with every container on the card that its pod's annotation names, no card over-booked, nothing stuck."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from clusters.providers import Choices
from clusters.targets import Target
from e2e.bursts.conftest import RESULTS, SEED
from e2e.bursts.plan import make_burst
from e2e.bursts.play import Player
from e2e.bursts.stage import NODES, open_player

# A burst of this kind catches a plugin that repairs nothing within very few; against a hang only.
_MOST_TO_CATCH: Final = 40
_HELD_SECONDS: Final = 5.0

pytestmark = pytest.mark.timeout(300)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def player(request: pytest.FixtureRequest, target: Target, choices: Choices) -> AsyncIterator[Player]:
    """One cluster for all bursts."""
    async with open_player(request.config.getoption("--cluster"), target, choices) as player:
        yield player


async def test_a_burst_ends_with_everything_right(
    request: pytest.FixtureRequest, player: Player, burst_seed: str
) -> None:
    """PR-005, E2E-002: 2 to 40 pods created and deleted at once, plugin and kubelet restarted at random."""
    result = await player.play(make_burst(burst_seed, NODES))
    request.config.stash[RESULTS].append(result)

    assert result.findings == [], result.text()


async def test_the_same_bursts_catch_a_plugin_that_repairs_nothing(
    request: pytest.FixtureRequest, target: Target, choices: Choices
) -> None:
    """The proof that these cases can fail: with the repair switched off a pod is held for ever, and the verdict says so."""
    provider, seed = request.config.getoption("--cluster"), request.config.stash[SEED]
    found: list[str] = []
    async with open_player(provider, target, choices, ("--repair", "hold"), settle_seconds=_HELD_SECONDS) as player:
        for number in range(_MOST_TO_CATCH):
            found = (await player.play(make_burst(f"{seed}/{number}", NODES))).findings
            if any("annotation names" in finding for finding in found):
                break

    assert any("annotation names" in finding for finding in found), found
