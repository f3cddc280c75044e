"""D16, D17, D18: races of the original's book, each provoked until it shows or a stated number of tries is over.

The cases look at the contract alone: the annotations that they write, and the book (``/inspect``). A booking that stays behind
stays for ever, and a program that has ended answers nothing, so that one look at the end of a try is enough.
"""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from clusters.api.api_client import ApiError
from clusters.api.connection import TransportError
from clusters.api.waiting import for_each, meanwhile
from e2e import spec
from e2e.checkers.extender_answers import book_adds_up, book_beyond_cards
from e2e.checkers.history import Asked, judge
from e2e.extender.extender_under_test import ExtenderUnderTest

pytestmark = pytest.mark.stand_in_only("no kubelet has a part in it")

# Tries, and the pods of one try: hundreds of chances for each race.
_TRIES: Final = 8
_MOST_TRIES: Final = 40
_PODS: Final = 20
# The number of pods that come in parallel, small enough that the book is read between them.
_AT_ONCE: Final = 2
# The number of parallel readers of the book, and of the pods in it that stay.
_READERS: Final = 4
_STAYING: Final = 200


class _Guests:
    """Pods that come to a node and go, and the answers in between of the book of an extender that the case may end."""

    def __init__(self, stage: ExtenderUnderTest, node: str, url: str) -> None:
        self.answers: list[Asked] = []
        self._stage = stage
        self._node = node
        self._url = url
        self._begun = asyncio.get_running_loop().time()

    async def read(self) -> None:
        """Ask for the book."""
        answer = await self._stage.observer.inspect(f"/{self._node}", self._url)
        at = asyncio.get_running_loop().time() - self._begun
        self.answers.append(Asked(at, spec.INSPECT, None, answer))

    def states(self) -> int:
        """How many states of the book the answers show."""
        return len({str(one.answer) for one in self.answers})

    async def keep_reading(self, _: int) -> None:
        """Ask for ever."""
        while True:
            await self.read()

    async def stay(self, number: int) -> None:
        """One unit on one of the cards: the longer an answer takes to write, the more comes between."""
        await self._stage.booked(f"stays-{number}", self._node, number % 2, 1)

    async def come(self, number: int) -> None:
        """Two units on one of the cards."""
        await self._stage.booked(f"p{number}", self._node, number % 2, 2)

    async def go(self, number: int) -> None:
        """By force."""
        await self._stage.observer.delete(f"p{number}", 0)

    async def come_and_go(self, number: int) -> None:
        """Both."""
        await self.come(number)
        await self.go(number)

    async def are(self, units: int) -> None:
        """Wait until the guests have this number of units of each card."""
        both = units + _STAYING // 2
        await self._stage.used(self._node, both, both, url=self._url)


@pytest.mark.promise("D16", "D18")
async def test_d16_d18_pods_deleted_together_leave_no_booking(stage: ExtenderUnderTest, name: str) -> None:
    """A deletion that was handled before it was recorded left its units booked, and the book was read while it was written.

    160 pods come and go, in every other try deleted before they are seen. Each answer in between is of one moment. A slow
    extender is tried more often, until its book has been read while it changed. One that ends answers no more.
    """
    await stage.node(name, 1000, 2)
    try:
        async with stage.extender() as url:
            guests = _Guests(stage, name, url)
            await for_each(guests.stay, range(_STAYING), at_once=_AT_ONCE)
            async with meanwhile(for_each(guests.keep_reading, range(_READERS), at_once=_READERS)):
                for turn in range(_MOST_TRIES):
                    if turn >= _TRIES and guests.states() > _TRIES:
                        break
                    if turn % 2:
                        await for_each(guests.come_and_go, range(_PODS), at_once=_AT_ONCE)
                    else:
                        await for_each(guests.come, range(_PODS), at_once=_AT_ONCE)
                        await guests.are(_PODS)
                        await asyncio.gather(*map(guests.go, range(_PODS)))
                    await guests.are(0)
    except TransportError as error:
        pytest.fail(f"no answer from the extender: {error}")

    assert guests.states() > _TRIES, "the book was hardly read while it changed"
    assert judge(guests.answers, book_adds_up, book_beyond_cards) == []


@pytest.mark.promise("D17")
async def test_d17_a_pod_made_again_at_once_is_another(stage: ExtenderUnderTest, name: str) -> None:
    """The units of a force-deleted pod stayed booked if its name was there again.

    160 lives of 20 names, on changing cards. Each pod is created while the one before is deleted, as soon as the name is free.
    """
    await stage.node(name, 100, 2)

    async def live_again(number: int) -> None:
        await stage.booked(f"set-{number}", name, 0, 1)
        for life in range(1, _TRIES):
            successor = succeeded_at_once(stage, f"set-{number}", name, life % 2, 1 + life % 3)
            await asyncio.gather(stage.observer.delete(f"set-{number}", 0), successor)

    async with meanwhile(for_each(lambda _: keep_asking(stage, name), range(_READERS), at_once=_READERS)):
        await for_each(live_again, range(_PODS), at_once=_AT_ONCE)
    last = _TRIES - 1
    used = [0, 0]
    used[last % 2] = _PODS * (1 + last % 3)
    await stage.used(name, *used)


async def succeeded_at_once(stage: ExtenderUnderTest, pod: str, node: str, card: int, units: int) -> None:
    """Ask for the pod again and again, until the name is free: the deletion of the one before is under way."""
    while True:
        try:
            await stage.booked(pod, node, card, units)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        else:
            return


async def keep_asking(stage: ExtenderUnderTest, name: str) -> None:
    """Read the book and ask about a pod, for ever."""
    while True:
        await stage.observer.inspect()
        await stage.filter(stage.pod("p", 1), name, "a1")
