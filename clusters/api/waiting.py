"""Wait for what a cluster should come to, and say what it looked like when it did not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from clusters.api.glimpse import glimpse

T = TypeVar("T")

# Against hangs, not a promise about speed, in seconds.
DEFAULT_SECONDS: Final = 60.0
# Between two looks, in seconds. A look may cost a program tens of milliseconds, so it comes the more seldom the longer it takes.
_LOOK_SECONDS: Final = 0.05
_LONGEST_LOOK_SECONDS: Final = 0.5
_OF_THE_WAIT: Final = 0.1


class NotReachedError(AssertionError):
    """A condition that did not become true in time; the text is what was seen last."""


async def eventually(
    look: Callable[[], Awaitable[T]],
    good: Callable[[T], bool],
    what: str,
    *,
    seconds: float = DEFAULT_SECONDS,
) -> T:
    """Look again and again until it is good; the value that was. Raises NotReachedError with the last value."""
    seen: object = "nothing yet"
    begun = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(seconds):
            while True:
                value = await look()
                if good(value):
                    return value
                seen = value
                await asyncio.sleep(until_next_look(begun))
    except TimeoutError as error:
        raise NotReachedError(f"after {seconds:.0f} s not reached: {what}; last seen: {glimpse(seen)}") from error


def until_next_look(begun: float) -> float:
    """Seconds to sleep for a waiter since ``begun`` on the running loop's clock: a tenth of the wait so far, within bounds."""
    waited = asyncio.get_running_loop().time() - begun
    return min(max(_LOOK_SECONDS, waited * _OF_THE_WAIT), _LONGEST_LOOK_SECONDS)


@contextlib.asynccontextmanager
async def meanwhile(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """It goes on while inside, and is ended behind. Raises what it raised."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def for_each(act: Callable[[T], Awaitable[object]], items: Iterable[T], at_once: int) -> None:
    """Do it for each, in their order, this many in parallel. Raises the error of the first that fails."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await act(item)

    await asyncio.gather(*(work() for _ in range(at_once)))


async def unless(ended: asyncio.Event, work: Callable[[], Awaitable[object]]) -> bool:
    """Do the work unless the event comes first; was it done? Raises what it raised."""
    doing = asyncio.ensure_future(work())
    ending = asyncio.ensure_future(ended.wait())
    await asyncio.wait([doing, ending], return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    if doing.done():
        doing.result()
        return True
    doing.cancel()
    await asyncio.wait([doing])
    return False


async def all_or_none(*works: Coroutine[Any, Any, None]) -> None:
    """Do them in parallel. Raises the error of the first that fails, after the others have ended, too: nothing runs on."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
