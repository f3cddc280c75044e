"""The thread in which NVML is asked: a driver may take seconds, or for ever, and the rest must go on."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")


@dataclass(slots=True)
class _Work:
    """A question, the future of its answer, and how often it may yet be asked again at ``due`` (of ``time.monotonic``)."""

    question: Callable[[], object]
    answer: asyncio.Future[object] | None
    repeats: int = 0
    every: float = 0.0
    due: float = 0.0


class NvmlThread:
    """One thread, one question at a time, in their order. ``close`` does not wait: a call may hang in the driver.

    It is a daemon: a program that ends does not wait for a driver that does not answer.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        # When the question under way was asked.
        self._asked: float | None = None
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)
        self._thread.start()

    async def run(self, question: Callable[[], _T]) -> _T:
        """The question's answer, or its exception. A caller that is cancelled stops waiting; the question runs to its end."""
        return await self.until_true(question, times=1, every=0)

    async def until_true(self, question: Callable[[], _T], *, times: int, every: float) -> _T:
        """Ask again every ``every`` seconds until the answer is true, at most ``times`` times; the last answer.

        The loop is free until then, and other questions are asked in between.
        """
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._work.put(_Work(question, answer, times - 1, every))
        return await answer  # type: ignore[return-value]  # the answer to this very question

    def silent_seconds(self) -> float:
        """How long the question under way has had no answer; 0 if there is none."""
        asked = self._asked
        return 0.0 if asked is None else time.monotonic() - asked

    def close(self, last: Callable[[], object] = lambda: None) -> None:
        """Do what was asked, then ``last``, then end; waits for none of it."""
        self._work.put(_Work(last, None))
        self._work.put(None)

    def join(self, seconds: float) -> bool:
        """Wait for the end, at most this long; whether it came."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        waiting: list[_Work] = []
        while True:
            # One that is due comes before those that were put later, however many they are.
            due = min(waiting, key=lambda one: one.due, default=None)
            left = None if due is None else due.due - time.monotonic()
            try:
                work = self._work.get(timeout=left) if left is None or left > 0 else due
            except queue.Empty:
                work = due
            if work is None:
                return
            if work is due:
                waiting.remove(work)
            self._asked = time.monotonic()
            if not _ask(work):
                waiting.append(work)
            self._asked = None


def _ask(work: _Work) -> bool:
    """Ask once; whether that was the last time."""
    try:
        result, error = work.question(), None
    except BaseException as raised:  # it belongs to the caller
        result, error = None, raised
    if work.answer is None:
        return True
    if not (result or error) and work.repeats > 0 and not work.answer.cancelled():
        work.repeats -= 1
        work.due = time.monotonic() + work.every
        return False
    # A closed loop has no caller that waits.
    with contextlib.suppress(RuntimeError):
        work.answer.get_loop().call_soon_threadsafe(_settle, work.answer, result, error)
    return True


def _settle(answer: asyncio.Future[object], result: object, error: BaseException | None) -> None:
    if answer.cancelled():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)
