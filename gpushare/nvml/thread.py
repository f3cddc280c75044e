"""The thread that NVML is asked in: a driver may take seconds, or for ever, and the rest must go on meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
_Work = tuple[Callable[[], object], "asyncio.Future[object] | None"]


class NvmlThread:
    """One thread, one question at a time, in their order. ``close`` does not wait: a call may hang in the driver.

    It is a daemon: a program that ends does not wait for a driver that does not answer.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)
        self._thread.start()

    async def run(self, question: Callable[[], _T]) -> _T:
        """The question's answer, or what it raised. Who is cancelled stops waiting; the question runs to its end."""
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._work.put((question, answer))
        return await answer  # type: ignore[return-value]  # the answer to this very question

    def close(self, last: Callable[[], object] = lambda: None) -> None:
        """Do what was asked, then ``last``, then end; waits for none of it."""
        self._work.put((last, None))
        self._work.put(None)

    def join(self, seconds: float) -> bool:
        """Wait for the end, at most so long; whether it came."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            question, answer = work
            try:
                result, error = question(), None
            except BaseException as raised:  # it belongs to whoever asked
                result, error = None, raised
            if answer is not None:
                # A loop that is closed has nobody left who waits.
                with contextlib.suppress(RuntimeError):
                    answer.get_loop().call_soon_threadsafe(_settle, answer, result, error)


def _settle(answer: asyncio.Future[object], result: object, error: BaseException | None) -> None:
    if answer.cancelled():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)
