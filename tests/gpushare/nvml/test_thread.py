"""Promises of gpushare.nvml.thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from gpushare.nvml.thread import NvmlThread
from tests.servers import until


@pytest.fixture
def thread() -> Iterator[NvmlThread]:
    """Ended after the test."""
    started = NvmlThread()
    yield started
    started.close()
    assert started.join(30)


async def test_questions_are_asked_one_at_a_time_in_their_order(thread: NvmlThread) -> None:
    """In one thread, which is not the loop's."""
    seen: list[tuple[int, str]] = []
    await asyncio.gather(
        *(thread.run(lambda n=n: seen.append((n, threading.current_thread().name))) for n in range(20))
    )

    assert seen == [(n, "nvml") for n in range(20)]


async def test_only_the_present_question_counts_as_silent(thread: NvmlThread) -> None:
    """Many questions that together take long are no driver that does not answer."""
    begun: list[float] = []
    release = threading.Semaphore(0)

    def question() -> bool:
        begun.append(time.monotonic())
        return release.acquire()

    asked = [asyncio.create_task(thread.run(question)) for _ in range(3)]
    ended = time.monotonic()
    for number in range(3):
        await until(lambda number=number: len(begun) > number)
        least = time.monotonic() - begun[number]
        silent = thread.silent_seconds()
        assert least <= silent <= time.monotonic() - ended
        ended = time.monotonic()
        release.release()
    await asyncio.gather(*asked)
    await until(lambda: thread.silent_seconds() == 0)


def test_a_loop_that_is_gone_gets_no_answer(thread: NvmlThread) -> None:
    """The program ended while the driver was thinking."""
    release = threading.Event()

    async def leave() -> None:
        asyncio.get_running_loop().call_soon(asking.append, asyncio.ensure_future(thread.run(release.wait)))
        await asyncio.sleep(0)

    asking: list[asyncio.Future[bool]] = []
    asyncio.run(leave())
    release.set()

    assert asyncio.run(thread.run(lambda: "on")) == "on"


def test_the_last_question_is_done_before_the_end() -> None:
    """NVML is let go in the thread that used it."""
    done: list[str] = []
    thread = NvmlThread()
    thread.close(lambda: done.append(threading.current_thread().name))

    assert (thread.join(30), done) == (True, ["nvml"])
