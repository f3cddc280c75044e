"""Random bursts end with every container on the card that its pod's annotation names, no card over-booked, nothing stuck."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from clusters.provider import Cluster, NodeSpec
from clusters.providers import Choices
from clusters.targets import Target
from e2e.bursts.burst_stage import Venue, open_player, player_on, venue_of
from e2e.bursts.conftest import SEED
from e2e.bursts.play import Player
from e2e.migration.mixed_fleet import original_fleet
from e2e.real_kubelets import STAND_INS
from e2e.summary import add_note

pytestmark = pytest.mark.needs("repair")

# A burst of this kind catches a plugin that repairs nothing within very few; against a hang only.
_MOST_TO_CATCH: Final = 40
_HELD_SECONDS: Final = 5.0
# Real containers need some time before it is certain that they do not run.
_HELD_SECONDS_ON_REAL_KUBELETS: Final = 45.0


@pytest.fixture(scope="module")
def provider(request: pytest.FixtureRequest) -> str:
    """The kind of cluster."""
    return str(request.config.getoption("--cluster"))


@pytest.fixture(scope="module")
def venue(provider: str) -> Venue:
    """The values that depend on the venue."""
    return venue_of(provider)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def player(
    request: pytest.FixtureRequest,
    provider: str,
    venue: Venue,
    shared: Cluster | None,
    nodes: list[NodeSpec],
    target: Target,
    choices: Choices,
) -> AsyncIterator[Player]:
    """One cluster for the bursts of a world."""
    if shared is None:
        seed = getattr(request, "param", f"{request.config.stash[SEED]}/0")
        async with open_player(provider, target, choices, seed) as player:
            yield player
    else:
        async with player_on(shared, [node.name for node in nodes], venue.settle_seconds, is_real=True) as player:
            yield player


@pytest.mark.promise("DP-015", "E2E-002", "PR-005")
async def test_a_burst_ends_with_everything_right(
    request: pytest.FixtureRequest, player: Player, venue: Venue, burst_seed: str
) -> None:
    """Pods created and deleted together, 40 at most, in a world of the seed's, programs restarted at random."""
    result = await player.play(await venue.burst(burst_seed, player))
    add_note(request, "burst", asdict(result))

    again = f"in parts: --burst {burst_seed}-p00-gaps leaves out a pod and all gaps"
    assert result.findings == [], f"{result.text()}\n{player.recent_logs()}\n{again}"


async def test_bursts_catch_a_plugin_that_guesses_by_amount_and_age(
    request: pytest.FixtureRequest, player: Player, venue: Venue, provider: str, target: Target, tmp_path: Path
) -> None:
    """The proof that these cases can fail, on real kubelets too: as the original does, it cannot tell two containers' pods."""
    seed, found = request.config.stash[SEED], list[str]()
    seconds = _HELD_SECONDS if provider in STAND_INS else _HELD_SECONDS_ON_REAL_KUBELETS
    async with original_fleet(player.observer, target, tmp_path, *player.nodes) as guessing:
        other = Player(
            player.observers,
            player.nodes,
            settle_seconds=seconds,
            restart_plugin=guessing.restart_plugin,
            is_real=True,
        )
        for number in range(_MOST_TO_CATCH):
            found = (await other.play((await venue.burst(f"{seed}/{number}", player)).without("gaps"))).findings
            if found:
                break

    assert found
