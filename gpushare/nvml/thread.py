"""The thread in which NVML is asked: a driver may take seconds, or for ever, and the rest must go on."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


class NvmlThread:
    """One thread, one question at a time, in their order. ``close`` does not wait: a call may hang in the driver.

    It is a daemon: a program that ends does not wait for a driver that does not answer.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        # When the question under way was asked.
        self._asked: float | None = None
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)
        self._thread.start()

    async def run(self, question: Callable[[], _T]) -> _T:
        """The question's answer, or its exception. A caller that is cancelled stops waiting; a question under way goes on."""
        answer: Future[_T] = Future()
        self._work.put((question, answer))
        return await asyncio.wrap_future(answer)

    def silent_seconds(self) -> float:
        """How long the question under way has had no answer; 0 if there is none."""
        asked = self._asked
        return 0.0 if asked is None else time.monotonic() - asked

    def close(self, last: Callable[[], object] = lambda: None) -> None:
        """Do what was asked, then ``last``, then end; waits for none of it."""
        self._work.put((last, Future()))
        self._work.put(None)

    def join(self, seconds: float) -> bool:
        """Wait for the end, at most this long; whether it came."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        for question, answer in iter(self._work.get, None):
            if not answer.set_running_or_notify_cancel():
                continue
            self._asked = time.monotonic()
            try:
                answer.set_result(question())
            except BaseException as error:  # it belongs to the caller
                answer.set_exception(error)
            self._asked = None
