"""Random states of nodes and pods, laid down through the API alone: an extender answers each question as the API implies.

The rules that judge every run (``run_judge.py``) know the right answers. These cases bring about the states, and ask.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any, Final

import pytest

from clusters.api.api_client import MERGE_PATCH
from clusters.api.resources import CONFIG_MAPS, NODES, PODS
from e2e import spec
from e2e.builders import random_containers
from e2e.bursts import questions
from e2e.checkers.extender_messages import LAG_SECONDS
from e2e.checkers.overcommit import booked_in_api
from e2e.checkers.pod_requests import units_of
from e2e.extender.extender_under_test import ExtenderUnderTest, Object
from e2e.report.sources import commit_number

pytestmark = [pytest.mark.stand_in_only("its nodes have no kubelet")]

_STATES: Final = 5
# Changes before each round of questions, and the rounds.
_CHANGES, _ROUNDS = 25, 2
_UNITS: Final = (1, 2, 3, 5, 8)
# The units of a card.
_SIZES: Final = (7, 16, 24)
# The chance that no container of a pod asks for card memory.
_PLAIN_PODS: Final = 0.2
_PHASES: Final[tuple[Object, ...]] = (
    {"phase": "Running"},
    {"phase": "Succeeded"},
    {"phase": "Failed", "reason": "Evicted"},
    {"phase": "Failed", "reason": "UnexpectedAdmissionError"},
    {"phase": "Unknown", "reason": "NodeLost"},
)


class RandomState:
    """Some nodes of a case, and the changes of their pods; ``units`` of each card of a node."""

    def __init__(self, stage: ExtenderUnderTest, rng: random.Random) -> None:
        self._stage, self._rng = stage, rng
        self._pods: list[str] = []
        self._ended: set[str] = set()
        self._unreadable: list[str] = []
        self._bans: set[str] = set()
        self._count = 0
        self.units: dict[str, dict[int, int]] = {}

    async def lay_down(self) -> None:
        """Up to three nodes of one to nine cards, as the original's plugin publishes them or, of mixed sizes, as ours does."""
        for number in range(self._rng.randint(1, 3)):
            name, count = f"{self._stage.namespace}-{number}", self._rng.randint(1, 9)
            sizes = [self._rng.choice(_SIZES)] * count
            if is_described := self._stage.claims("cards-annotation") and self._rng.random() < 0.5:
                sizes = [self._rng.choice(_SIZES) for _ in range(count)]
            await self._stage.node(name, sum(sizes), count)
            self.units[name] = dict(enumerate(sizes))
            if is_described:
                text = json.dumps({"v": 1, "mode": "ids", "unit": "GiB", "boot": "b", "cards": self._cards(sizes)})
                await self._stage.api.patch(NODES, name, {"metadata": {"annotations": {spec.NODE_CARDS: text}}})

    def _cards(self, sizes: Sequence[int]) -> list[dict[str, Any]]:
        """The entries of our annotation; some cards are unhealthy."""
        return [
            {
                "index": index,
                "uuid": f"GPU-{index}",
                "model": "case",
                "mib": units * spec.MIB_PER_UNIT,
                "units": units,
                "slots": 0,
                "healthy": self._rng.random() < 0.8,
                "reason": "case",
                "numa": 0,
            }
            for index, units in enumerate(sizes)
        ]

    async def change(self) -> None:
        """One change, of a pod more often than of a node's bans."""
        kind = self._rng.choice(("bound", "bound", "by the extender", "by the extender", "phase", "gone", "ban", "odd"))
        if kind == "bound":
            await self._create_bound()
        elif kind == "by the extender":
            await self._bind()
        elif kind == "odd":
            await self._create_unreadable()
        elif kind == "ban":
            await self._ban(self._rng.choice([*self.units]))
        elif kind == "gone" and self._pods:
            await self._stage.observer.delete(self._pods.pop(self._rng.randrange(len(self._pods))), 0)
        elif kind == "phase" and (going := [name for name in self._pods if name not in self._ended]):
            await self._enter_phase(self._rng.choice(going), self._rng.choice(_PHASES))

    async def settle(self) -> None:
        """Remove what makes a node's state uncertain, and give the extender the time to read all changes."""
        for name in self._unreadable:
            await self._stage.observer.delete(name, 0)
        self._unreadable.clear()
        await asyncio.sleep(LAG_SECONDS)

    async def remove_bans(self) -> None:
        """The ConfigMaps are not the namespace's."""
        for node in sorted(self._bans):
            await self._ban(node)

    async def ask(self, fresh: str) -> None:
        """Ask the session's extender, and the one at the URL ``fresh``, which has just started: both give the same answers."""
        observer = self._stage.observer
        urls = (observer.cluster.extender_url(), fresh)
        for verb, body in questions.asked(self._rng, await observer.pods(), self.units, {}, self._stage.known):
            ours, its = [(await observer.post_to(url + verb, body)).json() for url in urls]
            assert ours == its, f"an extender that has just started answers {verb} otherwise"
        book, its_book = [(await observer.inspect(url=url))["nodes"] for url in urls]
        assert [one for one in book if one["name"] in self.units] == [
            one for one in its_book if one["name"] in self.units
        ]

    async def _enter_phase(self, name: str, status: Object) -> None:
        """No pod leaves a phase in which it has ended."""
        if status["phase"] in ("Succeeded", "Failed"):
            self._ended.add(name)
        await self._stage.api.patch(
            PODS, name, {"status": status}, self._stage.namespace, subresource="status", content_type=MERGE_PATCH
        )

    async def _create_bound(self) -> None:
        """A pod that has its node and its card, if there is room: this state is a true one."""
        node = self._rng.choice([*self.units])
        pod = self._pod()
        free = await self._free(node)
        needed = units_of(pod)
        cards = [card for card, units in free.items() if units >= needed]
        if needed and not cards:
            return
        own = {spec.POD_INDEX: str(self._rng.choice(cards)), spec.POD_UNITS: str(needed), spec.POD_ASSIGNED: "true"}
        pod["metadata"]["annotations"] = own if needed else {}
        pod["spec"]["nodeName"] = node
        await self._create(pod)

    async def _bind(self) -> None:
        """Some simultaneous binds, which the extender may refuse."""
        created = [await self._create(self._pod()) for _ in range(self._rng.randint(1, 4))]
        asking = [pod for pod in created if units_of(pod)]
        # The same order twice, as of two schedulers, while the pods change.
        nodes = self._rng.choices([*self.units], k=self._rng.choice((1, 1, 2)))
        orders = (self._stage.bind(pod, node) for pod in asking for node in nodes)
        await asyncio.gather(*orders, *(self._label(pod) for pod in asking if self._rng.random() < 0.5))

    async def _label(self, pod: Object) -> None:
        labels = {"metadata": {"labels": {"example.com/seen": "yes"}}}
        await self._stage.api.patch(PODS, pod["metadata"]["name"], labels, self._stage.namespace)

    async def _create_unreadable(self) -> None:
        """A bound pod with annotations that name no card; it goes before the next questions."""
        pod = self._pod()
        pod["metadata"]["annotations"] = {spec.POD_INDEX: self._rng.choice(("x", "-1", "", "1e3"))}
        pod["spec"]["nodeName"] = self._rng.choice([*self.units])
        self._unreadable.append((await self._stage.create(pod))[0]["metadata"]["name"])

    async def _free(self, node: str) -> dict[int, int]:
        booked = booked_in_api(await self._stage.observer.pods())
        return {card: units - booked.get((node, card), 0) for card, units in self.units[node].items()}

    async def _create(self, pod: Object) -> Object:
        (created,) = await self._stage.create(pod)
        self._pods.append(created["metadata"]["name"])
        return created

    async def _ban(self, node: str) -> None:
        name, namespace = f"unhealthy-gpu-{node}", "kube-system"
        if node in self._bans:
            self._bans.discard(node)
            await self._stage.api.delete(CONFIG_MAPS, name, namespace)
            return
        self._bans.add(node)
        cards = self._rng.sample([*self.units[node]], self._rng.randint(1, len(self.units[node])))
        await self._stage.api.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": namespace},
                "data": {"gpus": ",".join(map(str, cards))},
            }
        )

    def _pod(self) -> Object:
        self._count += 1
        pod = self._stage.pod(f"p-{self._count}", 1)
        pod["spec"] |= random_containers(self._rng, _UNITS, 0.0 if self._rng.random() < _PLAIN_PODS else 0.7)
        return pod


@pytest.mark.promise("EXT-024")
@pytest.mark.parametrize("number", range(_STATES))
async def test_answers_are_what_the_api_implies(stage: ExtenderUnderTest, number: int) -> None:
    """Pods of any shape and phase, bans, simultaneous binds: each node passes if a card has room, and only then."""
    if stage.kind != "embedded":
        pytest.skip("its rules see the writes of the embedded API server alone")
    state = RandomState(stage, random.Random(f"{commit_number()}/{number}"))
    await state.lay_down()
    try:
        for _ in range(_ROUNDS):
            for _ in range(_CHANGES):
                await state.change()
            async with stage.extender() as fresh:
                await state.settle()
                await state.ask(fresh)
    finally:
        await state.remove_bans()
