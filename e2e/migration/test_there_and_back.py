"""Forty pods of the original run on, and others come and go, while each program is replaced by ours, and ours by the original's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from clusters.api.api_client import Object
from clusters.api.waiting import until
from clusters.provider import Cluster, NodeSpec
from clusters.targets import Target
from e2e import spec
from e2e.builders import gpu_pod
from e2e.chaos.crowd import Crowd
from e2e.live_history import LiveHistory
from e2e.migration.mixed_fleet import MixedFleet, ask_migrate, original_fleet
from e2e.observer import OwnCluster, observing
from e2e.site.node_cards import averaged, described
from e2e.summary import add_note

# Cards of one size on each node; 138 units in all.
_NODES: Final = (
    NodeSpec("m1", box="t4x2"),
    NodeSpec("m2", box="t4x2"),
    NodeSpec("m3", box="gtx1080tix2"),
    NodeSpec("m4", box="v100x4"),
)
_STAY: Final = 40
# The part of what the forty leave that stays booked: pods of each size can go.
_FULL: Final = 0.8
# The number of pods that are bound between one change and the next.
_BETWEEN: Final = 3
_SECONDS: Final = 120.0

pytestmark = [
    pytest.mark.needs("takeover"),
    pytest.mark.stand_in_only("the original's stand-ins are started on this machine, beside simulated cards"),
    pytest.mark.thorough("ten changes of programs under load; test_mixed_fleets.py has each pair of them"),
    pytest.mark.timeout(900),
]


@pytest_asyncio.fixture(loop_scope="session")
async def site(own: OwnCluster) -> AsyncIterator[Cluster]:
    """Four nodes with several cards each."""
    async with own(_NODES) as cluster:
        yield cluster


def lives_of(pods: list[Object]) -> dict[str, Any]:
    """Card, containers and restarts of each pod."""
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["annotations"][spec.POD_INDEX],
            [(one["containerID"], one["restartCount"]) for one in pod["status"]["containerStatuses"]],
        )
        for pod in pods
    }


async def migrate(cluster: Cluster, *flags: str) -> list[str]:
    """The lines of the verb, which finds nothing in the way."""
    ended = await ask_migrate(cluster, *flags)
    assert (ended.code, ended.errors) == (0, ""), ended.said
    return ended.output.splitlines()


def nodes_with(plugin: str, lines: list[str]) -> set[str]:
    """The nodes that have this plugin, by the verb."""
    return {words[1].rstrip(":") for line in lines if (words := line.split())[0] == "node" and f": {plugin}," in line}


class Changes:
    """One change after the other, with pods bound in between, and what the Nodes and the verb show after each."""

    def __init__(self, cluster: Cluster, fleet: MixedFleet, history: LiveHistory) -> None:
        self._cluster, self._fleet, self._history = cluster, fleet, history

    async def goes_on(self) -> None:
        """Pods are bound after the change as before it."""
        before = len(self._history.bound)
        enough = before + _BETWEEN
        await until(lambda: len(self._history.bound), lambda seen: seen >= enough, "pods are bound", seconds=_SECONDS)

    async def there(self) -> None:
        """Our extender, then our plugin on one node after the other."""
        await self._fleet.our_extender()
        await self.goes_on()
        done: set[str] = set()
        for node in _NODES:
            await self._fleet.our_plugin(node.name)
            cards = described(seen := await self._fleet.node(node.name))
            assert cards is not None
            assert {index: one.units for index, one in cards.cards.items()} == {
                index: one.units for index, one in averaged(seen).cards.items()
            }
            done.add(node.name)
            assert nodes_with("gpushare's plugin", await migrate(self._cluster)) == done
            await self.goes_on()

    async def back(self) -> None:
        """The original's plugin on one node after the other, then its extender."""
        done: set[str] = set()
        for node in _NODES:
            await self._fleet.originals_plugin(node.name)
            assert described(await self._fleet.node(node.name)) is None
            done.add(node.name)
            assert nodes_with("the original's plugin", await migrate(self._cluster, "--back")) == done
            await self.goes_on()
        await self._fleet.originals_extender()
        await self.goes_on()


async def test_there_and_back_with_forty_pods(
    request: pytest.FixtureRequest, site: Cluster, target: Target, tmp_path: Path
) -> None:
    """No container is restarted, no pod changes its card, and no card is over-booked at any instant, on the way and back."""
    names = [node.name for node in _NODES]
    async with (
        observing(site, "stays") as stays,
        observing(site, "comes-and-goes") as others,
        original_fleet(stays, target, tmp_path, *names, extender=True) as fleet,
    ):
        history = LiveHistory(*(stays.cards(node) for node in names))
        total = sum(sum(cards.values()) for cards in (await stays.sizes()).values())
        async with history.following(site.api):
            pods = [gpu_pod(f"stays-{number:02}", 1 + number % 3) for number in range(_STAY)]
            booked = sum(1 + number % 3 for number in range(_STAY))
            before = lives_of(await stays.run(*pods, seconds=_SECONDS))
            assert nodes_with("the original's plugin", await migrate(site)) == {*names}

            crowd = Crowd(others, history, total - booked, seed=1, full=_FULL, scheduler=None)
            changes = Changes(site, fleet, history)
            async with crowd.milling():
                await changes.goes_on()
                await changes.there()
                middle = lives_of(await stays.check_right_cards(*before))
                await changes.back()
            after = lives_of(await stays.check_right_cards(*before))
            add_note(
                request,
                "migration",
                f"{len(names)} nodes, {_STAY} pods stay, {crowd.created} come and go, {len(history.bound)} bound, "
                f"{history.changes} changes judged, refused by a kubelet: {dict(crowd.refused)}",
            )

    assert before == middle == after
    assert history.findings == []
