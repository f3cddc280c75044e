"""A case over its time limit fails, and its worker and the clusters in it go on with the next case.

pytest-timeout's alarm raises amid the event loop, which then still has the case's task, and between two phases of a case, where it
ends pytest. So an asynchronous case is cancelled a little earlier, as any other task; the alarm is for what holds up the loop
itself and for tests that are not asynchronous, and it waits for a phase.
"""

from __future__ import annotations

import asyncio
import functools
import signal
import time
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, Final

import pytest
import pytest_asyncio
from pytest_timeout import Settings, timeout_sigalrm

# The part of the limit after which a case is cancelled.
_EARLIER: Final = 0.95
_NEXT_TRY_SECONDS: Final = 0.1
_DEADLINE: Final = pytest.StashKey[tuple[float, float]]()
_IS_IN_PHASE: Final = pytest.StashKey[bool]()
_IS_CASE: Final = pytest.StashKey[bool]()


def cancel_late(cases: Iterable[pytest.Item]) -> None:
    """Cancel these at their limits. Other tests may move the clock of their event loop, which would end them early."""
    for case in cases:
        case.stash[_IS_CASE] = True


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: Any, settings: Settings) -> bool | None:
    """Note the time at which the case is over its limit, and set the alarm. (pytest-timeout unsets it by ``cancel_timeout``.)"""
    item.stash[_DEADLINE] = (settings.timeout, time.monotonic() + settings.timeout * _EARLIER)
    if settings.method != "signal":
        return None

    def alarm(_number: int, _frame: object) -> None:
        __tracebackhide__ = True
        if item.stash.get(_IS_IN_PHASE, False):
            timeout_sigalrm(item, settings)
        else:
            signal.setitimer(signal.ITIMER_REAL, _NEXT_TRY_SECONDS)

    def cancel() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    item.cancel_timeout = cancel
    signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """A phase, in which an error is the case's."""
    item.stash[_IS_IN_PHASE] = True
    try:
        return (yield)
    finally:
        item.stash[_IS_IN_PHASE] = False


pytest_runtest_teardown = pytest_runtest_setup


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Another one, in which an asynchronous case is cancelled at its limit."""
    limit = item.stash.get(_DEADLINE, None)
    is_case = item.stash.get(_IS_CASE, False) and pytest_asyncio.is_async_test(item)
    if limit is None or not is_case or not isinstance(item, pytest.Function):
        return (yield from pytest_runtest_setup(item))
    whole, item.obj = item.obj, _limited(item.obj, *limit)
    try:
        return (yield from pytest_runtest_setup(item))
    finally:
        item.obj = whole


def _limited(case: Callable[..., Coroutine[Any, Any, None]], seconds: float, deadline: float) -> Any:
    @functools.wraps(case)
    async def run(*arguments: Any, **named: Any) -> None:
        try:
            async with asyncio.timeout(deadline - time.monotonic()) as limit:
                await case(*arguments, **named)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise AssertionError(f"the case is over its limit of {seconds:.0f} s") from error

    return run
