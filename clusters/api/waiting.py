"""Wait for what a cluster should come to, and say what it looked like when it did not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

T = TypeVar("T")

# Against hangs, not a promise about speed, in seconds.
DEFAULT_SECONDS: Final = 60.0
# Between two looks, in seconds. A look may cost a program tens of milliseconds, so it comes the more seldom the longer it takes.
_LOOK_SECONDS: Final = 0.05
_LONGEST_LOOK_SECONDS: Final = 0.5
_OF_THE_WAIT: Final = 0.1
# Characters, and objects, that are shown of what was seen.
_LONGEST: Final = 1000
_MOST_OBJECTS: Final = 10


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


async def until(look: Callable[[], T], good: Callable[[T], bool], what: str, *, seconds: float = DEFAULT_SECONDS) -> T:
    """``eventually`` with a look that asks nothing of a server."""

    async def seen() -> T:
        return look()

    return await eventually(seen, good, what, seconds=seconds)


def until_next_look(begun: float) -> float:
    """Seconds to sleep for a waiter since ``begun`` on the running loop's clock: a tenth of the wait so far, within bounds."""
    waited = asyncio.get_running_loop().time() - begun
    return min(max(_LOOK_SECONDS, waited * _OF_THE_WAIT), _LONGEST_LOOK_SECONDS)


@contextlib.asynccontextmanager
async def side_by_side(*works: Coroutine[Any, Any, object]) -> AsyncIterator[list[asyncio.Task[object]]]:
    """A task of each, which has ended behind."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """Do it to its end, even if the caller is cancelled amid it. Raises what it raised, as the cause of a cancellation."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError as error:
        await asyncio.wait([task])
        raise error from None if task.cancelled() else task.exception()


async def for_each(act: Callable[[T], Awaitable[object]], items: Iterable[T], at_once: int) -> None:
    """Do it for each, in their order, this many in parallel. Raises the error of the first that fails."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await act(item)

    await asyncio.gather(*(work() for _ in range(at_once)))


async def unless(ended: asyncio.Event, work: Callable[[], Coroutine[Any, Any, object]]) -> bool:
    """Do the work unless the event comes first; was it done? Raises what it raised."""
    async with side_by_side(work(), ended.wait()) as (doing, ending):
        await asyncio.wait([doing, ending], return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
            return True
    return False


async def all_or_none(*works: Coroutine[Any, Any, None]) -> None:
    """Do them in parallel. Raises the error of the first that fails, after the others have ended, too: nothing runs on."""
    async with side_by_side(*works) as tasks:
        await asyncio.gather(*tasks)


def glimpse(value: object) -> str:
    """One line for what a wait saw last: of an object of the API what matters in a failure, of anything else its beginning."""
    if _is_object(value):
        return _object(value)
    if isinstance(value, (list, tuple)) and value and all(map(_is_object, value)):
        more = f"; and {len(value) - _MOST_OBJECTS} more" if len(value) > _MOST_OBJECTS else ""
        return "; ".join(map(_object, value[:_MOST_OBJECTS])) + more
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("metadata"), Mapping) and "name" in value["metadata"]


def _object(value: Any) -> str:
    """Its name, phase, node, reasons and messages of its state, and the conditions that do not hold."""
    metadata, status = value["metadata"], value.get("status") or {}
    facts = [status["phase"]] if status.get("phase") else []
    if metadata.get("deletionTimestamp"):
        facts.append("being deleted")
    if node := (value.get("spec") or {}).get("nodeName"):
        facts.append(f"on {node}")
    facts += [str(status[key]) for key in ("reason", "message") if status.get(key)]
    facts += _containers(status)
    facts += [
        f"{one.get('type')}={one.get('status')} {one.get('reason', '')} {one.get('message', '')}".strip()
        for one in status.get("conditions") or ()
        if one.get("status") != "True" and one.get("message")
    ]
    name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return f"{name}: {', '.join(facts) or 'no status'}"


def _containers(status: Mapping[str, Any]) -> Iterator[str]:
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        for kind, state in (one.get("state") or {}).items():
            if kind != "running":
                said = " ".join(str(state[key]) for key in ("reason", "message", "exitCode") if key in state)
                yield f"container {one.get('name')} {kind} {said}".rstrip()
