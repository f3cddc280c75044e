"""How much work a call does, counted and not timed.

A step is a line of Python that is run, a call, or a call of a function in C. Bytes are the peak of allocations beyond
what was there before (tracemalloc). Both are the same on every machine. Together they see every loop: one in Python makes steps,
and one in C that makes something of its input (split, a decoder, a set) makes bytes. Neither sees C code that only looks at
a text once, as a comparison does; at the sizes that the API takes, that is well below a millisecond.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass(frozen=True, slots=True)
class Work:
    """The cost of a call."""

    steps: int
    bytes: int


class _EnoughError(BaseException):
    """Ends a call that takes too long; not an Exception, so that the tested code does not catch it."""


def steps_of(call: Callable[[], object], most: int = 10_000_000) -> int:
    """Lines and calls, in the tested code and in all that it calls. An error ends the count, and is no failure.

    So do more steps than ``most``: a test that fails need not wait for all of them.
    """
    steps = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:  # the interpreter's own signature
        nonlocal steps
        steps += event in ("call", "line", "c_call")
        if steps > most:
            raise _EnoughError
        return count

    before = sys.gettrace(), sys.getprofile()
    with _collector_off():
        sys.setprofile(lambda frame, event, argument: count(frame, event, argument) if event == "c_call" else None)
        sys.settrace(count)
        try:
            call()
        except (Exception, _EnoughError):  # a refusal is an answer
            pass
        finally:
            # The two calls that end the count are not to be ended by it.
            counted, most = steps, sys.maxsize
            sys.settrace(before[0])
            sys.setprofile(before[1])
    return counted


def bytes_of(call: Callable[[], object]) -> int:
    """The peak of allocations during the call."""
    with _collector_off():
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            with contextlib.suppress(Exception):
                call()
            return tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    """Keep the garbage collector from running during a count.

    A collection would lower the peak of allocations, and the finalizers of objects that earlier tests left would add steps.
    A collection before each call would take longer the more a process remembers of its earlier tests.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def returned_of(call: Callable[[], object], function: Callable[..., Any]) -> list[tuple[dict[str, Any], Any]]:
    """Arguments and answer of each call of ``function`` during ``call``."""
    found: list[tuple[dict[str, Any], Any]] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "return" and frame.f_code is function.__code__:
            found.append((dict(frame.f_locals), argument))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        with contextlib.suppress(Exception):
            call()
    finally:
        sys.setprofile(before)
    return found
